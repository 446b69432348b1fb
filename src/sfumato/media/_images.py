"""Pictures: read as a viewer shows them, written without anything but the pixels."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

import cv2
import numpy as np

from sfumato.files import atomic_output
from sfumato.media._colour import over_black, turn
from sfumato.media._errors import MediaError
from sfumato.media._info import Image
from sfumato.media._picture_size import require_bounded
from sfumato.media._structure import readable_size, require_whole

IMAGE_SUFFIXES = frozenset(
    {".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff"} | {".jpe", ".jfif"}
)
_WRITTEN_SUFFIXES = (".png", ".webp", ".jpg", ".jpeg")

_MAX_BYTES = 1 << 29
_LOSSLESS_WEBP = 101
_PNG, _JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8"
_PNG_HEAD = 33  # signature and IHDR, which comes first
# EXIF tag 274: (transpose, flip rows, flip columns) for the values 1 to 8.
_EXIF_TURNS = {
    1: (False, False, False),
    2: (False, False, True),
    3: (False, True, True),
    4: (False, True, False),
    5: (True, False, False),
    6: (True, False, True),
    7: (True, True, True),
    8: (True, True, False),
}


def read_image(path: str | os.PathLike[str], *, tolerant: bool = False) -> Image:
    """A uint8 (height, width, 3) RGB picture: turned as its EXIF says, transparency as black.

    A file that is cut off raises ``MediaError`` unless ``tolerant``; decoders would fill the
    missing part with grey. The size that the header states is checked before anything is decoded: at
    most 2**26 pixels, or ``SFUMATO_MAX_PIXELS``. Peak memory is about twelve bytes a pixel.
    """
    file = Path(path)
    size = readable_size(file)
    if not tolerant:
        require_whole(file)
    if size > _MAX_BYTES:
        raise MediaError(
            f"Expected a picture of at most {_MAX_BYTES} bytes, got {size}: scale it down."
        )
    require_bounded(file)
    encoded = np.fromfile(file, dtype=np.uint8)
    try:
        decoded, kinds, blocks = cv2.imdecodeWithMetadata(encoded, flags=cv2.IMREAD_UNCHANGED)
    except cv2.error:
        decoded = None
    if decoded is None:
        raise MediaError(
            "Expected a picture (PNG, JPEG, WebP, BMP or TIFF), got something that cannot be "
            "decoded: check that it is what its name says."
        )
    exif = next(
        (bytes(block) for kind, block in zip(kinds, blocks) if kind == cv2.IMAGE_METADATA_EXIF), b""
    )
    return turn(_rgb(decoded), _EXIF_TURNS[_exif_orientation(exif)])


def write_image(
    path: str | os.PathLike[str],
    image: Image,
    *,
    quality: int = 95,
    note: str | None = None,
    force: bool = False,
) -> None:
    """Write RGB pixels and nothing else; the suffix chooses the format.

    PNG and WebP are lossless; ``quality`` (1 to 100) is for JPEG. A ``note`` of ASCII letters stands
    readable inside the file; a released picture has none.
    """
    target = Path(path)
    require_image_name(target)
    options = {
        ".png": [cv2.IMWRITE_PNG_COMPRESSION, 3],
        ".webp": [cv2.IMWRITE_WEBP_QUALITY, _LOSSLESS_WEBP],
        ".jpg": [cv2.IMWRITE_JPEG_QUALITY, quality],
        ".jpeg": [cv2.IMWRITE_JPEG_QUALITY, quality],
    }[target.suffix.lower()]
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or not image.size:
        raise MediaError(
            f"Expected a uint8 image of shape (height, width, 3), got {image.dtype} {image.shape}: "
            "convert it before writing."
        )
    if not 1 <= quality <= 100:
        raise MediaError(f"Expected a JPEG quality from 1 to 100, got {quality}: 95 is usual.")
    try:
        done, encoded = cv2.imencode(target.suffix, image[..., ::-1], options)
    except cv2.error:
        done = False
    if not done:
        raise MediaError(
            f"Expected a size that {target.suffix} can hold, got {image.shape[1]} x "
            f"{image.shape[0]}: write .png instead."
        )
    try:
        with atomic_output(target, force=force) as temporary:
            written = encoded.tobytes()
            temporary.write_bytes(written if note is None else _with_note(written, note))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise MediaError(
            f"Expected a folder that can be written, got {reason!r}: check the output folder and "
            "its free space."
        ) from None


def _with_note(encoded: bytes, note: str) -> bytes:
    """The encoded picture with a text that readers of pixels pass over."""
    text = note.encode("ascii")
    if encoded.startswith(_PNG):
        chunk = b"tEXtComment\0" + text
        block = struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk))
        return encoded[:_PNG_HEAD] + block + encoded[_PNG_HEAD:]
    if encoded.startswith(_JPEG):
        return _JPEG + b"\xff\xfe" + struct.pack(">H", len(text) + 2) + text + encoded[2:]
    chunk = b"NOTE" + struct.pack("<I", len(text)) + text + b"\0" * (len(text) % 2)
    riff = encoded[8:] + chunk
    return b"RIFF" + struct.pack("<I", len(riff)) + riff


def require_image_name(target: Path) -> None:
    """Raise unless a picture can be written under this name."""
    if target.suffix.lower() not in _WRITTEN_SUFFIXES:
        raise MediaError(
            f"Expected an output name ending in .png, .webp or .jpg, got {target.suffix!r}: "
            "rename the output."
        )


def image_suffix(source: Path) -> str:
    """The ending of a protected copy: the source's own where such files are written, else PNG."""
    suffix = source.suffix.lower()
    return suffix if suffix in _WRITTEN_SUFFIXES else ".png"


def _rgb(decoded: np.ndarray) -> Image:
    if decoded.dtype == np.uint16:
        decoded = ((decoded.astype(np.uint32) * 255 + 32767) // 65535).astype(np.uint8)
    if decoded.dtype != np.uint8:
        raise MediaError(
            f"Expected 8 or 16 bits a channel, got {decoded.dtype}: tone-map the picture first."
        )
    if decoded.ndim == 2:
        return np.repeat(decoded[..., None], 3, axis=2)
    if decoded.shape[2] == 4:
        return over_black(decoded[..., [2, 1, 0, 3]])
    return np.ascontiguousarray(decoded[..., ::-1])


def _exif_orientation(exif: bytes) -> int:
    """Tag 274 of a TIFF header, 1 when it is missing or nonsense."""
    exif = exif.removeprefix(b"Exif\0\0")
    order = {b"II": "<", b"MM": ">"}.get(exif[:2])
    if order is None or len(exif) < 10:
        return 1
    (offset,) = struct.unpack_from(f"{order}I", exif, 4)
    if offset + 2 > len(exif):
        return 1
    (count,) = struct.unpack_from(f"{order}H", exif, offset)
    for entry in range(offset + 2, min(offset + 2 + 12 * count, len(exif) - 11), 12):
        tag, kind, _, value = struct.unpack_from(f"{order}HHIH", exif, entry)
        if tag == 274 and kind == 3 and value in _EXIF_TURNS:
            return int(value)
    return 1
