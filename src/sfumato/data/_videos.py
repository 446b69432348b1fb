"""Videos as records: decoded when asked for, a chosen number of frames, with their public masks."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.data._problems import Problems, existing_folder, require_some
from sfumato.data._records import IterableRecords, Record, RecordsError
from sfumato.errors import reading
from sfumato.media import open_sequence, open_video, read_frames

VIDEO_SUFFIXES = frozenset({".avi", ".mp4", ".mkv", ".mov", ".webm", ".mpg", ".mpeg", ".m4v"})
# what the avatar method writes beside a video: the exact public mask and its pixels without loss
RELEASE_PARTS = _EXACT_MASK, _PUBLIC_LAYER = ".mask.mkv", ".public.mkv"
_MASK_SUFFIXES = (_EXACT_MASK, ".npz", ".npy", ".mkv", ".mp4", ".avi", "")


@dataclass(frozen=True)
class Sampling:
    """Which frames of a video a record keeps.

    ``stride=None`` spreads ``frames`` over the whole video; a number takes every stride-th frame
    around the middle. A video that is too short repeats its last frame. Nothing is random: random
    clips are augmentation, which belongs to non-private training.
    """

    frames: int = 16
    stride: int | None = None

    def __post_init__(self) -> None:
        if self.frames < 1 or (self.stride is not None and self.stride < 1):
            raise RecordsError(
                f"Expected at least one frame and a stride of at least 1, got {self.frames} frames "
                f"and stride {self.stride}."
            )

    def places(self, count: int) -> npt.NDArray[np.int64]:
        """Indices of the frames to keep out of ``count``."""
        if self.stride is None:
            spread = (np.arange(self.frames) + 0.5) * count / self.frames
            return np.minimum(spread.astype(np.int64), count - 1)
        span = (self.frames - 1) * self.stride + 1
        first = max((count - span) // 2, 0)
        return np.minimum(first + np.arange(self.frames) * self.stride, count - 1)


@dataclass(frozen=True)
class VideoItem:
    """Where a record's video lies and what is known about it.

    ``layer`` holds the public pixels without loss. They replace the video's own, into which an
    ordinary codec has mixed private pixels (R8).
    """

    path: Path
    label: Any
    owners: tuple[str, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    mask: Path | None = None
    layer: Path | None = None


class VideoRecords(IterableRecords):
    """Records of videos; ``problems`` says what the list had that could not be used."""

    # a record costs a decoding: whoever knows which come next may read them ahead
    read_slowly = True

    def __init__(
        self,
        items: Sequence[VideoItem],
        classes: Sequence[str],
        *,
        sampling: Sampling | None = None,
        tolerant: bool = True,
        problems: Problems | None = None,
    ) -> None:
        self.items, self.classes = tuple(items), tuple(classes)
        self.sampling, self.tolerant = sampling, tolerant
        self.problems = problems or Problems()
        require_some(self.items, "videos", self.problems)

    @property
    def owners(self) -> list[tuple[str, ...]]:
        """Owners of every record, without decoding anything."""
        return [item.owners for item in self.items]

    def with_masks(
        self, root: str | os.PathLike[str], masks: str | os.PathLike[str]
    ) -> VideoRecords:
        """The same videos with their public masks: under ``masks`` as the videos lie under ``root``.

        A mask is a ``.npz``, ``.npy``, video or folder of pictures, True or bright where a pixel is
        public. A video without one is left out and counted: training it as if all were public
        would be a leak. ``masks`` may be ``root`` itself: the avatar method writes
        ``video.mask.mkv`` and ``video.public.mkv`` beside a video.
        """
        folder, mask_root = existing_folder(root, "videos"), existing_folder(masks, "masks")
        items = []
        for item in self.items:
            mask = find_mask(mask_root, item.path.relative_to(folder))
            if mask is None or mask.resolve() == item.path.resolve():
                self.problems.add("Expected a mask with every video, got none: left out.")
                continue
            layer = None
            if mask.name.endswith(_EXACT_MASK):
                layer = mask.with_name(mask.name.removesuffix(_EXACT_MASK) + _PUBLIC_LAYER)
                if not layer.is_file():
                    # the video's own pixels are not public: its codec mixed private ones in
                    self.problems.add(
                        "Expected the public layer beside an exact mask, got none: left out."
                    )
                    continue
            items.append(replace(item, mask=mask, layer=layer))
        return self._with_items(items)

    def from_release(
        self, root: str | os.PathLike[str], release: str | os.PathLike[str]
    ) -> VideoRecords:
        """The same records, their videos taken from what ``sfumato protect root release`` wrote.

        Labels, owners and splits stay those of the originals, which are never opened. Exact public
        masks come along where the release has them; a video without a release is left out and
        counted.
        """
        folder, made = existing_folder(root, "videos"), existing_folder(release, "a release")
        items = []
        for item in self.items:
            stem = made / item.path.relative_to(folder).with_suffix("")
            beside = [stem.with_name(stem.name + suffix) for suffix in sorted(VIDEO_SUFFIXES)]
            video = next((path for path in beside if path.is_file()), None)
            if video is None:
                self.problems.add("Expected a release of every video, got none: left out.")
            else:
                items.append(replace(item, path=video))
        released = self._with_items(items)
        masked = any(mask_of.is_file() for mask_of in (
            item.path.with_name(item.path.stem + _EXACT_MASK) for item in released.items
        ))  # fmt: skip
        return released.with_masks(made, made) if masked else released

    def _with_items(self, items: Sequence[VideoItem]) -> VideoRecords:
        return VideoRecords(items, self.classes, sampling=self.sampling, tolerant=self.tolerant,
                            problems=self.problems)  # fmt: skip

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Record:
        item = self.items[index]
        x, places = sampled_frames(item.path, self.sampling, tolerant=self.tolerant)
        mask = None if item.mask is None else _mask(item.mask, x, places)
        if item.layer is not None and mask is not None:
            x = np.where(mask[..., None], _layer(item.layer, x, places), x)
        return Record(x, item.label, mask, item.owners, item.attributes)


def sampled_frames(
    path: str | os.PathLike[str], sampling: Sampling | None, *, tolerant: bool = True
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64] | None]:
    """The chosen frames (T, H, W, 3) and their indices; memory holds the chosen frames alone."""
    if sampling is None:
        return read_frames(path, tolerant=tolerant), None
    with open_video(path, tolerant=tolerant) as video:
        guess = video.info.expected_frames or 0
        kept, count = video.pictures_at(set(sampling.places(guess).tolist()) if guess else ())
    places = sampling.places(count)
    if any(place not in kept for place in places.tolist()):
        # headers lie (cut-off files, bad metadata): now that the frames are counted, once more
        with open_video(path, tolerant=tolerant) as video:
            kept, _ = video.pictures_at(set(places.tolist()))
    return np.stack([kept[place] for place in places.tolist()]), places


@reading("a mask that belongs to its video", RecordsError)
def _mask(
    path: Path, x: npt.NDArray[np.uint8], places: npt.NDArray[np.int64] | None
) -> npt.NDArray[np.bool_]:
    """True where public, for the frames kept; refuses a mask that does not fit its video."""
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as stored:
            name = "mask" if "mask" in stored.files else stored.files[0]
            mask = stored[name] > 0
    elif path.suffix == ".npy":
        mask = np.load(path, allow_pickle=False) > 0
    elif path.is_dir():
        with open_sequence(path) as pictures:
            mask = np.stack([frame.image[..., 0] > 127 for frame in pictures])
    else:
        mask = read_frames(path)[..., 0] > 127
    if places is not None:
        if len(mask) <= int(places.max()):
            raise RecordsError(
                f"Expected a mask for every frame, got {len(mask)} for a video of at least "
                f"{int(places.max()) + 1}: make the masks again."
            )
        mask = mask[places]
    if mask.shape != x.shape[:3]:
        raise RecordsError(
            f"Expected a mask of shape {x.shape[:3]} like its video, got {mask.shape}: "
            "make the masks again."
        )
    return np.asarray(mask, dtype=bool)


def _layer(
    path: Path, x: npt.NDArray[np.uint8], places: npt.NDArray[np.int64] | None
) -> npt.NDArray[np.uint8]:
    """The public layer of the frames kept; refuses one that does not fit its video."""
    layer = read_frames(path)
    if places is not None and len(layer) > int(places.max()):
        layer = layer[places]
    if layer.shape != x.shape:
        raise RecordsError(
            f"Expected a public layer of shape {x.shape} like its video, got {layer.shape}: "
            "protect the video again."
        )
    return layer


def find_mask(folder: Path, relative: Path) -> Path | None:
    """The mask of a video: same relative path with another suffix, or a folder of pictures."""
    stem = folder / relative.with_suffix("")
    for suffix in _MASK_SUFFIXES:
        candidate = stem.with_name(stem.name + suffix)
        if candidate.is_file() if suffix else candidate.is_dir():
            return candidate
    return None


@reading("a mask that belongs to its video", RecordsError)
def video_folder(
    root: str | os.PathLike[str],
    masks: str | os.PathLike[str] | None = None,
    *,
    sampling: Sampling | None = None,
) -> VideoRecords:
    """``root/CLASS/video.mp4``, with masks at ``masks/CLASS/video.npz`` and the like (``with_masks``)."""
    folder = existing_folder(root, "a folder of classes of videos")
    classes = sorted(child.name for child in folder.iterdir() if child.is_dir())
    problems, items = Problems(), []
    for label, name in enumerate(classes):
        for path in sorted((folder / name).iterdir()):
            if path.name.endswith((*RELEASE_PARTS, ".card.json", ".card.md")):
                continue  # parts of a release, not recordings
            if path.suffix.lower() not in VIDEO_SUFFIXES:
                problems.add(f"Expected videos in class folders, got {path.suffix or 'a folder'}.")
                continue
            items.append(VideoItem(path, label))
    records = VideoRecords(items, classes, sampling=sampling, problems=problems)
    return records if masks is None else records.with_masks(folder, masks)
