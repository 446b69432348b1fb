"""The audit of leaks as one call: look at every clip, and write what was found beside the release."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sfumato.audit._released import audit_output_path
from sfumato.audit.attack._leaks import ClipVerdict, LeakReport, joined, leaks_by_clip
from sfumato.audit.measure import measures_path, write_measures
from sfumato.errors import SfumatoError
from sfumato.files import is_within, refuse_overwrite
from sfumato.jobs import Engine
from sfumato.media import write_image
from sfumato.privacy import PRIVATE_NOTE


@dataclass(frozen=True)
class LeakAudit:
    """What was found, clip by clip and together, and where it is written."""

    report: LeakReport
    verdicts: list[ClipVerdict]
    measures: Path
    sheet: Path | None

    @property
    def passed(self) -> bool:
        return all(each.passed for each in self.verdicts)

    @property
    def unseen(self) -> list[ClipVerdict]:
        return [each for each in self.verdicts if each.report is None]


def audit_leaks(
    output: Path,
    pairs: Iterable[tuple[Path, Path | None]],
    *,
    out: Path | None = None,
    faces_only: bool | None = None,
    every: int = 1,
    force: bool = False,
    engine: Engine | None = None,
) -> LeakAudit:
    """Look for people in a release, each output with its original or None.

    Measures, and a private sheet of protected frames with whoever is still found, are written beside
    the release or at ``out``.
    """
    folder = output if output.is_dir() else None
    base = audit_output_path(output, "leaks") if out is None else out
    if folder is not None and is_within(base, folder):
        raise SfumatoError(
            "Expected a place beside the released folder for what an audit writes, got one inside: "
            "it would be sent with the release. Choose another --out."
        )
    target, sheet = measures_path(base), base.with_name(base.name + ".png")
    for path in (sheet, target):
        refuse_overwrite(path, force=force)
    verdicts = leaks_by_clip(pairs, root=folder, faces_only=faces_only, every=every, engine=engine)
    unseen = [each for each in verdicts if each.report is None]
    if len(unseen) == len(verdicts):
        raise SfumatoError(unseen[0].reason if unseen else "Expected recordings, found none.")
    report = joined(each.report for each in verdicts if each.report is not None)
    write_measures(
        target, report.results(), title="Residual people", settings={"every": every},
        commands=["sfumato audit leaks OUTPUT"], force=force,
    )  # fmt: skip
    shown = report.sheet()
    if shown is not None:
        write_image(sheet, shown, note=PRIVATE_NOTE, force=force)
        sheet.chmod(0o600)
    return LeakAudit(report, verdicts, target, None if shown is None else sheet)
