"""Voices: sound in which people cannot easily be recognised by how they sound."""

from sfumato.protect.voice._effects import Algorithm, effect_for
from sfumato.protect.voice._overlap import OverlapAdd
from sfumato.protect.voice._speakers import Timeline, follow_speakers
from sfumato.protect.voice._voice import Voice

__all__ = ["Algorithm", "OverlapAdd", "Timeline", "Voice", "effect_for", "follow_speakers"]
