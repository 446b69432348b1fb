"""Mistakes of accountants and of what a promise may say (34, 43), and some of our own."""

from __future__ import annotations

from mutants._mutant import Mutant, Patch

_TABLE = "tests/privacy/accounting/test_accounting_table.py"
_LEMMAS = "tests/privacy/accounting/test_lemmas.py"
_EXTREMES = "tests/privacy/accounting/test_extremes.py"
_UNTILTED = Patch(
    "privacy/accounting/_pld.py",
    "rate = _ROOM * (moments.best_rate(delta) if epsilon is None else moments.log_delta(epsilon)[0])",
    "rate = 1e-6 / moments.spread",
)

_BEST_OF = "tests/privacy/accounting/test_best_of.py"
MUTANTS = (
    Mutant(
        "34a",
        "accountant: add-remove for a substitution unit",
        (
            Patch(
                "privacy/accounting/_terms.py",
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
                "privacy/accounting/_calibration.py",
                "steps = math.ceil(passes - 1e-9)",
                "steps = math.floor(epochs) * math.floor(1 / sampling_rate)",
            ),
        ),
        ("tests/privacy/accounting/test_calibration.py::test_schedules",),
    ),
    Mutant(
        "34c",
        "accountant: alpha^q for alpha q (Theorem 1 as printed)",
        (
            Patch(
                "privacy/accounting/_rdp.py",
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
                "privacy/accounting/_rdp.py",
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
                "if stored < made.epsilon * (1 - _STORED_TOLERANCE) - 1e-12:",
                "if stored < 0:",
            ),
        ),
        ("tests/privacy/test_card.py::test_changed_promise_is_noticed",),
    ),
    Mutant(
        "220",
        "ours: masses that do not sum to one are believed (R17)",
        (
            Patch(
                "privacy/accounting/_losses.py",
                "if not (sound and abs(total - 1) <= _MASS_TOLERANCE):",
                "if False:",
            ),
        ),
        (f"{_EXTREMES}::test_masses_that_are_no_probabilities_are_refused",),
    ),
    Mutant(
        "221",
        "ours: exponentials of losses where logarithms belong",
        (
            Patch(
                "privacy/accounting/_losses.py",
                "root = np.logaddexp(half, np.logaddexp(2 * half, 2 * log_c + size) / 2)",
                "root = np.log(np.exp(half) + np.sqrt(np.exp(2 * half) + np.exp(2 * log_c + size)))",
            ),
        ),
        (f"{_EXTREMES}::test_little_noise_gives_a_huge_epsilon",),
    ),
    Mutant(
        "222",
        "accountant: the reverse order of the dominating pair dropped",
        (
            Patch(
                "privacy/accounting/_pld.py",
                "return found, _compose(reverse, interval, delta, epsilon)",
                "return (found,)",
            ),
        ),
        (f"{_EXTREMES}::test_both_orders_of_a_pair_are_composed",),
    ),
    Mutant(
        "223",
        "ours: the transform is not tilted",
        (_UNTILTED,),
        (f"{_EXTREMES}::test_many_steps_and_a_tiny_delta",),
    ),
    Mutant(
        "224",
        "ours: neither tilted nor charged for rounding (as it was)",
        (
            _UNTILTED,
            Patch(
                "privacy/accounting/_pld.py",
                "masses = (np.maximum(tilted, 0.0) + error)",
                "masses = np.maximum(tilted, 0.0)",
            ),
        ),
        (f"{_EXTREMES}::test_many_steps_and_a_tiny_delta",),
    ),
    Mutant(
        "225",
        "ours: a group of one stands for a person of fifty records (R23)",
        (Patch("privacy/_guarantee.py", "if count < needed:", "if False:"),),
        ("tests/privacy/test_guarantee.py::test_a_group_that_is_too_small_is_refused",),
    ),
    Mutant(
        "226",
        "ours: private tokens restated as a record (R23)",
        (
            Patch(
                "privacy/_guarantee.py",
                "if needed is None:",
                "needed = needed or 1\n        if False:",
            ),
        ),
        ("tests/privacy/test_guarantee.py::test_other_units_cannot_be_restated_by_any_group",),
    ),
    Mutant(
        "227",
        "ours: a stored NaN or Infinity is believed",
        (
            Patch(
                "privacy/_guarantee.py",
                "if not is_real(stored) or not abs(stored) <= _LARGEST:",
                "if False:",
            ),
        ),
        ("tests/privacy/test_guarantee.py::test_a_stored_number_is_a_finite_number",),
    ),
    Mutant(
        "228",
        "ours: one released recording under add-remove (R23)",
        (
            Patch(
                "protect/noise/_extent.py",
                "if self.relation is Relation.ADD_REMOVE:",
                "if False:",
            ),
        ),
        (
            "tests/protect/noise/test_relations.py::test_a_released_recording_is_not_added_or_removed",
        ),
    ),
    Mutant(
        "229",
        "ours: events keep numbers of any type",
        (
            Patch(
                "privacy/_events.py",
                "return float(value) if is_real(value) else math.nan  # type: ignore[arg-type]",
                "return value if is_real(value) else math.nan  # type: ignore[return-value]",
            ),
        ),
        ("tests/privacy/test_events.py::test_the_type_of_a_number_changes_nothing",),
    ),
    Mutant(
        "230",
        "ours: a subclass of an event is believed",
        (
            Patch(
                "privacy/_events.py",
                "_EVENTS.get(value.name) is type(value)",
                "value.name in _EVENTS",
            ),
        ),
        ("tests/privacy/test_events.py::test_a_subclass_of_an_event_is_no_event",),
    ),
    Mutant(
        "250",
        "choice: the number of trials costs nothing",
        (
            Patch(
                "privacy/accounting/_rdp.py",
                "(run + paid + math.log(term.expected_runs) / (orders - 1))",
                "(run + paid)",
            ),
        ),
        (f"{_BEST_OF}::test_the_bound_is_theorem_2_order_by_order",),
    ),
    Mutant(
        "251",
        "choice: any distribution of trials is paid for as the logarithmic one",
        (Patch("privacy/accounting/_rdp.py", "paid = (1 + term.shape) *", "paid = 1.0 *"),),
        (f"{_BEST_OF}::test_the_bound_is_theorem_2_order_by_order",),
    ),
    Mutant(
        "252",
        "choice: every trial is drawn with the noise of a single training",
        (
            Patch(
                "learn/config/_tune_job.py",
                "_chosen(config, one, epsilon=each, delta=plan.delta)",
                "_chosen(config, one, delta=plan.delta)",
            ),
        ),
        ("tests/learn/config/test_tune.py::test_the_choice_is_paid_for_with_noise",),
    ),
    Mutant(
        "253",
        "choice: a copy of the model carries the promise of one trial",
        (
            Patch(
                "learn/config/_tune_job.py",
                "trainings=(*run.trainings[:-1], own),",
                "trainings=run.trainings,",
            ),
        ),
        (
            "tests/learn/config/test_tune.py::"
            "test_the_best_trial_is_written_with_a_promise_about_the_choice",
        ),
    ),
    Mutant(
        "237",
        "ours: a delta without digits is believed",
        (
            Patch(
                "privacy/accounting/_accountant.py",
                "if 0 < delta < SMALLEST_DELTA:",
                "if delta < 0:",
            ),
        ),
        (f"{_EXTREMES}::test_a_delta_without_digits_is_refused_and_the_least_one_is_right",),
    ),
)
