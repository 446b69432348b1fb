"""The studio's server on long recordings."""
