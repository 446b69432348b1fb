"""Staged people that several tables share."""
