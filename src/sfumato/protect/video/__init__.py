"""Release methods for video and pictures."""

from sfumato.protect.video._dprp import VideoDprp

__all__ = ["VideoDprp"]
