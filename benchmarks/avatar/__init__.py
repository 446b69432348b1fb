"""Avatars on staged truth and real clips."""
