"""Methods one after the other, and what is still guaranteed then (R10)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sfumato.jobs import Needs
from sfumato.media import Frame
from sfumato.privacy import Guarantee, NoGuarantee, UnitKind
from sfumato.protect._method import Method, Promise, ProtectError, Shape


class Chain(Method):
    """Each stage works on what the one before made.

    Guarantee: that of the first stage that has one. What comes after it is post-processing. If a
    stage without guarantee comes before it, one input pixel may have changed everything: only the
    units clip and video survive, and any other is refused.

    | stages | promise |
    | --- | --- |
    | dp, anything | that of dp |
    | anything, dp for clip or video | that of dp |
    | anything, dp for pixels or frame | refused |
    | no dp at all | none |
    | a stage reads boxes or a mask that is not declared public | none |
    """

    def __init__(self, stages: Sequence[Method]) -> None:
        super().__init__()
        if len(stages) < 2:
            raise ProtectError("Expected at least two methods to chain.")
        self.stages = tuple(stages)
        # a later stage sees what the stages before it made, not the recording
        self.region, self.watchers = stages[0].region, stages[0].watchers
        every = [stage.needs for stage in stages]
        self.needs = Needs(
            max(each.cpus for each in every),
            sum(each.memory for each in every),
            max(each.gpus for each in every),
        )
        self.draws_at_random = any(each.draws_at_random for each in stages)  # type: ignore[misc]
        self.name = "+".join(stage.name for stage in stages)  # type: ignore[misc]
        self.summary = ", then ".join(stage.summary for stage in stages)  # type: ignore[misc]

    @property
    def lookahead(self) -> int:
        return sum(stage.lookahead for stage in self.stages)

    def lookahead_for(self, shape: Shape) -> int:
        return sum(stage.lookahead_for(shape) for stage in self.stages)

    @property
    def uses_side_files(self) -> bool:
        return any(stage.uses_side_files for stage in self.stages)

    @property
    def needs_length(self) -> bool:
        return any(stage.needs_length for stage in self.stages)

    @property
    def settings(self) -> dict[str, Any]:
        return {
            f"{number}. {stage.name}": stage.settings
            for number, stage in enumerate(self.stages, start=1)
        }

    @property
    def packages(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each for stage in self.stages for each in stage.packages))

    @property
    def temporary_files(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each for stage in self.stages for each in stage.temporary_files))

    @property
    def detectors_used(self) -> tuple[tuple[str, str], ...]:
        return tuple(each for stage in self.stages for each in stage.detectors_used)

    def promise(self, shape: Shape) -> Promise:
        promises = [stage.promise(shape) for stage in self.stages]
        # one seeded stage makes the whole chain not private
        labels = sorted({promise.randomness for promise in promises})
        label = labels[-1]
        beside = [stage.name for stage in self.stages if stage.uses_side_files]
        proven = [n for n, promise in enumerate(promises) if isinstance(promise, Guarantee)]
        if proven and not beside:
            promise = promises[proven[0]]
            assert isinstance(promise, Guarantee)
            if proven[0] > 0:
                _require_whole_unit(promise, self.stages[proven[0] - 1].name)
            return _with_stages(promise, self.stages, proven[0], label)
        reason = "None of the chained methods proves anything."
        if proven:
            reason = (
                f"The method {beside[0]} reads a file that may have been made from the recording "
                "itself, past the noise: declare a public mask, or leave the file out."
            )
        return NoGuarantee(
            mechanism=self.name,
            reason=reason,
            assumptions=_united(promises, "assumptions"),
            not_covered=_united(promises, "not_covered"),
            randomness=label,
        )

    def remarks(self, shape: Shape) -> list[str]:
        return [remark for stage in self.stages for remark in stage.remarks(shape)]

    def transform(self, frames: Iterator[Frame], shape: Shape) -> Iterator[Frame]:
        for stage in self.stages:
            frames = stage.transform(frames, shape)
        return frames

    def check_output(self, source: Path, made: Path, *, tolerant: bool = False) -> None:
        for stage in self.stages:
            stage.check_output(source, made, tolerant=tolerant)


def _require_whole_unit(promise: Guarantee, before: str) -> None:
    if promise.unit.kind not in {UnitKind.CLIP, UnitKind.VIDEO}:
        raise ProtectError(
            f"Expected the unit clip or video after {before}, which proves nothing, got "
            f"{promise.unit}: one pixel of the recording may change everything that {before} makes. "
            "Change the unit or the order."
        )


def _with_stages(promise: Guarantee, stages: Sequence[Method], at: int, label: str) -> Guarantee:
    notes = []
    if before := [stage.name for stage in stages[:at]]:
        notes.append(
            f"{', '.join(before)} came before the noise, kept size and length, and that the run "
            "did not stop tells nothing"
        )
    if after := [stage.name for stage in stages[at + 1 :]]:
        notes.append(f"{', '.join(after)} saw nothing but the protected recording")
    return replace(
        promise,
        mechanism="+".join(stage.name for stage in stages),
        assumptions=(*promise.assumptions, *notes),
        randomness=label,
    )


def _united(promises: Sequence[Promise], name: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each for promise in promises for each in getattr(promise, name)))
