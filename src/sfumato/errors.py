"""The one exception that becomes one sentence on the command line."""

from __future__ import annotations


class SfumatoError(Exception):
    """Something a user can mend: what was expected, what came, what to do.

    The message is shown as it is, without a traceback, so it must never contain private content:
    no pixels, no labels, no input paths beyond what the user typed in this very command.
    """


class MissingExtraError(SfumatoError):
    """A capability whose optional dependency is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package!r}, which is not installed: "
            f"run pip install 'sfumato[{extra}]'."
        )
