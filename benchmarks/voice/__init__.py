"""Voices: what is left of speakers and of words after each algorithm."""
