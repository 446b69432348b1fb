"""The output codecs: a closed list, because a lossy one breaks non-interference (R8)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from sfumato.media._errors import MediaError


@dataclass(frozen=True, slots=True)
class Codec:
    """One way to store pictures. ``lossless``: reading back gives every RGB byte unchanged."""

    name: str
    encoder: str
    suffixes: tuple[str, ...]
    lossless: bool
    options: dict[str, str] = field(default_factory=dict)
    drop_units: str = ""


# Without B-frames the order of coding is the order of showing, so the durations that a container
# derives from coding times are right for variable rates too.
_IN_ORDER = {"bf": "0"}
# x264's macroblock tree reads memory that it never wrote, so that what a recording left in memory
# would decide how coarsely its protected copy is coded.
_NO_STALE_MEMORY = {"mbtree": "0"}
_H264_SEI = "filter_units=remove_types=6"  # x264 writes its name and settings there

CODECS = {
    codec.name: codec
    for codec in (
        Codec(
            "h264",
            "libx264",
            (".mp4", ".mov", ".mkv", ".m4v"),
            False,
            {"preset": "fast", **_IN_ORDER, **_NO_STALE_MEMORY},
            _H264_SEI,
        ),
        Codec(
            "h264rgb",
            "libx264rgb",
            (".mp4", ".mov", ".mkv"),
            True,
            {"preset": "veryfast", "qp": "0", **_IN_ORDER},
            _H264_SEI,
        ),
        Codec(
            "ffv1",
            "ffv1",
            (".mkv",),
            True,
            {"level": "3", "slicecrc": "1", "g": "1"},
        ),
    )
}

DEFAULT_QUALITY = 18  # x264's constant rate factor; 0 is best, 51 is worst


def _named(name: str) -> Codec:
    codec = CODECS.get(name)
    if codec is None:
        raise MediaError(f"Expected a codec out of {', '.join(CODECS)}, got {name!r}: choose one.")
    return codec


def video_suffix(source: Path, codec: str) -> str:
    """The ending of a protected copy: the source's own where the codec writes such files."""
    suffixes = _named(codec).suffixes
    return source.suffix.lower() if source.suffix.lower() in suffixes else suffixes[0]


def require_video_name(target: Path, codec: str, quality: int | None) -> None:
    """Raise unless a video can be written under this name with this codec and quality."""
    choose(codec, target, quality)


def choose(name: str, target: Path, quality: int | None) -> tuple[Codec, dict[str, str]]:
    """The codec and its encoder options, or a sentence on what does not fit."""
    codec = _named(name)
    if target.suffix.lower() not in codec.suffixes:
        raise MediaError(
            f"Expected an output name ending in {' or '.join(codec.suffixes)} for codec {name}, "
            f"got {target.suffix!r}: rename the output."
        )
    if codec.lossless:
        if quality is not None:
            raise MediaError(
                f"Expected no quality for the lossless codec {name}, got {quality}: leave it out."
            )
        return codec, dict(codec.options)
    level = DEFAULT_QUALITY if quality is None else quality
    if not 0 <= level <= 51:
        raise MediaError(
            f"Expected a quality between 0 (best) and 51 (worst), got {level}: 18 is the default."
        )
    return codec, {**codec.options, "crf": str(level)}
