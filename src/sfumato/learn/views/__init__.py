"""What each stream sees of a record: public views, and records made ready for a model."""

from sfumato.learn.views._public_view import BLANK, Canaries
from sfumato.learn.views._registry import VIEWS, make_view, register_view, view_of_unit

__all__ = ["BLANK", "VIEWS", "Canaries", "make_view", "register_view", "view_of_unit"]
