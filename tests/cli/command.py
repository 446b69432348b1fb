"""The command line in this process, and what every answer of it must be."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from sfumato.cli import main as entry

DONE, FAILED, USAGE = 0, 1, 2
Answer = tuple[int, str, str]
Run = Callable[..., Answer]


def in_words(answer: Answer) -> bool:
    """A documented exit code; where it fails, one sentence without traceback or talk of a bug."""
    code, said, told = answer
    if code not in {DONE, FAILED, USAGE} or "this is a bug" in said + told or "Traceback" in told:
        return False
    return code != FAILED or any(line.startswith("sfumato: ") for line in told.splitlines())


def caller(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    main: Callable[[], None] = entry.main,
) -> Run:
    """Exit code, output and error output of ``sfumato WORDS``, or of another command."""

    def call(*words: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["sfumato", *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            main()
        told = capsys.readouterr()
        return int(stopped.value.code or 0), told.out, told.err

    return call
