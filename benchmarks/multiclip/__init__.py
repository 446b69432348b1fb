"""Noise in the training beside noise in the recordings."""
