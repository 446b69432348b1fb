"""What each stream sees of a record: public views, and records made ready for a model."""

from sfumato.learn.views._public_view import BLANK

__all__ = ["BLANK"]
