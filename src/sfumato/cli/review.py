"""``sfumato review``: a person looks at frames drawn by chance, and the card says what was seen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.markup import escape

from sfumato.cli._output import emit, ending, progress_bar
from sfumato.cli._verb import verb, verbs
from sfumato.errors import SfumatoError

if TYPE_CHECKING:
    from sfumato.protect import RecordedReview

app = verbs()
_SHOWN = 12


@verb(
    app,
    "sfumato review out.mp4 --sheet page.html",
    "sfumato review out.mp4 --answers answers.json --by 'Jane Doe'",
    "sfumato review released/ --frames 300 --sheet page.html",
)
def review(
    output: Path = typer.Argument(help="A released recording, or the folder of a release."),
    sheet: Path | None = typer.Option(
        None, help="Write the page to look at (OUTPUT.review.html beside it)."
    ),
    frames: int | None = typer.Option(
        None, min=1, max=10_000, help="How many frames to draw by chance (60)."
    ),
    answers: Path | None = typer.Option(None, help="The answers that the page saved."),
    by: str | None = typer.Option(None, help="Who looked: a name for the card."),
    sign_with: Path | None = typer.Option(
        None, "--sign", help="The key file that signed the card, to sign it again."
    ),
    *,
    force: bool,
    as_json: bool,
) -> None:
    """Look at frames of OUTPUT drawn by chance; its card then says on how many somebody is left."""
    from sfumato import protect

    if answers is None:
        if by is not None or sign_with is not None:
            raise SfumatoError(
                "Expected --answers FILE with --by and --sign, got none: write the page first, look at "
                "it, and give its answers back."
            )
        page = sheet or Path(f"{output.absolute()}.review.html")
        with progress_bar(hidden=as_json):
            sample = protect.write_review_page(
                output, page, frames=frames or protect.USUAL_SAMPLE, force=force
            )
        last = ending(
            f"wrote {page}: {len(sample.drawn)} of {sample.frames} frames to look at in a browser.",
            "nobody has looked yet.",
            f"sfumato review {output} --answers answers.json --by NAME",
        )
        emit(as_json, {"sheet": page.name, "sampled": len(sample.drawn)}, *last)
        return
    if sheet is not None or frames is not None or by is None:
        raise SfumatoError(
            "Expected --answers FILE with --by NAME, and neither --sheet nor --frames, got others: a page "
            "is written by one call and its answers are read by another."
        )
    with progress_bar(hidden=as_json):
        recorded = protect.record_review(
            output, protect.read_answers(answers), by=by, sign_with=sign_with
        )
    _finish(recorded, output, as_json)


def _finish(recorded: RecordedReview, output: Path, as_json: bool) -> None:
    left = recorded.left
    shown = [f"  somebody is left on frame {frame} of {name}" for name, frame in left[:_SHOWN]]
    if len(left) > _SHOWN:
        shown.append(f"  and on {len(left) - _SHOWN} more")
    last = ending(
        f"the card says it now. {recorded.first.of_release}",
        "nothing is proven about frames that nobody looked at."
        if not left
        else "somebody can be seen: do not share this release.",
        f"sfumato verify {output}"
        if not left
        else "protect the recording again with --cover 'FRAMES:X,Y,WIDTH,HEIGHT' where somebody is left, "
        "or correct the boxes (--export-boxes, --import-boxes); then review that.",
    )
    emit(as_json, recorded.to_json(), *map(escape, shown), *last, ok=not left)
