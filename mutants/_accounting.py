"""Mistakes of accountants and of what a promise may say (34, 43), and some of our own."""

from __future__ import annotations

from mutants._mutant import Mutant, Patch

_TABLE = "tests/privacy/test_accounting_table.py"
_LEMMAS = "tests/privacy/test_lemmas.py"

MUTANTS = (
    Mutant(
        "34a",
        "accountant: add-remove for a substitution unit",
        (
            Patch(
                "privacy/_terms.py",
                "replaced = relation is Relation.REPLACE",
                "replaced = False",
            ),
        ),
        (f"{_LEMMAS}::test_sampled_pairs_agree_with_integration",),
    ),
    Mutant(
        "34b",
        "accountant: steps of an epoch rounded down",
        (
            Patch(
                "privacy/_calibration.py",
                "steps = math.ceil(epochs / sampling_rate - 1e-9)",
                "steps = math.floor(epochs) * math.floor(1 / sampling_rate)",
            ),
        ),
        ("tests/privacy/test_calibration.py::test_schedules",),
    ),
    Mutant(
        "34c",
        "accountant: alpha^q for alpha q (Theorem 1 as printed)",
        (
            Patch(
                "privacy/_rdp.py",
                "        gammaln(order + 1)\n        - gammaln(count + 1)\n"
                "        - gammaln(order - count + 1)\n",
                "        np.where(count == 1, probability * math.log(order),\n"
                "        gammaln(order + 1) - gammaln(count + 1) - gammaln(order - count + 1))\n",
            ),
        ),
        (f"{_TABLE}::test_renyi_multipliers[NTU-0.5]", f"{_TABLE}::test_renyi_multipliers[NTU-5]"),
    ),
    Mutant(
        "34d",
        "accountant: Renyi orders capped at 63",
        (
            Patch(
                "privacy/_rdp.py",
                "_INTEGERS = np.arange(2.0, 1025.0)",
                "_INTEGERS = np.arange(2.0, 64.0)",
            ),
        ),
        (f"{_TABLE}::test_dense_orders_need_less_noise_than_a_coarse_grid_of_orders",),
    ),
    Mutant(
        "34e",
        "promises for different units added up",
        (Patch("privacy/_guarantee.py", "if self.unit != other.unit:", "if False:"),),
        ("tests/privacy/test_guarantee.py::test_different_units_do_not_add_up",),
    ),
    Mutant(
        "43",
        "public view with relation add-remove accepted",
        (
            Patch(
                "privacy/_units.py",
                "    UnitKind.MASKED_TOKENS: frozenset({Relation.REPLACE, Relation.ZERO_OUT}),\n"
                "    UnitKind.FEATURES: frozenset({Relation.REPLACE, Relation.ZERO_OUT}),\n",
                "    UnitKind.MASKED_TOKENS: frozenset(Relation),\n"
                "    UnitKind.FEATURES: frozenset(Relation),\n",
            ),
        ),
        ("tests/learn/test_plan.py::test_units_that_a_view_does_not_protect_are_refused",),
    ),
    Mutant(
        "48",
        "ours: a stored epsilon below its own event is believed",
        (
            Patch(
                "privacy/_guarantee.py",
                'if value["epsilon"] < made.epsilon * (1 - _STORED_TOLERANCE) - 1e-12:',
                'if value["epsilon"] < 0:',
            ),
        ),
        ("tests/privacy/test_card.py::test_changed_promise_is_noticed",),
    ),
)
