"""Works for the tests of the queue, as another process imports them."""

from __future__ import annotations

import threading
from typing import Any

from sfumato.errors import SfumatoError
from sfumato.progress import tell


def count(arguments: dict[str, Any], report: Any) -> int:
    report({"so far": 1})
    tell("counting", len(arguments["numbers"]), len(arguments["numbers"]))
    return sum(arguments["numbers"])


def wrong(arguments: dict[str, Any], report: Any) -> None:
    raise SfumatoError("Expected a number")


def bug(arguments: dict[str, Any], report: Any) -> None:
    raise ZeroDivisionError("private content")


def wait(arguments: dict[str, Any], report: Any) -> None:
    report({"waiting": True})
    threading.Event().wait()
