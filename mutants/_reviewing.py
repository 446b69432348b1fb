"""Mistakes in what people see, leave open and cover by hand (401-412)."""

from __future__ import annotations

from mutants._mutant import Mutant, Patch

_CARDS = "tests/privacy/test_reviews_on_cards.py"
_REVIEW = "tests/protect/test_frame_review.py"
_BY_HAND = "tests/protect/hide/test_by_hand.py"
_OPTIONS = "tests/cli/test_options_without_effect.py"
_SETTINGS = "tests/cli/test_odd_settings.py"
_TOOL_FILES = "tests/protect/avatar/test_broken_tool_files.py"

MUTANTS = (
    Mutant(
        "401",
        "review: the limit of the wrong side",
        (
            Patch(
                "privacy/_frame_review.py",
                "return float(at_most(misses, sampled, 1 - CONFIDENCE))",
                "return float(at_most(misses, sampled, CONFIDENCE))",
            ),
        ),
        (f"{_CARDS}::test_limit_holds_in_95_of_100_draws_without_replacement",),
    ),
    Mutant(
        "402",
        "review: answers about another release are taken",
        (
            Patch(
                "protect/_frame_review.py",
                "    if release != _digest(cards):\n        raise _another_release()\n    return",
                "    return",
            ),
        ),
        (f"{_REVIEW}::test_answers_about_another_release_are_refused",),
    ),
    Mutant(
        "403",
        "card: a review is taken from the card of another output",
        (Patch("privacy/_card.py", "if review.output != self.content:", "if not review.output:"),),
        (f"{_CARDS}::test_review_of_another_output_is_refused",),
    ),
    Mutant(
        "404",
        "card: a stated limit is believed that its counts do not give",
        (
            Patch(
                "privacy/_frame_review.py",
                "if not float(stated) >= made.share_at_most * (1 - 1e-9):",
                "if not float(stated) >= 0:",
            ),
        ),
        (f"{_CARDS}::test_stated_review_that_its_counts_do_not_give_is_refused",),
    ),
    Mutant(
        "405",
        "review: whoever cannot tell has seen nobody",
        (
            Patch(
                "privacy/_frame_review.py",
                "return self.misses + self.unsure",
                "return self.misses",
            ),
        ),
        (f"{_REVIEW}::test_unsure_counts_as_a_miss",),
    ),
    Mutant(
        "406",
        "by hand: a track is left open that nobody named",
        (
            Patch(
                "protect/hide/_by_hand.py",
                "rest = [person for person in found if inside and person.track not in chosen]",
                "rest = [person for person in found if inside and person.track > max(chosen, default=-1)]",
            ),
        ),
        (f"{_BY_HAND}::test_named_track_alone_is_left_open",),
    ),
    Mutant(
        "407",
        "by hand: a track that nobody has is passed over",
        (
            Patch(
                "protect/hide/_by_hand.py",
                "self._seen |= {person.track for person in found} & chosen",
                "self._seen |= chosen",
            ),
        ),
        (f"{_BY_HAND}::test_track_that_nobody_has_is_refused_and_nothing_released",),
    ),
    Mutant(
        "408",
        "check: where somebody is left open on purpose, nobody is looked for",
        (
            Patch(
                "protect/hide/_open_on_purpose.py",
                "return is_one_of(box, place.heads) and not is_one_of(box, place.covered)",
                "return bool(place.heads)",
            ),
        ),
        (f"{_BY_HAND}::test_output_check_passes_over_named_people_and_no_others",),
    ),
    Mutant(
        "409",
        "folder: boxes, masks and poses of one recording are used for all of them",
        (
            Patch(
                "protect/_command.py",
                "if (given := _about_one_recording(settings)) is not None:",
                "if (given := _about_one_recording({})) is not None:",
            ),
        ),
        (f"{_OPTIONS}::test_what_is_known_of_one_recording_is_not_used_for_a_folder",),
    ),
    Mutant(
        "410",
        "settings: an empty value switches off what null switches off",
        (Patch("settings.py", "if not value.strip():", "if value.isspace():"),),
        (f"{_SETTINGS}::test_a_value_that_is_not_there_switches_nothing_off",),
    ),
    Mutant(
        "411",
        "audit: a promise that nobody made is said to be not refuted",
        (
            Patch(
                "cli/audit.py",
                "if isinstance(verdict.promise, NoGuarantee):",
                "if isinstance(verdict.promise, NoGuarantee) and verdict.refuted:",
            ),
        ),
        (
            "tests/audit/certify/test_verdict.py::"
            "test_where_nothing_is_promised_the_last_lines_say_that_nothing_was_tried",
        ),
    ),
    Mutant(
        "412",
        "avatar: other tools' files are read whatever they are, pipes and devices too",
        (
            Patch(
                "protect/avatar/_tools.py",
                "if not path.is_file():",
                "if not path.is_file() and not path.exists():",
            ),
        ),
        (f"{_TOOL_FILES}::test_a_broken_file_is_one_sentence_and_no_output[masks-folder.json]",),
    ),
)
