"""Mistakes in long recordings that are worked on in spans (451-458)."""

from __future__ import annotations

from mutants._mutant import Mutant, Patch

_SPANS = "tests/protect/test_spans.py"
_PARTS = "tests/jobs/test_parts.py"
_FRAMES = "tests/media/test_spans_of_frames.py"
_LOOKS = "tests/people/track/test_known_looks.py"

MUTANTS = (
    Mutant(
        "451",
        "spans: every span draws from the beginning of the key stream",
        (Patch("protect/noise/_dprp.py", "stream.skip_to(first // block)", "stream.skip_to(0)"),),
        (f"{_SPANS}::test_seeded_noise_is_that_of_one_run",),
    ),
    Mutant(
        "452",
        "spans: the last block may be cut off from the one that it shares frames with",
        (
            Patch(
                "protect/_method.py",
                "last = (frames // self.block - 1) * self.block",
                "last = frames // self.block * self.block",
            ),
        ),
        (f"{_SPANS}::test_spans_are_whole_blocks_of_one_run",),
    ),
    Mutant(
        "453",
        "spans: masks know nothing of the frames around the span",
        (Patch("protect/hide/_hiding.py", "people.MOST_AWAY if region.makes_masks else 0", "0"),),
        (f"{_SPANS}::test_a_span_whose_people_need_masks_reads_the_frames_around_it",),
    ),
    Mutant(
        "454",
        "spans: a look of another turn is taken for this one",
        (
            Patch(
                "people/track/_find.py",
                "if known is not None and known[0] == at.turn:",
                "if known is not None:",
            ),
        ),
        (f"{_LOOKS}::test_a_look_that_nobody_made_or_on_another_turn_is_made_here",),
    ),
    Mutant(
        "455",
        "spans: numbers lose their kind on the way",
        (
            Patch(
                "people/_lines.py",
                "return value if letter is None else [letter, value.item()]",
                "return value if letter is None else value.item()",
            ),
        ),
        (
            f"{_LOOKS}::test_lines_keep_the_kind_of_every_number",
            f"{_LOOKS}::test_whoever_is_followed_from_known_looks_is_who_one_run_follows",
        ),
    ),
    Mutant(
        "456",
        "spans: what the check found in a span is forgotten once it was covered more",
        (
            Patch(
                "protect/hide/_hiding.py",
                "boxes = {n: [*each] for n, each in self._left.items() if first <= n < stop}",
                "boxes = {n: each for n, each in self._left.items() if first <= n < stop}",
            ),
        ),
        (f"{_SPANS}::test_whoever_the_check_finds_again_is_covered_by_a_third_try",),
    ),
    Mutant(
        "457",
        "spans: another file may stand in the place of a piece",
        (
            Patch(
                "jobs/_parts.py",
                "require_plain_files(self.folder, self.digests, read=True)",
                "require_plain_files(self.folder, self.digests, read=False)",
            ),
        ),
        (
            f"{_PARTS}::test_a_part_is_what_its_worker_wrote",
            f"{_SPANS}::test_a_span_that_is_not_there_as_it_was_made_stops_the_release",
        ),
    ),
    Mutant(
        "458",
        "spans: a piece may lack frames",
        (
            Patch(
                "media/_writer.py",
                "        if came != len(times):\n            raise self._other_piece(str(came), len(times))\n",
                "",
            ),
        ),
        (f"{_FRAMES}::test_pieces_that_do_not_fit_are_refused",),
    ),
)
