"""``sfumato predict IMAGE|VIDEO -o OUT``: skeletons of people, drawn by a trained pose model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sfumato.cli._output import emit, ending, progress_bar
from sfumato.cli._verb import verb, verbs
from sfumato.errors import SfumatoError

if TYPE_CHECKING:
    from sfumato.learn import SkeletonFinder
    from sfumato.media import Image

app = verbs()
WHOLE = "whole"


@verb(
    app,
    "sfumato predict photo.jpg -o skeletons.png --model runs/pose-lsp",
    "sfumato predict walk.mp4 -o skeletons.mp4 --model runs/pose-lsp --on black",
    "sfumato predict face.jpg -o joints.png --model runs/pose-lsp --people whole",
)
def predict(
    source: Path = typer.Argument(help="A picture or a video."),
    target: Path = typer.Option(..., "--out", "-o", help="The picture or video to write."),
    model: Path = typer.Option(..., help="The folder that sfumato train wrote (a pose model)."),
    people: str = typer.Option(
        "pose", help="Detectors that find people, or 'whole': one person fills the picture."
    ),
    on: str = typer.Option(
        "picture", help="picture, or black: skeletons alone, without the recording's pixels."
    ),
    *,
    device: str | None,
    offline: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Find every person's joints and draw them. OUT shows people: it is not a protected release."""
    from sfumato.files import refuse_overwrite
    from sfumato.learn import read_skeleton_finder
    from sfumato.media import IMAGE_SUFFIXES

    refuse_overwrite(target, force=force)
    if on not in {"picture", "black"}:
        raise SfumatoError(f"Expected --on picture or black, got {on!r}.")
    if not source.is_file():
        raise SfumatoError("Expected a picture or a video, but there is no file at the path given.")
    pictures = [path.suffix.lower() in IMAGE_SUFFIXES for path in (source, target)]
    if pictures[0] != pictures[1]:
        raise SfumatoError(
            f"Expected an output of the same kind as the input, got {target.suffix!r} for "
            f"{source.suffix!r}: name a picture for a picture, a video for a video."
        )
    if target.exists() and target.samefile(source):
        raise SfumatoError("Expected another file for the output, got the input itself.")
    promise = _promise(model)
    finder = read_skeleton_finder(model, device or "cpu")
    artist = _Artist(finder, people, on == "black", offline)
    draw = _one_picture if pictures[0] else _whole_video
    with progress_bar(hidden=as_json):
        frames, found, empty = draw(source, target, artist, force)
    emit(
        as_json,
        {
            "frames": frames,
            "people": found,
            "frames_without_people": empty,
            "model": promise,
            "device": finder.device,
        },
        *ending(
            f"{found} {'person' if found == 1 else 'people'} in {frames} "
            f"{'picture' if frames == 1 else 'pictures'}, nobody in {empty}; on {finder.device}; wrote {target}.",
            "skeletons alone were drawn, and they still tell how people move."
            if on == "black"
            else "the output shows what the input shows; the model's promise is about its training, "
            "not about this recording.",
            f"sfumato protect {source} out{target.suffix} --method skeleton",
        ),
    )


class _Artist:
    """Finds people, asks the model, draws."""

    def __init__(self, finder: SkeletonFinder, people: str, black: bool, offline: bool) -> None:
        from sfumato.people import person_detector

        self._finder, self._black = finder, black
        self._detector = None if people == WHOLE else person_detector(people, offline=offline)

    def draw(self, picture: Image) -> tuple[Image, int]:
        """The picture with skeletons, and how many."""
        import numpy as np

        from sfumato.data import draw_skeletons

        height, width = picture.shape[:2]
        if self._detector is None:
            boxes = [(0.0, 0.0, float(width), float(height))]
        else:
            seen = [box for box in self._detector.detect(picture) if box.area > 0]
            boxes = [(box.x0, box.y0, box.width, box.height) for box in seen]
        skeletons = self._finder.find(picture, boxes)
        canvas = np.zeros_like(picture) if self._black else picture
        return draw_skeletons(canvas, skeletons, self._finder.joints), len(skeletons)


def _one_picture(source: Path, target: Path, artist: _Artist, force: bool) -> tuple[int, int, int]:
    from sfumato.media import read_image, write_image
    from sfumato.privacy import PRIVATE_NOTE

    drawn, count = artist.draw(read_image(source))
    if not count:
        raise SfumatoError(
            "Expected people in the picture, found none: nothing was written. Pass --people whole if "
            "one person fills it."
        )
    write_image(target, drawn, note=PRIVATE_NOTE, force=force)
    return 1, count, 0


def _whole_video(source: Path, target: Path, artist: _Artist, force: bool) -> tuple[int, int, int]:
    from sfumato.media import VideoWriter, open_video
    from sfumato.privacy import PRIVATE_NOTE
    from sfumato.progress import track

    frames = people = empty = 0
    with (
        open_video(source) as reader,
        VideoWriter(target, reader.info, note=PRIVATE_NOTE, force=force) as writer,
    ):
        for frame in track(reader, "frames", reader.info.expected_frames):
            drawn, count = artist.draw(frame.image)
            writer.write(drawn, frame.pts)
            frames, people, empty = frames + 1, people + count, empty + (count == 0)
    return frames, people, empty


def _promise(folder: Path) -> str:
    """What may be said about the model, from its card; a model that changed since is refused."""
    from sfumato.privacy import checked_card

    return str(checked_card(folder / "model.safetensors").promise)
