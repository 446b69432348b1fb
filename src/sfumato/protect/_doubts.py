"""Which frames to look at first: few spans, the worst first, and a count of frames, not of doubts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sfumato.people import DoubtfulSpan

# How bad a frame of each kind is: somebody who is followed without being seen may stand elsewhere; a
# frame that is blank shows nobody.
_WEIGHTS = {"held": 3.0, "bridged": 2.0, "unsure": 1.0, "blank": 0.1}
_NEAR = 6  # frames between two doubts of one kind about one track that are one doubt
_HANDFUL, _NAMED = 5, 2


def ranked(spans: Iterable[DoubtfulSpan]) -> list[DoubtfulSpan]:
    """Doubts of one kind about one track that lie together as one; the worst first."""
    joined: dict[tuple[str, int], list[DoubtfulSpan]] = {}
    for span in sorted(spans, key=lambda span: span.first):
        of_track = joined.setdefault((span.reason, span.track), [])
        if of_track and span.first - of_track[-1].last <= _NEAR:
            before = of_track[-1]
            last = max(before.last, span.last)
            of_track[-1] = DoubtfulSpan(before.first, last, span.reason, span.track)
        else:
            of_track.append(span)
    return sorted((span for each in joined.values() for span in each), key=_order)


def _order(span: DoubtfulSpan) -> tuple[float, int, int]:
    weight = _WEIGHTS.get(span.reason, 1.0)
    return -weight * (span.last - span.first + 1), span.first, span.track


def doubtful_frames(spans: Iterable[DoubtfulSpan]) -> int:
    """How many frames are doubtful, each counted once whatever the reasons."""
    count, after = 0, 0
    for first, last in sorted((span.first, span.last) for span in spans):
        count += max(0, last + 1 - max(first, after))
        after = max(after, last + 1)
    return count


def look_first(spans: Sequence[DoubtfulSpan]) -> list[str]:
    """A handful of doubts in words, the worst first; what lies at one time is said once."""
    windows: list[tuple[int, int, list[str]]] = []
    for span in ranked(spans):
        words = f"track {span.track} {span.reason}" if span.track >= 0 else span.reason
        for first, last, said in windows:
            if first <= span.first and span.last <= last:
                said.append(words)
                break
        else:
            if len(windows) < _HANDFUL:
                windows.append((span.first, span.last, [words]))
    return [f"{_frames(first, last)} ({_few(said)})" for first, last, said in windows]


def _frames(first: int, last: int) -> str:
    return f"frame {first}" if first == last else f"frames {first}-{last}"


def _few(said: list[str]) -> str:
    more = [f"{len(said) - _NAMED} more"] if len(said) > _NAMED else []
    return ", ".join([*said[:_NAMED], *more])
