"""Mistakes with banded noise (R28), and with records of one's own that come twice."""

from __future__ import annotations

from mutants._mutant import Mutant, Patch

_EVENT = "tests/privacy/accounting/test_banded.py"
_ENGINE = "tests/learn/engine/test_banded_noise.py"

MUTANTS = (
    Mutant(
        "430",
        "banded: a unit's turns are counted once, however many it has",
        (
            Patch(
                "privacy/_events.py",
                "return math.fsum((whole * math.fsum(squares), math.fsum(squares[:rest])))",
                "return math.fsum(squares)",
            ),
        ),
        (f"{_EVENT}::test_no_pattern_moves_the_sums_further_than_the_event_says",),
    ),
    Mutant(
        "431",
        "banded: turns closer than the bands are accepted",
        (Patch("privacy/_events.py", "if self.separation < self.bands:", "if False:"),),
        (f"{_EVENT}::test_turns_that_come_closer_than_the_bands_would_move_more_and_are_refused",),
    ),
    Mutant(
        "432",
        "banded: add-remove is accounted, though one who is missing moves the others' turns",
        (
            Patch(
                "privacy/accounting/_terms.py",
                "            if relation is Relation.ADD_REMOVE:\n                raise AccountingError(\n"
                "                    \"A unit's steps",
                "            if False:\n                raise AccountingError(\n"
                "                    \"A unit's steps",
            ),
        ),
        (f"{_EVENT}::test_add_remove_is_refused",),
    ),
    Mutant(
        "433",
        "banded: replace counted like zero-out",
        (
            Patch(
                "privacy/_events.py",
                "doubled = relation is Relation.REPLACE\n        return (2.0 if doubled else 1.0) * math.sqrt",
                "doubled = False\n        return (2.0 if doubled else 1.0) * math.sqrt",
            ),
        ),
        (f"{_EVENT}::test_one_band_and_a_turn_in_every_step_is_the_plain_gaussian",),
    ),
    Mutant(
        "434",
        "banded: a group moves no further than one",
        (
            Patch(
                "privacy/accounting/_terms.py",
                "            moved = group * event.sensitivity(relation)\n"
                "            found[GaussianTerm(moved / event.noise_multiplier)] += times\n"
                "        case RandomizedResponse():",
                "            moved = event.sensitivity(relation)\n"
                "            found[GaussianTerm(moved / event.noise_multiplier)] += times\n"
                "        case RandomizedResponse():",
            ),
        ),
        (f"{_EVENT}::test_epsilon_grows_with_steps_relation_and_group_and_falls_with_separation",),
    ),
    Mutant(
        "435",
        "banded: turns begin anew after a restart",
        (Patch("learn/_trainer.py", "first=state.spent,", "first=0,"),),
        (f"{_ENGINE}::test_a_training_takes_everybody_in_turn_and_goes_on_after_a_crash",),
    ),
    Mutant(
        "436",
        "banded: everybody takes part in every step",
        (
            Patch(
                "learn/engine/_banded.py",
                "np.arange(turn, self._count, self._slots, dtype=np.int64)",
                "np.arange(self._count, dtype=np.int64)",
            ),
        ),
        (f"{_ENGINE}::test_every_unit_has_its_turn_and_none_before_its_time",),
    ),
    Mutant(
        "437",
        "banded: earlier noise is kept where the step may change it",
        (
            Patch(
                "learn/engine/_banded.py",
                "self._before.appendleft(noise.clone())",
                "self._before.appendleft(noise)",
            ),
        ),
        (f"{_ENGINE}::test_bands_undo_the_noise_to_independent_normal_values",),
    ),
    Mutant(
        "438",
        "banded: noise for a single turn",
        (
            Patch(
                "learn/_plan.py",
                "return one * self._banded(1.0, self.steps).sensitivity(Relation.ZERO_OUT) * (1 + 1e-12)",
                "return one",
            ),
        ),
        (f"{_ENGINE}::test_the_plan_has_the_noise_that_its_promise_needs",),
    ),
    Mutant(
        "439",
        "arrays: one record in two rows",
        (Patch("data/_npz.py", "        if content in seen:", "        if False:"),),
        ("tests/data/test_npz_and_fsdd.py::test_arrays_that_do_not_fit_are_one_sentence",),
    ),
)
