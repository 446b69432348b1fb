"""No path leaves through a report: names of folders and files name people."""

from __future__ import annotations

import re

WITHHELD = "[path withheld]"

# A path begins at a root, a home, a drive or a scheme; or it has several steps; or it ends in a file.
# "frames/s", "train / test" and "1/100" are not paths.
_PATH = re.compile(
    r"""(?<![\w<])(?:
        (?:file:|~|\.{1,2})?/[^\s'"<>|,;()]+        # /a/b  ~/a  ./a  ../a  file:///a
      | (?:[A-Za-z]:\\|\\\\)[^\s'"<>|,;()]+         # C:\a  \\host\a
      | (?:[^\s'"<>|,;()/\\]+[/\\]){2,}[^\s'"<>|,;()/\\]*  # a/b/c
      | [^\s'"<>|,;()/\\]+[/\\][^\s'"<>|,;()/\\]+\.[A-Za-z0-9]{1,12}\b  # a/b.mp4
    )""",
    re.VERBOSE,
)
_NUMBERS = re.compile(r"[\d./]+")


def _hide(match: re.Match[str]) -> str:
    return match[0] if _NUMBERS.fullmatch(match[0]) else WITHHELD


def without_paths(text: str) -> str:
    """The same text with everything that looks like a path replaced."""
    return _PATH.sub(_hide, text)


def has_path(text: str) -> bool:
    """True when ``without_paths`` would change the text."""
    return without_paths(text) != text
