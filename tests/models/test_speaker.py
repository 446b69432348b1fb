"""Resemblyzer's network in plain torch."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.io import wavfile
from scipy.signal import resample_poly

from sfumato import store
from sfumato.models import SpeakerEncoder


def test_mel_filters_have_equal_area_and_slaneys_edges() -> None:
    filters = SpeakerEncoder().filters.numpy()
    assert filters.shape == (40, 201)
    bins = np.linspace(0, 8000, 201)
    peaks = bins[filters.argmax(1)]
    assert (np.diff(peaks) >= 0).all()
    # linear up to 1 kHz: equal triangles; above, wider and lower ones
    assert np.ptp(np.diff(peaks[peaks < 1000])) <= 40
    assert filters[-1].max() < filters[0].max() / 3


def test_vectors_have_length_one_and_short_sound_is_padded() -> None:
    torch.manual_seed(0)
    encoder = SpeakerEncoder()
    for samples in (1, 4000, 60_000):
        sound = 0.1 * np.random.default_rng(samples).standard_normal(samples)
        assert np.linalg.norm(encoder.embed(sound)) == pytest.approx(1, abs=1e-5)
    assert len(encoder.partials(np.zeros(16_000 * 4))) == 4


@pytest.mark.models
def test_one_voice_is_nearer_to_itself_than_to_another(tmp_path: Path) -> None:
    if shutil.which("espeak-ng") is None:
        pytest.skip("no espeak-ng on this machine")
    if store.state("resemblyzer") != store.CacheState.READY:
        pytest.skip("the model resemblyzer was not pulled")
    encoder = SpeakerEncoder.pretrained(offline=True)
    found = []
    for voice in ("en-us+m3", "en-us+f2"):
        for text in ("The boy was there when the sun rose.", "A rod is used to catch pink salmon."):
            path = tmp_path / "a.wav"
            subprocess.run(["espeak-ng", "-v", voice, "-w", str(path), text], check=True)
            rate, sound = wavfile.read(path)
            found.append(encoder.embed(resample_poly(sound / 32768, 320, 441)))
            assert rate == 22050
    alike = np.stack(found) @ np.stack(found).T
    assert min(alike[0, 1], alike[2, 3]) > max(alike[:2, 2:].max(), 0.6)
