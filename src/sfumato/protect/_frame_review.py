"""A person looks at a release: frames drawn by chance, one answer for each, and what the card then says.

Plain data in and out, so that a page, a command or a server can ask the questions. A sample is drawn
from every frame of every recording of the release with the operating system's entropy: whoever made the
release cannot know which frames will be looked at.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from sfumato.errors import SfumatoError, reading
from sfumato.files import is_within, parse_json
from sfumato.jobs import level_time, name_list, note_rewritten
from sfumato.media import IMAGE_SUFFIXES, Image, open_video, read_image
from sfumato.privacy import (
    CardFor,
    FrameReview,
    ReviewError,
    card_for,
    card_path,
    check_name,
    check_signature,
    content_digest,
    has_card_of_its_own,
    sign,
    signer_of_key,
    verify_output,
)
from sfumato.progress import tell

# zero misses among so many frames bound the share of frames with somebody left by 4.9 %
USUAL_SAMPLE = 60
KIND = "sfumato review answers"
_VERSION = 1
YES, NO, UNSURE = "yes", "no", "unsure"
_ANSWERS = (YES, NO, UNSURE)
_LARGEST = 1 << 26


@dataclass(frozen=True)
class Recording:
    """One recording of a release: its name in it and its number of frames."""

    name: str
    frames: int
    said: str


@dataclass(frozen=True)
class ReviewSample:
    """Frames to look at: (number of the recording, number of the frame), both from 0."""

    draw: str
    release: str
    recordings: tuple[Recording, ...]
    drawn: tuple[tuple[int, int], ...]

    @property
    def frames(self) -> int:
        return sum(each.frames for each in self.recordings)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    @reading("a sample of frames to look at")
    def from_json(cls, value: Any) -> Self:
        return cls(
            str(value["draw"]),
            str(value["release"]),
            tuple(Recording(**each) for each in value["recordings"]),
            tuple((int(recording), int(frame)) for recording, frame in value["drawn"]),
        )

    def answers(self, answers: Sequence[str | None]) -> dict[str, Any]:
        """The file of answers, as the page writes it: one of yes, no, unsure for every frame drawn."""
        return {
            "about": KIND,
            "version": _VERSION,
            "draw": self.draw,
            "release": self.release,
            "answers": [
                {"recording": self.recordings[recording].name, "frame": frame, "left": left}
                for (recording, frame), left in zip(self.drawn, answers, strict=True)
            ],
        }


@dataclass(frozen=True)
class RecordedReview:
    """What was written on the cards; ``left`` and ``unsure`` name recording and frame, for the operator."""

    reviews: tuple[FrameReview, ...]
    left: tuple[tuple[str, int], ...]
    unsure: tuple[tuple[str, int], ...]

    @property
    def first(self) -> FrameReview:
        return self.reviews[0]

    def to_json(self) -> dict[str, Any]:
        whole = {
            name: value
            for name, value in self.first.to_json().items()
            if name not in ("output", "sampled_here", "misses_here")
        }
        return {
            "review": whole,
            "left": [{"recording": name, "frame": frame} for name, frame in self.left],
            "unsure": [{"recording": name, "frame": frame} for name, frame in self.unsure],
        }


def draw_review_sample(release: str | Path, frames: int = USUAL_SAMPLE) -> ReviewSample:
    """Draw ``frames`` frames of a finished release, or all where it has fewer; nothing is written.

    | edge case | what happens |
    | --- | --- |
    | an output that is not the one on its card, or a card that was changed | refused |
    | a release without pictures | refused |
    """
    if frames < 1:
        raise ReviewError(f"Expected at least one frame to look at, got {frames}.")
    cards = _cards(Path(release))
    recordings = tuple(_recordings(cards))
    starts = [0]
    for each in recordings:
        starts.append(starts[-1] + each.frames)
    chosen = sorted(secrets.SystemRandom().sample(range(starts[-1]), min(frames, starts[-1])))
    drawn = []
    number = 0
    for place in chosen:
        while place >= starts[number + 1]:
            number += 1
        drawn.append((number, place - starts[number]))
    return ReviewSample(secrets.token_hex(16), _digest(cards), recordings, tuple(drawn))


def drawn_pictures(release: str | Path, sample: ReviewSample) -> Iterator[Image]:
    """The protected frames of a sample, in its order."""
    cards = _cards(Path(release))
    if _digest(cards) != sample.release:
        raise _another_release()
    for number, found in enumerate(cards.values()):
        wanted = [frame for recording, frame in sample.drawn if recording == number]
        if not wanted:
            continue
        if found.output.suffix.lower() in IMAGE_SUFFIXES:
            yield read_image(found.output)
            continue
        with open_video(found.output) as video:
            yield from (frame.image for i, frame in enumerate(video) if i in set(wanted))


def read_answers(path: str | Path) -> Any:
    """What a file of answers says, not yet checked."""
    file = Path(path)
    try:
        if file.stat().st_size > _LARGEST:
            raise ValueError("too large")
        return parse_json(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ReviewError(
            f"Expected the answers that the page saved, but {file.name!r} cannot be opened "
            f"({error.strerror}): check --answers."
        ) from None
    except ValueError:
        raise ReviewError(
            f"Expected the answers that the page saved in {file.name!r}, got something else: check "
            "--answers."
        ) from None


def record_review(
    release: str | Path, answers: Any, *, by: str, sign_with: str | Path | None = None
) -> RecordedReview:
    """Write on every card of the release what somebody saw; earlier reviews stay beside it.

    | edge case | what happens |
    | --- | --- |
    | answers for another release, or for this one before it was changed | refused |
    | a frame without an answer, a frame twice, a frame that is not there | refused |
    | answers that are on the card already | refused |
    | a signed card | needs the key that signed it (``sign_with``), for a review changes the card |
    """
    check_name(by)
    cards = _cards(Path(release))
    _require_key(cards, sign_with)
    counts = _counts_by_output(answers, cards)
    left = _by_frame(answers["answers"], counts)
    at = datetime.now(UTC).replace(microsecond=0).isoformat()
    reviews = []
    for name, found in cards.items():
        here = [answer for (recording, _), answer in left.items() if recording == name]
        reviews.append(
            FrameReview(
                by=by,
                at=at,
                draw=answers["draw"],
                output=found.card.content,
                release=_digest(cards),
                recordings=len(cards),
                frames=sum(counts.values()),
                sampled=len(left),
                misses=sum(answer == YES for answer in left.values()),
                unsure=sum(answer == UNSURE for answer in left.values()),
                sampled_here=len(here),
                misses_here=sum(answer != NO for answer in here),
            )
        )
    new = [
        replace(found, card=found.card.reviewed(review))
        for found, review in zip(cards.values(), reviews, strict=True)
    ]  # all of them before the first is written: one that refuses refuses for all
    _write(Path(release), new, sign_with)
    return RecordedReview(tuple(reviews), _named(left, YES), _named(left, UNSURE))


def require_sheet_place(release: str | Path, page: str | Path) -> None:
    """Raise if a page for reviewers would lie inside a released folder."""
    folder = _released_folder(Path(release))
    if folder is not None and is_within(page, folder):
        raise ReviewError(
            "Expected the page for reviewers outside the released folder, got a place inside: it is no "
            "part of the release, so write it beside."
        )


def _released_folder(release: Path) -> Path | None:
    """The folder that was released as a whole, if this is one or lies in one."""
    whole = Path(os.path.abspath(release))
    if whole.is_dir():
        return whole
    return next((each for each in whole.parents if each.name and name_list(each).exists()), None)


def _named(left: Mapping[tuple[str, int], str], which: str) -> tuple[tuple[str, int], ...]:
    return tuple(place for place, answer in left.items() if answer == which)


def _cards(release: Path) -> dict[str, CardFor]:
    """Every recording of a release, by its name in it, with its card; all of them agree."""
    if not release.is_dir():
        found = card_for(release)
        if found.output.name != Path(release).name or card_path(found.output) != found.path:
            raise ReviewError(
                "Expected a released recording or the folder of a release, got a companion file or "
                "something inside: name what the card stands beside."
            )
        return {found.output.name: verify_output(found.output).found}
    if has_card_of_its_own(release):
        raise ReviewError(
            "Expected recordings with a card each, got a folder with one card for all: it holds the "
            "records of a data set, at which nobody can look frame by frame."
        )
    files = sorted(release.rglob("*" + card_path("x").name.removeprefix("x")))
    cards = {path.relative_to(release).as_posix(): card_for(path) for path in files}
    if not cards:
        raise ReviewError(
            "Expected a folder of protected recordings with their cards, found no card in it: run "
            "sfumato protect first."
        )
    return {
        (Path(name).parent / found.output.name).as_posix(): verify_output(found.output).found
        for name, found in cards.items()
    }


def _recordings(cards: Mapping[str, CardFor]) -> Iterator[Recording]:
    for number, (name, found) in enumerate(cards.items()):
        tell("counting frames", number, len(cards))
        yield Recording(name, _frame_count(found.output), found.card.done)


def _frame_count(path: Path) -> int:
    try:
        if path.suffix.lower() in IMAGE_SUFFIXES:
            read_image(path)
            return 1
        with open_video(path) as video:
            return sum(1 for _ in video)
    except SfumatoError as error:
        raise ReviewError(
            f"Expected pictures or videos to look at, but {path.name!r} cannot be shown: {error}"
        ) from None


def _digest(cards: Mapping[str, CardFor]) -> str:
    return content_digest(found.card.content for found in cards.values())


def _another_release() -> ReviewError:
    return ReviewError(
        "Expected answers about this very release, got those about another one, or about this one before "
        "it was changed: draw a new sample (sfumato review OUTPUT --sheet PAGE)."
    )


def _counts_by_output(answers: Any, cards: Mapping[str, CardFor]) -> dict[str, int]:
    """Raise unless answers are about this release; the number of frames of each recording."""
    match answers:
        case {"about": str(about), "version": int(version), "draw": str(), "release": str(release),
              "answers": [_, *_]} if (about, version) == (KIND, _VERSION):  # fmt: skip
            pass
        case _:
            raise ReviewError(
                "Expected the answers that the page of sfumato review saved, got something else: check "
                "--answers."
            )
    if release != _digest(cards):
        raise _another_release()
    return {each.name: each.frames for each in _recordings(cards)}


def _by_frame(given: Sequence[Any], counts: Mapping[str, int]) -> dict[tuple[str, int], str]:
    """Every answer by recording and frame: each frame once, and each with an answer."""
    found: dict[tuple[str, int], str] = {}
    for one in given:
        match one:
            case {"recording": str(name), "frame": int(frame), "left": answer}:
                pass
            case _:
                raise ReviewError("Expected recording, frame and answer of each frame, got less.")
        if answer not in _ANSWERS:
            raise ReviewError(
                f"Expected yes, no or unsure for each of {len(given)} frames, got {answer!r} for frame "
                f"{frame} of {name!r}: answer every frame, for one that is left out may be the one."
            )
        if isinstance(frame, bool) or not 0 <= frame < counts.get(name, 0):
            raise ReviewError(f"Expected frames of this release, got frame {frame} of {name!r}.")
        if (name, frame) in found:
            raise ReviewError(
                f"Expected one answer a frame, got two for frame {frame} of {name!r}."
            )
        found[name, frame] = answer
    return found


def _require_key(cards: Mapping[str, CardFor], sign_with: str | Path | None) -> None:
    """A review changes a card, so whoever signed it has to sign again."""
    signers = {
        check_signature(found.card) for found in cards.values() if found.card.signature is not None
    }
    if not signers:
        if sign_with is not None:
            signer_of_key(sign_with)
        return
    if sign_with is None or signers != {signer_of_key(sign_with)}:
        raise ReviewError(
            "Expected the key file that signed the card (--sign KEY), got "
            f"{'none' if sign_with is None else 'another one'}: a review changes the card, and its "
            "signature must cover that."
        )


def _write(release: Path, cards: Sequence[CardFor], sign_with: str | Path | None) -> None:
    written = []
    for found in cards:
        card = found.card
        if sign_with is not None:
            # signed as it will be read, page included
            card = sign(card, sign_with)
        card.write(found.output, force=True)
        written += [found.path, found.path.with_suffix(".md")]
    folder = _released_folder(release)
    if folder is not None:
        for path in written:
            level_time(path)
        note_rewritten(folder, written)
