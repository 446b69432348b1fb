"""The one exception that becomes one sentence on the command line, and sentences for the machine's own."""

from __future__ import annotations

import csv
import errno
import hashlib
import os
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path


class SfumatoError(Exception):
    """Something a user can fix: what was expected, what came, what to do.

    The message is shown as it is, without a traceback, so it must never contain private content:
    no pixels, no labels, no input paths beyond what the user typed in this very command.
    """


class UsageMistakeError(SfumatoError):
    """A command line that says something else than was meant; the exit code tells it apart."""


class MissingExtraError(SfumatoError):
    """A capability whose optional dependency is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package!r}, which is not installed: "
            f"run pip install 'sfumato[{extra}]'."
        )


@contextmanager
def needs_extra(package: str, extra: str, purpose: str) -> Iterator[None]:
    """A block that imports ``package``, which only ``sfumato[extra]`` brings."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != package:
            raise
        raise MissingExtraError(package, extra, purpose) from None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a sentence about ``word``: the most similar of what is known, or all of it."""
    names = list(known)
    near = get_close_matches(word.lower(), names, n=1, cutoff=0.6)
    return f": did you mean {near[0]}?" if near else f": there are {', '.join(names)}."


_REFUSALS = {
    errno.ENOSPC: "Expected room on the disk{at}, but it is full: free some space and run it again",
    errno.EDQUOT: "Expected room on the disk{at}, but your quota is used up: free some space",
    errno.EROFS: "Expected a disk that can be written{at}, got a read-only one: choose another place",
    errno.EACCES: "Expected a file or folder that you may open{at}, got one that you may not: "
    "change its permissions, or choose another",
    errno.EPERM: "Expected a file or folder that you may change{at}, got one that you may not: "
    "change its permissions, or choose another",
    errno.ENOENT: "Expected a file or folder{at}, found none: check the name",
    errno.EEXIST: "Expected nothing there yet{at}, but something is: choose another name",
    errno.ENOTEMPTY: "Expected an empty folder{at}, got one with files: choose another name",
    errno.EISDIR: "Expected a file{at}, got a folder: name a file in it",
    errno.ENOTDIR: "Expected a folder{at}, got a file: name a folder",
    errno.ENAMETOOLONG: "Expected a shorter name{at}: file systems take about 255 characters",
    errno.ELOOP: "Expected a file or folder{at}, got links that lead to each other: name the file",
    errno.EMFILE: "Expected to open one more file{at}, but too many are open: use fewer workers",
    errno.ENFILE: "Expected to open one more file{at}, but too many are open: use fewer workers",
    errno.ENOMEM: "Expected enough memory, ran out of it: make the input or the settings smaller",
    errno.EIO: "Expected a disk that works{at}, but it reports an error: use another one",
    errno.EXDEV: "Expected one file system{at}, got two: choose a place on the same disk",
}


def refusal(error: OSError | MemoryError, typed: Sequence[str] = ()) -> str:
    """What the machine refused, as one sentence; of all paths only one that was ``typed`` is shown."""
    if isinstance(error, MemoryError):
        return _REFUSALS[errno.ENOMEM] + "."
    named = _typed_name(error.filename, typed)
    at = "" if named is None else f" at {named!r}"
    number = -1 if error.errno is None else error.errno
    if number in _REFUSALS:
        return _REFUSALS[number].format(at=at) + "."
    # texts of the operating system are about files and networks, never about their content
    said = os.strerror(number) if number in errno.errorcode else type(error).__name__
    return f"Expected the operating system to allow this{at}, but it answered {said!r}: check the place."


def temporary_name(target: str) -> str:
    """How the name of a folder begins in which a file of the name ``target`` is being written."""
    return f".sfumato-{hashlib.sha256(os.fsencode(target)).hexdigest()[:12]}-"


def _typed_name(path: object, typed: Sequence[str]) -> str | None:
    """The argument that ``path`` belongs to: that very file, one inside it, or one made beside it."""
    if not isinstance(path, str):
        return None
    where = Path(os.path.abspath(path))
    for word in typed:
        name = word.partition("=")[2] if word.startswith("--") and "=" in word else word
        if not name or name.startswith("-"):
            continue
        meant = Path(os.path.abspath(name))
        made = (temporary_name(meant.name), meant.name)
        beside = where.parent == meant.parent and where.name.startswith(made)
        if where == meant or meant in where.parents or beside:
            return name if len(name) <= 100 else f"{name[:60]}..."
    return None


# What parsers raise about a file that is not what it should be; others come from optional packages.
_MALFORMED = (
    ValueError, LookupError, TypeError, AttributeError, ArithmeticError, AssertionError, EOFError, StopIteration,
    RecursionError, NotImplementedError, zipfile.BadZipFile, zlib.error, struct.error, csv.Error,
)  # fmt: skip
_MALFORMED_BY_NAME = {"MatReadError", "SafetensorError", "TokenError", "UnpicklingError"}


@contextmanager
def reading(what: str, error: type[SfumatoError] = SfumatoError) -> Iterator[None]:
    """A block, or as a decorator a function, that reads files which others wrote.

    A file that cannot be read as ``what`` becomes one sentence; its content is not quoted.
    """
    try:
        yield
    except (SfumatoError, OSError, MemoryError):
        raise
    except Exception as wrong:
        if not isinstance(wrong, _MALFORMED) and type(wrong).__name__ not in _MALFORMED_BY_NAME:
            raise
        raise error(
            f"Expected {what}, got a file that cannot be read as that ({type(wrong).__name__}): "
            "check it, or copy it once more."
        ) from wrong
