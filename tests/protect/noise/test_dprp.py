"""Video-DPRP: the noise is what was promised, for every change the unit allows."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from sfumato.errors import SfumatoError
from sfumato.media import Frame
from sfumato.privacy import (
    Bounds,
    Gaussian,
    Guarantee,
    Randomness,
    Relation,
    Unit,
    epsilon_of,
    format_epsilon,
)
from sfumato.protect import Shape, get
from sfumato.protect.noise import VideoDprp
from sfumato.protect.noise._bases import Array, Basis, Dct3
from sfumato.protect.noise._dprp_published import PUBLISHED_K, published_noise
from sfumato.protect.noise._lattice import Lattice, Numbers
from sfumato.protect.noise._noisy_blocks import (
    NoisyBlocks,
    block_lengths,
    even_blocks,
    shrink_bands,
    smoothed,
)
from sfumato.protect.noise._prediction import predict_dct

SHAPE = Shape(height=12, width=16, frames=8)
SMALL = {"block": 8, "kept_frames": 3, "kept_size": 4, "k": 40}
DELTA = 1e-5


def method(**changes: Any) -> VideoDprp:
    settings: dict[str, Any] = {"epsilon": 2.0, "delta": DELTA, "unit": "pixels(4, frames=2)"}
    return VideoDprp(**(settings | SMALL | changes))


def video(frames: int = 8, seed: int = 0) -> list[Frame]:
    generator = np.random.default_rng(seed)
    shape = (frames, SHAPE.height, SHAPE.width, 3)
    pictures = generator.integers(0, 256, shape).astype(np.uint8)
    return [Frame(picture, number, Fraction(number, 25)) for number, picture in enumerate(pictures)]


def changes_of(unit: Unit) -> list[Array]:
    """Black against white in the unit's worst places: flat, one channel, low-frequency signs."""
    pixels = unit.pixel_count or SHAPE.height * SHAPE.width
    frames = unit.frame_count or 8
    out = []
    vertical, horizontal = np.indices((SHAPE.height, SHAPE.width))
    corner = np.zeros((SHAPE.height, SHAPE.width), bool)
    corner.ravel()[np.argsort((vertical + horizontal).ravel(), kind="stable")[:pixels]] = True
    row = np.zeros_like(corner)
    row.ravel()[:pixels] = True
    for place, start in itertools.product((corner, row), (0, 8 - frames)):
        change = np.zeros((8, SHAPE.height, SHAPE.width, 3), np.float32)
        change[start : start + frames, place] = 255
        one = change.copy()
        one[..., 1:] = 0
        signs = change * np.where(horizontal < SHAPE.width / 2, 1, -1)[None, :, :, None]
        out += [change, one, signs.astype(np.float32)]
    return out


@pytest.mark.parametrize("basis", ["dct", "srht", "gaussian"])
@pytest.mark.parametrize("unit", ["pixels(4, frames=2)", "pixels(1, frames=1)", "frame", "clip"])
@pytest.mark.parametrize("epsilon", [0.5, 8.0])
def test_no_change_within_the_unit_costs_more_than_promised(
    basis: str, unit: str, epsilon: float
) -> None:
    """The exact epsilon of each change, from the coefficients it moves and the noise's scale."""
    made = method(basis=basis, unit=unit, epsilon=epsilon, seed=1)
    promise = made.promise(SHAPE)
    assert isinstance(promise, Guarantee)
    assert 0.99 * epsilon <= promise.epsilon <= epsilon
    transform, scale = made.basis(SHAPE), made.scale(SHAPE)
    moved = max(float(np.linalg.norm(transform.analyse(x))) for x in changes_of(made.unit))
    event = Gaussian(scale / moved, Bounds.DIFFERENCE)
    true = epsilon_of(event, DELTA, Relation.REPLACE, "analytic-gaussian")
    assert true <= epsilon
    if basis == "dct" and unit == "clip":
        # a white clip against a black one lies in the kept frequencies up to the sign of channels
        assert true > 0.97 * epsilon


class Recording:
    """A basis that keeps what it was asked to synthesise."""

    def __init__(self, inner: Basis) -> None:
        self.inner = inner
        self.clean: list[Numbers] = []
        self.noisy: list[Numbers] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def analyse(self, block: Array) -> Numbers:
        self.clean.append(self.inner.analyse(block))
        return self.clean[-1]

    def synthesise(self, coefficients: Numbers) -> Array:
        self.noisy.append(coefficients.copy())
        return self.inner.synthesise(coefficients)


def noise_of(made: VideoDprp, monkeypatch: pytest.MonkeyPatch, frames: int) -> npt.NDArray[Any]:
    """The noise that a whole release really added, block by block, in units of the scale.

    It is a whole number of the lattice's steps in every coefficient.
    """
    recording = Recording(made.basis(SHAPE))
    monkeypatch.setattr(made, "basis", lambda shape, frames=None: recording)
    assert len(list(made.frames(video(frames)))) == frames
    lattice = made.lattice(replace(SHAPE, frames=frames))
    steps = np.stack(recording.noisy) / lattice.spacing
    np.testing.assert_array_equal(lattice.values(np.rint(steps)), np.stack(recording.noisy))
    noise = np.rint(steps) - lattice.points(np.stack(recording.clean))
    return np.asarray(noise / 2.0**lattice.bits)


@pytest.mark.parametrize("basis", ["dct", "srht", "gaussian"])
def test_noise_is_standard_normal_and_independent_everywhere(
    basis: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = method(basis=basis, shrink=False, seed=7)
    noise = noise_of(made, monkeypatch, frames=8 * 60)
    assert stats.kstest(noise.ravel(), "norm").pvalue > 1e-4
    blocks = noise.reshape(60, -1)
    per_coefficient = (blocks**2).sum(axis=0)
    assert stats.chi2(60).cdf(per_coefficient.min()) > 1e-6
    assert stats.chi2(60).sf(per_coefficient.max()) > 1e-6
    correlation = np.corrcoef(blocks.T)
    np.fill_diagonal(correlation, 0)
    # Fisher: |r| beyond 6.5 / sqrt(57) has probability below 1e-10 for each of < 1e5 pairs
    assert np.abs(correlation).max() < np.tanh(6.5 / math.sqrt(57))


def test_operating_system_entropy_never_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = method(shrink=False), method(shrink=False)
    first, second = (noise_of(each, monkeypatch, 8).ravel() for each in (one, two))
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.5
    assert one.promise(SHAPE).is_private


def test_output_depends_on_the_video_only_through_the_noised_coefficients() -> None:
    """Pixels that the kept frequencies do not see may change at will (no private maximum, R12)."""
    frames = video()
    hidden = [replace(frame, image=frame.image.copy()) for frame in frames]
    for frame, original in zip(hidden, frames):
        frame.image[:] = 100
        original.image[:] = 100
        frame.image[0, 0], frame.image[5, 5] = 250, 0
        original.image[0, 0], original.image[5, 5] = 125, 125
    settings = {"kept_frames": 1, "kept_size": 1, "seed": 3, "unit": "pixels(1, frames=1)"}
    one = [frame.image for frame in method(**settings).frames(hidden)]
    two = [frame.image for frame in method(**settings).frames(frames)]
    np.testing.assert_allclose(np.stack(one).astype(int), np.stack(two).astype(int), atol=1)


@pytest.mark.parametrize("count", [1, 7, 8, 9, 20])
def test_every_frame_comes_back_once_with_its_own_time(count: int) -> None:
    stream = method(seed=0).frames(video(count))
    with pytest.raises(SfumatoError, match="read it to the end"):
        _ = stream.guarantee
    out = list(stream)
    assert [frame.pts for frame in out] == list(range(count))
    assert all(frame.image.shape == (12, 16, 3) for frame in out)
    assert isinstance(stream.guarantee, Guarantee)
    assert not stream.guarantee.is_private


def test_each_frame_enters_exactly_one_block() -> None:
    """R11: overlapping blocks would release a frame twice."""
    made: list[Recording] = []

    def whole(length: int) -> tuple[Basis, Lattice]:
        made.append(Recording(Dct3(12, 16, block=length, kept_frames=length, kept_size=16)))
        return made[-1], Lattice(1e-6, 20)  # type: ignore[return-value]

    stream = Randomness(0).keystream()
    noisy = NoisyBlocks(*whole(8), stream, shorter=whole)
    frames = [frame.image for frame in video(20)]
    out = list(noisy(iter(frames)))
    np.testing.assert_array_equal(np.stack(out), np.stack(frames))
    assert [len(block) for each in made for block in each.clean] == [8, 6, 6]
    with pytest.raises(SfumatoError, match="whole blocks of 8 frames"):
        list(NoisyBlocks(*whole(8), stream)(iter(frames)))


@pytest.mark.parametrize("size", [1, 5, 8])
def test_blocks_follow_from_the_number_of_frames_alone(size: int) -> None:
    for count in range(1, 30):
        frames = np.arange(count, dtype=np.uint8)[:, None]
        blocks = list(even_blocks(iter(frames), size))
        np.testing.assert_array_equal(np.concatenate(blocks), frames)
        lengths = [len(block) for block in blocks]
        assert lengths == block_lengths(count, size)
        assert max(lengths) <= size
        assert min(lengths) >= min(count, size / 2)


@pytest.mark.parametrize("basis", ["dct", "srht", "gaussian"])
@pytest.mark.parametrize("unit", ["pixels(4, frames=3)", "frame", "frame(5)", "video"])
@pytest.mark.parametrize("length", [8, 11, 13])
def test_a_change_across_blocks_of_different_lengths_costs_no_more_than_promised(
    basis: str, unit: str, length: int
) -> None:
    """R11: what the blocks see of a change, each in units of its own noise, adds up below 1 / z."""
    made = method(basis=basis, unit=unit, epsilon=1.0)
    shape = replace(SHAPE, frames=length)
    pixels, frames = made.unit.pixel_count, made.unit.frame_count
    place = np.zeros((12, 16, 1), np.float32)
    place.ravel()[: pixels or place.size] = 255
    worst = 0.0
    for start in range(length - (frames or length) + 1):
        change = np.zeros((length, 12, 16, 3), np.float32)
        change[start : start + (frames or length)] = place
        squared, begin = 0.0, 0
        for size in block_lengths(length, made.block_length(shape)):
            part, lattice = change[begin : begin + size], made.lattice(shape, size)
            white, black = (
                lattice.points(made.basis(shape, size).analyse(seen - np.float32(127.5)))
                for seen in (part, 0 * part)
            )
            steps = (white - black).astype(float) / 2.0**lattice.bits
            squared += float(np.square(steps).sum())
            begin += size
        worst = max(worst, math.sqrt(squared))
    promise = made.promise(shape)
    assert isinstance(promise, Guarantee)
    assert promise.epsilon <= 1.0
    true = epsilon_of(Gaussian(1 / worst, Bounds.DIFFERENCE), DELTA, Relation.REPLACE)
    assert true <= 1.0
    if basis == "dct" and unit == "video":
        assert true > 0.97, "no noise is wasted"


@pytest.mark.parametrize("basis", ["dct", "srht"])
@pytest.mark.parametrize("count", [3, 9, 15, 20])
def test_the_last_frames_are_as_good_as_the_first(basis: str, count: int) -> None:
    """A still picture stays itself to the end, whatever the length: nothing fades to grey."""
    vertical, horizontal = np.indices((12, 16))
    still = (40 + 8 * vertical + 6 * horizontal)[..., None].repeat(3, axis=2).astype(np.uint8)
    frames = [Frame(still, n, Fraction(n, 25)) for n in range(count)]
    settings = {"kept_size": 8, "k": 576, "unit": "pixels(1, frames=1)", "epsilon": 1e6}
    out = np.stack([f.image for f in method(basis=basis, **settings).frames(frames)])
    errors = np.abs(out.astype(float) - still).mean(axis=(1, 2, 3))
    assert errors.max() < 3.0


def test_a_promise_for_another_unit_counts_the_quietest_block() -> None:
    """Noise for 16 pixels of one frame, stated for a whole frame: short blocks may be worse."""
    made = method(unit="pixels(16, frames=1)", epsilon=1.0)
    shape = replace(SHAPE, frames=9)
    (_, frame, _) = made.true_promises(shape)
    white = np.full((5, 12, 16, 3), 0, np.float32)
    white[0] = 255
    for size in block_lengths(9, 8):
        moved = float(np.linalg.norm(made.basis(shape, size).analyse(white[:size])))
        event = Gaussian(made.scale(shape, size) / moved, Bounds.DIFFERENCE)
        assert epsilon_of(event, DELTA, Relation.REPLACE) <= frame.epsilon


def test_longer_units_need_more_noise_even_across_blocks() -> None:
    shape = replace(SHAPE, frames=80)
    scales = [method(unit=f"pixels(4, frames={n})").scale(shape) for n in (1, 8, 16, 80)]
    assert scales == sorted(scales)
    # up to the share of rounding, which is at most 2^-20
    assert scales[3] == pytest.approx(scales[1] * math.sqrt(10), rel=1e-6)
    lengths = [method(unit=f"pixels(4, frames={n})").reach(shape).length for n in (8, 80)]
    assert lengths[1] == pytest.approx(lengths[0] * math.sqrt(10), rel=1e-9)
    whole = method(unit="video").scale(shape)
    assert whole == pytest.approx(method(unit="frame(80)").scale(shape), rel=1e-12)


def test_units_without_an_extent_are_refused() -> None:
    with pytest.raises(SfumatoError, match="must be known first"):
        method(unit="clip").frames(video())
    with pytest.raises(SfumatoError, match="Expected the unit"):
        method(unit="record").promise(SHAPE)
    with pytest.raises(SfumatoError, match="got more"):
        list(method(unit="clip").frames(video(9), count=8))


@pytest.mark.parametrize(
    ("epsilon", "sigma_1", "sigma_2"), [(2, 13.85, 88.9), (5, 6.148, 56.2), (8, 4.189, 44.5)]
)
def test_published_theorems_to_the_letter(epsilon: float, sigma_1: float, sigma_2: float) -> None:
    noise = published_noise(epsilon, 1e-4, PUBLISHED_K["32x32"])
    assert noise.sigma_1 == pytest.approx(sigma_1, rel=1e-3)
    assert noise.sigma_2 == pytest.approx(sigma_2, abs=0.05)


def test_published_noise_is_shown_with_its_true_epsilon() -> None:
    made = method(basis="gaussian", calibration="published", epsilon=2.0, unit="frame", seed=0)
    promise = made.promise(SHAPE)
    assert isinstance(promise, Guarantee)
    sound = method(basis="gaussian", epsilon=2.0, unit="frame", seed=0)
    assert promise.epsilon > 1000 * 2.0
    assert made.scale(SHAPE) < sound.scale(SHAPE) / 100
    truth = {str(each.unit): each.epsilon for each in made.true_promises(SHAPE)}
    assert truth["pixels(16, frames=1)"] < truth["frame"] < truth["video"]


def test_repaired_line_ten_does_not_depend_on_the_covariance() -> None:
    """P~ V (R V)^+ = P~ R^+ for orthogonal V (J1): what the published basis computes."""
    generator = np.random.default_rng(5)
    matrix = generator.standard_normal((60, 9))
    turned, _ = np.linalg.qr(generator.standard_normal((9, 9)))
    projected = generator.standard_normal((4, 9))
    line_ten = projected @ turned @ np.linalg.pinv(matrix @ turned)
    np.testing.assert_allclose(line_ten, projected @ np.linalg.pinv(matrix), atol=1e-12)


def test_prediction_tells_useful_from_useless() -> None:
    """SOUNDNESS 5.3: 16 pixels of a frame leave a picture, a whole clip leaves nothing."""
    shape = Shape(240, 320, 64)
    settings = {"epsilon": 2.0, "delta": 1e-4, "block": 64}
    few = VideoDprp(**settings, unit="pixels(16, frames=1)").predict(shape)
    clip = VideoDprp(**settings, unit="clip").predict(shape)
    assert few.useful
    assert not clip.useful
    assert "nothing useful" in str(clip)


@pytest.mark.parametrize("basis", ["srht", "gaussian"])
@pytest.mark.parametrize("shrink", [True, False])
def test_prediction_of_random_projections_agrees_with_white_noise(basis: str, shrink: bool) -> None:
    """A random projection sees the energy only, so pictures of independent values will do."""
    made = method(basis=basis, k=200, unit="pixels(1, frames=1)", shrink=shrink, block=16)
    shape = replace(SHAPE, frames=16)
    generator = np.random.default_rng(0)
    truth = generator.normal(0, math.hypot(40, 60), (16, 12, 16, 3)).astype(np.float32)
    transform, scale = made.basis(shape), made.scale(shape)
    noisy = transform.analyse(truth)
    noisy += scale * generator.standard_normal(noisy.shape).astype(np.float32)
    back = transform.synthesise(shrink_bands(noisy, scale) if shrink else noisy)
    measured = 10 * math.log10(255**2 / np.mean((back - truth) ** 2))
    assert made.predict(shape).psnr == pytest.approx(measured, abs=0.4)


def test_prediction_agrees_with_what_a_picture_of_the_prior_gives() -> None:
    """A random picture drawn from the prior itself, protected and compared."""
    height, width, block = 48, 64, 8
    generator = np.random.default_rng(0)
    full = Dct3(height, width, block=block, kept_frames=block, kept_size=width)
    scale = 120.0
    errors, greys = [], []
    for _ in range(20):
        vertical, horizontal = np.arange(height) / 2, np.arange(width) / 2
        squared = vertical[:, None] ** 2 + horizontal[None, :] ** 2
        squared[0, 0] = np.inf
        spatial = 1 / squared
        spatial *= 60**2 * height * width / spatial.sum()
        spatial[0, 0] = 40**2 * height * width
        temporal = 1 / (1 + np.arange(block) ** 2.0)
        temporal *= block / temporal.sum()
        power = np.sqrt(temporal[:, None, None] * spatial)[..., None]
        truth = full.synthesise(
            (power * generator.standard_normal((block, height, width, 3))).astype(np.float32)
        )
        basis = Dct3(height, width, block=block, kept_frames=2, kept_size=16)
        noisy = basis.analyse(truth)
        noisy += scale * generator.standard_normal(noisy.shape).astype(np.float32)
        back = basis.synthesise(shrink_bands(noisy, scale))
        errors.append(np.mean((back - truth) ** 2))
        greys.append(np.mean(truth**2))
    predicted = predict_dct(height, width, block, 2, 16, scale)
    measured = 10 * math.log10(255**2 / np.mean(errors))
    assert predicted.psnr == pytest.approx(measured, abs=1.0)
    assert predicted.grey_psnr == pytest.approx(10 * math.log10(255**2 / np.mean(greys)), abs=1.0)


def test_shrinkage_never_makes_pure_noise_louder_and_keeps_a_strong_signal() -> None:
    generator = np.random.default_rng(1)
    noise = generator.standard_normal((4, 8, 8, 3)).astype(np.float32)
    assert np.linalg.norm(shrink_bands(noise, 1.0)) < 0.5 * np.linalg.norm(noise)
    np.testing.assert_allclose(shrink_bands(noise + 1000, 1.0), noise + 1000, rtol=1e-3)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"basis": "wavelet"}, "basis of the method dprp as one of dct, srht, gaussian"),
        ({"calibration": "published"}, "belongs to the basis gaussian"),
        ({"kept_frames": 9}, "as many kept frames as a block has"),
        ({"epsilon": 0.0}, "psilon"),
        ({"delta": 0.0}, "elta"),
        ({"unit": "frame", "relation": "add-remove"}, "relation"),
    ],
)
def test_bad_settings_get_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SfumatoError, match=sentence):
        method(**changes)


def test_registry_finds_it_and_names_the_choices() -> None:
    assert get("dprp") is VideoDprp
    with pytest.raises(SfumatoError, match="dprp"):
        get("magic")


@pytest.mark.parametrize("count", [1, 2, 5, 9])
@pytest.mark.parametrize("radius", [0, 1, 3])
def test_smoothing_over_time_gives_every_frame_and_the_binomial_mean(
    count: int, radius: int
) -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (count, 2, 3, 3)).astype(np.uint8)
    out = np.stack(list(smoothed(iter(pictures), radius)))
    filled = np.pad(pictures.astype(float), ((radius, radius), (0, 0), (0, 0), (0, 0)), "edge")
    weights = np.array([math.comb(2 * radius, n) for n in range(2 * radius + 1)]) / 4**radius
    expected = [np.tensordot(weights, filled[n : n + 2 * radius + 1], axes=1) for n in range(count)]
    np.testing.assert_allclose(out, expected, atol=0.51)


def test_three_clips_put_each_frame_into_one_of_three_blocks() -> None:
    """The paper's Table 2, sound: an hour in three clips has the sensitivity of all its frames."""
    made = method(clips=3, unit="video", seed=1, smooth=2)
    whole = replace(SHAPE, frames=20)
    assert made.block_length(whole) == 7
    assert made.needs_length
    assert len(list(made.frames(video(20), count=20))) == 20
    one, all_of_it = (made.sensitivity(whole, Unit.frame(n)) for n in (1, 20))
    assert one < all_of_it == made.sensitivity(whole)
    assert all_of_it == pytest.approx(255 * math.sqrt(3 * 12 * 16 * 20))
    with pytest.raises(SfumatoError, match="needs the number of its frames"):
        method(clips=3).promise(replace(SHAPE, frames=None))


def test_the_papers_grids_are_known_by_name() -> None:
    assert method(basis="srht", k="20x20").k == 1200
    with pytest.raises(SfumatoError, match="24x32"):
        method(k="7x7")


def test_the_card_of_the_published_noise_shows_what_it_gives_for_every_unit() -> None:
    made = method(basis="gaussian", calibration="published", unit="frame", epsilon=8.0)
    assert made.needs_length, "a person in every frame is there as often as there are frames"
    promise = made.promise(SHAPE)
    assert isinstance(promise, Guarantee)
    listed = " ".join(promise.not_covered)
    for other in made.true_promises(SHAPE):
        assert other.epsilon > 8
        if other.unit != promise.unit:
            assert f"epsilon {format_epsilon(other.epsilon)} for {other.unit}" in listed
    said = [line for line in made.remarks(SHAPE) if "really gives epsilon" in line]
    assert len(said) == len(made.true_promises(SHAPE))
    for line in said:
        assert "relation replace, delta" in line
        assert "released once, accountant analytic-gaussian" in line
    assert "pixels(16, frames=1)" in listed
    assert "video" in listed


def test_k_is_said_to_be_for_other_bases_if_it_is() -> None:
    said = " ".join(method(basis="dct", k=40).remarks(SHAPE))
    assert "k is for the bases srht and gaussian" in said
    assert "k is for" not in " ".join(method(basis="srht", k=40).remarks(SHAPE))
