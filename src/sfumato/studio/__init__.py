"""The local web page: see, correct, release. Every action is a call of another room.

``serve(root)`` runs it on the loopback; ``make_app`` is the ASGI application behind it.
"""

from sfumato.studio._serve import serve

__all__ = ["serve"]
