"""Mistakes in voices (700-709): what would let the original through, or tell of its secrets."""

from __future__ import annotations

from mutants._mutant import Mutant, Patch

_RELEASE = "tests/protect/voice/test_voice_release.py"
_OVERLAP = "tests/protect/voice/test_overlap.py"
_THROUGH = (f"{_RELEASE}::test_no_sample_of_the_recording_goes_through",)
_CHANNELS = (f"{_RELEASE}::test_a_sound_file_is_as_long_and_its_channels_are_one",)

MUTANTS = (
    Mutant(
        "700",
        "voice: the recording shines through a little",
        (Patch("protect/voice/_vocoder.py", "return out / 1.5", "return out / 1.5 + 0.3 * segment"),),
        _THROUGH,
    ),
    Mutant(
        "701",
        "voice: the difference of channels is added again",
        (
            Patch(
                "protect/voice/_voice.py",
                "write(change.push(block.mean(0)))",
                "done = change.push(block.mean(0))\n"
                "                    writer.write(np.stack([done, 0.9 * done])[:channels])",
            ),
        ),
        _CHANNELS,
    ),
    Mutant(
        "702",
        "voice: the same secrets for every release",
        (
            Patch(
                "protect/voice/_effects.py",
                "secret = randomness.generator()",
                "secret = np.random.default_rng(0)",
            ),
            Patch(
                "protect/voice/_effects.py",
                "heard, targets, who, randomness.generator(),",
                "heard, targets, who, np.random.default_rng(1),",
            ),
        ),
        (f"{_RELEASE}::test_secrets_are_new_for_every_release",),
    ),
    Mutant(
        "703",
        "voice: silence is filled with noise",
        (
            Patch(
                "protect/voice/_vocoder.py",
                "loudness[level[here] < _SILENCE] = _NOTHING",
                "pass",
            ),
        ),
        (f"{_RELEASE}::test_silence_stays_silence",),
    ),
    Mutant(
        "704",
        "sound: the last block is lost",
        (
            Patch(
                "media/_sound.py",
                "self._encode(self._change.flush())",
                "self._came = self._gone",
            ),
        ),
        (f"{_RELEASE}::test_a_video_has_other_voices_in_the_same_places",),
    ),
    Mutant(
        "705",
        "sound: NaN goes through",
        (Patch("media/_sound_files.py", "if not np.isfinite(samples).all():", "if False:"),),
        ("tests/media/test_sound_files.py::test_samples_that_are_no_numbers_are_refused",),
    ),
    Mutant(
        "706",
        "sound: anonymized without changes is kept",
        (
            Patch(
                "media/_writer.py",
                "SoundTrack(self._audio_source, self._container, self._audio_changes)",
                "SoundTrack(self._audio_source, self._container, None)",
            ),
        ),
        (f"{_RELEASE}::test_a_video_has_other_voices_in_the_same_places",),
    ),
    Mutant(
        "707",
        "voice: blocks are cut by how the sound comes",
        (
            Patch(
                "protect/voice/_overlap.py",
                "ready = self._sums[max(0, context - self._next) : block].copy()",
                "ready = self._sums[max(0, context - self._next + 1) : block].copy()",
            ),
        ),
        (f"{_OVERLAP}::test_every_sample_comes_back_in_its_place",),
    ),
    Mutant(
        "708",
        "audit: impostors counted as genuine",
        (
            Patch(
                "audit/attack/_speakers.py",
                "let_in = 1 - np.searchsorted(other, levels, \"left\") / len(other)",
                "let_in = 1 - np.searchsorted(own, levels, \"left\") / len(own)",
            ),
        ),
        ("tests/audit/attack/test_speakers.py::test_equal_error_rate_is_that_of_every_threshold_tried",),
    ),
    Mutant(
        "796",
        "audit: a number that slept while it learned blinds the attacker",
        (
            Patch(
                "audit/attack/_speakers.py",
                "np.clip((each - mean) / spread, -4, 4)",
                "((each - mean) / spread)",
            ),
        ),
        (
            "tests/audit/attack/test_speakers.py::test_a_number_that_slept_while_the_attacker_learned_does_not_blind_it",
        ),
    ),
    Mutant(
        "709",
        "card: kept voices are not mentioned",
        (
            Patch(
                "protect/_release.py",
                'said = f" {_VOICES_IF_ANY[audio]}"',
                'said = ""',
            ),
        ),
        (f"{_RELEASE}::test_kept_sound_is_said_to_be_as_it_was",),
    ),
    Mutant(
        "710",
        "card: a protected recording is said to have had sound",
        (Patch("protect/_release.py", 'told if self.keeps_times else "Any', 'told if True else "Any'),),
        (f"{_RELEASE}::test_no_card_of_a_protected_recording_tells_whether_it_had_sound",),
    ),
)  # fmt: skip
