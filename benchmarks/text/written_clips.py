"""Clips with words whose every pixel is known: names, dates and plates, moving, turned, faint."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from sfumato.media import Frame, Image, open_video

WIDTH, HEIGHT, FRAMES = 640, 360, 24
SIZES = (8, 10, 12, 16, 24, 40)  # height of capitals in pixels
WORDS = (
    "Maria Schmidt", "12.04.1987", "BN 482 KX", "Dr. Weber", "Patient 0371", "J. Okafor",
    "2026-11-18", "HH AB 1234", "Room 12", "anna@lab", "ID 99431", "Nguyen", "Ward 4B",
)  # fmt: skip
FONTS = ("DejaVuSans", "DejaVuSans-Bold", "DejaVuSerif", "DejaVuSansMono")
_FAINT, _CLEAR = 45, 120  # grey levels between letters and what is behind them
_CAPITALS = 0.73  # of a font's size


@dataclass(frozen=True)
class Word:
    """A word, how it is written, and where it is on each frame: its letters as an 8-bit picture."""

    text: str
    size: int
    angle: float
    faint: bool
    badge: bool
    letters: npt.NDArray[np.float32]
    places: tuple[tuple[int, int], ...]

    def pixels(self, number: int) -> npt.NDArray[np.bool_]:
        """The letters of the word on a frame, in the whole picture."""
        x, y = self.places[number]
        whole = np.zeros((HEIGHT, WIDTH), bool)
        high, wide = self.letters.shape
        whole[y : y + high, x : x + wide] = self.letters > 0.5
        return whole


def rooms(data: str | None, count: int, seed: int) -> Iterator[tuple[str, list[Image]]]:
    """Backgrounds: every second one is made here, the others are frames of real recordings."""
    generator = np.random.default_rng(seed)
    clips = sorted(path for path in Path(data).iterdir() if path.is_file()) if data else []
    for number in range(count):
        if clips and number % 2:
            clip = clips[number // 2 % len(clips)]
            yield clip.stem, _real_room(clip, offset=(number // 2 // len(clips)) * FRAMES)
        else:
            yield "made", _made_room(generator)


def _made_room(generator: np.random.Generator) -> list[Image]:
    """Walls, furniture and a slow pan."""
    wide = np.full((HEIGHT, WIDTH + 2 * FRAMES, 3), generator.integers(60, 200, 3), np.float32)
    wide += np.linspace(-30, 30, wide.shape[1])[None, :, None]
    for _ in range(18):
        x, y = generator.integers(0, wide.shape[1] - 40), generator.integers(0, HEIGHT - 30)
        w, h = generator.integers(20, 200), generator.integers(15, 120)
        wide[y : y + h, x : x + w] = generator.integers(20, 235, 3)
    wide = np.asarray(cv2.GaussianBlur(wide, (0, 0), 1.0), np.float32)
    pan = int(generator.integers(0, 3))
    noise = generator.normal(0, 4, (HEIGHT, WIDTH, 3)).astype(np.float32)
    return [
        np.clip(wide[:, pan * n : pan * n + WIDTH] + np.roll(noise, 7 * n, axis=1), 0, 255).astype(
            np.uint8
        )
        for n in range(FRAMES)
    ]


def _real_room(clip: Path, offset: int) -> list[Image]:
    frames: list[Image] = []
    with open_video(clip, tolerant=True) as video:
        for number, frame in enumerate(video):
            if number >= offset and len(frames) < FRAMES:
                frames.append(np.asarray(cv2.resize(frame.image, (WIDTH, HEIGHT)), np.uint8))
    return frames if len(frames) == FRAMES else _real_room(clip, 0)


def write_on(room: list[Image], generator: np.random.Generator) -> tuple[list[Frame], list[Word]]:
    """The room with one word of every size, none over another on any frame."""
    words, taken = list[Word](), np.zeros((HEIGHT, WIDTH), bool)
    images = [image.copy() for image in room]
    for size in generator.permutation(SIZES):
        for _ in range(60):
            word = _drawn(int(size), generator)
            reach = _reach(word)
            if reach is None or taken[reach].any():
                continue
            if word.badge or max(float(image[reach].std()) for image in room[:: FRAMES - 1]) < 22:
                taken[reach] = True
                words.append(word)
                for number, image in enumerate(images):
                    _put(image, word, number)
                break
    frames = [Frame(image, n, Fraction(n, 25)) for n, image in enumerate(images)]
    return frames, words


def _drawn(size: int, generator: np.random.Generator) -> Word:
    from matplotlib import get_data_path
    from PIL import Image as Pictures
    from PIL import ImageDraw, ImageFont

    text, font = str(generator.choice(WORDS)), str(generator.choice(FONTS))
    face = ImageFont.truetype(f"{get_data_path()}/fonts/ttf/{font}.ttf", round(size / _CAPITALS))
    x0, y0, x1, y1 = (int(value) for value in face.getbbox(text))
    picture = Pictures.new("L", (x1 - x0 + 2, y1 - y0 + 2), 0)
    ImageDraw.Draw(picture).text((1 - x0, 1 - y0), text, fill=255, font=face)
    angle = float(generator.choice([0, 0, 0, 5, -10, 20, 90]))
    turned = picture.rotate(angle, expand=True, resample=Pictures.Resampling.BICUBIC)
    letters = np.asarray(turned, np.float32) / np.float32(255)
    high, wide = letters.shape
    x, y = (
        generator.integers(4, max(5, WIDTH - wide - 4)),
        generator.integers(4, max(5, HEIGHT - high - 4)),
    )
    speed = generator.choice([0, 0, 1, 3]) * generator.choice([-1, 1], 2)
    places = tuple((int(x + speed[0] * n), int(y + speed[1] * n // 2)) for n in range(FRAMES))
    faint, badge = bool(generator.random() < 0.4), bool(generator.random() < 0.4)
    return Word(text, size, angle, faint, badge, letters, places)


def _reach(word: Word) -> tuple[slice, slice] | None:
    """Rows and columns that the word passes through; None if it leaves the picture."""
    high, wide = word.letters.shape
    xs, ys = zip(*word.places, strict=True)
    rows, columns = slice(min(ys) - 3, max(ys) + high + 3), slice(min(xs) - 3, max(xs) + wide + 3)
    inside = min(rows.start, columns.start) >= 0 and rows.stop <= HEIGHT and columns.stop <= WIDTH
    return (rows, columns) if inside else None


def _put(image: Image, word: Word, number: int) -> None:
    x, y = word.places[number]
    high, wide = word.letters.shape
    if word.badge:
        image[y - 3 : y + high + 3, x - 3 : x + wide + 3] = 225 if word.size % 16 else 60
    part = image[y : y + high, x : x + wide].astype(np.float32)
    behind = float(part.mean())
    contrast = _FAINT if word.faint else _CLEAR
    ink = behind - contrast if behind > 128 else behind + contrast
    mixed = part * (1 - word.letters[..., None]) + ink * word.letters[..., None]
    image[y : y + high, x : x + wide] = np.clip(mixed, 0, 255).astype(np.uint8)
