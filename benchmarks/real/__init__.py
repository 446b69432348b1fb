"""Table ``real``: private training on real recordings."""
