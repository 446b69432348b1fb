"""sfumato: share recordings of people, or a model trained on them, without giving the people away.

Three verbs, ``protect``, ``train`` and ``audit``, and one noun, the ``Guarantee``. Rooms are imported
by name (``from sfumato import privacy``); importing this package imports none of them.

What the library logs goes to the logger ``sfumato`` and those below it; nothing is shown unless asked.
"""

import logging

logging.getLogger(__name__).addHandler(logging.NullHandler())

__version__ = "0.2.0"
