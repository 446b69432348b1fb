"""A seeded bug: what is changed in the code, and which tests must notice."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class PatchError(Exception):
    """A patch that does not apply exactly once: the suite must be brought up to date."""


@dataclass(frozen=True)
class Patch:
    """In ``file`` (below src/sfumato) the text ``old``, which occurs once, becomes ``new``."""

    file: str
    old: str
    new: str

    def apply(self, package: Path) -> None:
        target = package / self.file
        text = target.read_text(encoding="utf-8")
        found = text.count(self.old)
        if found != 1:
            raise PatchError(
                f"{self.file}: expected the text once, found it {found} times: {self.old!r}"
            )
        changed = text.replace(self.old, self.new)
        compile(changed, str(target), "exec")
        target.write_text(changed, encoding="utf-8")


@dataclass(frozen=True)
class Mutant:
    """``note`` says where a mutation had to be restated because our code has no such place."""

    number: str
    title: str
    patches: tuple[Patch, ...]
    tests: tuple[str, ...]
    note: str = ""
