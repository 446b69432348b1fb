"""Table ``strength``."""
