"""The code of a noisy release, run on two neighbours: the unit all bright, and all dark.

What is looked at is what the method itself draws: released pictures for noise on pixels, the noised
coefficients or latents for methods that shrink and round afterwards (post-processing can only hide
a mistake). Scores are likelihood ratios under the settings; a wrong score would still certify.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import singledispatch
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from sfumato.audit.certify._conformance import ALARM, Finding
from sfumato.audit.certify._conformance_release import (
    check_basis,
    check_release_noise,
    check_table,
    distinguisher_scores,
    noise_finding,
)
from sfumato.audit.certify._epsilon import AuditError
from sfumato.media import Frame, Image
from sfumato.privacy import KeyStream, threshold_of
from sfumato.protect import Shape
from sfumato.protect.noise import (
    LEVELS,
    SNOW_GREY,
    DpImage,
    GreyLevelResponse,
    LaplaceNoise,
    Snow,
    VideoDprp,
    unit_extent,
)

Array = npt.NDArray[np.float64]
Pair = tuple[Array, Array]
Ratio = Callable[[Image], float]

# Random numbers drawn for one distinguisher, and pictures released for it; a latent is dearer.
_DRAWS, _PICTURES, _LATENTS = 40_000_000, 16_000, 2_000
_FEWEST, _MOST = 500, 20_000
BRIGHT, DARK = 255, 0


def small_shape(method: Any, shape: Shape) -> Shape:
    """A recording as small as the unit allows; Video-DPRP is audited at the size of its release.

    Noise on pixels depends on the size only through the unit. A unit of whole frames is audited on
    small ones, with the noise that the same settings give there.
    """
    if method.noise_needs_size:
        return shape
    unit = method.unit
    if not method.counts_pixels or unit.pixel_count is None:
        side, frames = 6, unit.frame_count or min(shape.frames or 2, 2)
    else:
        side = math.ceil(math.sqrt(min(unit.pixel_count, shape.height * shape.width)))
        frames = unit.frame_count
    return Shape(side, side, frames if shape.frames is None else min(frames, shape.frames))


@singledispatch
def release_scores(method: Any, shape: Shape) -> Pair:
    """One score a run of the method on each of two neighbouring recordings of ``shape``."""
    trials, frames, bright, dark = _neighbours(method, shape, _PICTURES)
    ratio = _ratio(method, shape, bright, dark)
    out = []
    for picture in (bright, dark):
        stream = method.transform(_stream(picture, trials * frames), shape)
        scores = np.array([ratio(frame.image) for frame in stream])
        out.append(scores.reshape(trials, frames).sum(1))
    return out[0], out[1]


@release_scores.register
def _(method: VideoDprp, shape: Shape) -> Pair:
    basis, (pixels, frames) = method.basis(shape), unit_extent(method.unit, shape)
    return distinguisher_scores(
        basis, method.lattice(shape), shape.height, shape.width, pixels=pixels, frames=frames,
        trials=int(np.clip(_DRAWS // basis.coefficients, _FEWEST, _MOST)),
        stream=method.randomness.keystream(),
    )  # fmt: skip


def _neighbours(method: Any, shape: Shape, pictures: int) -> tuple[int, int, Image, Image]:
    """Trials that ``pictures`` allow, frames of the unit, and the unit all bright and all dark."""
    pixels, frames = unit_extent(method.unit, shape)
    values = 3 * shape.height * shape.width * frames
    trials = int(np.clip(min(_DRAWS // values, pictures // frames) // 2, _FEWEST, _MOST))
    bright, dark = (_recording(shape, pixels, level) for level in (BRIGHT, DARK))
    return trials, frames, bright, dark


@singledispatch
def check_release(method: Any, shape: Shape) -> list[Finding]:
    """Sensitivity and noise of a method's own parts, whatever an attack can see of them."""
    raise AuditError(f"Expected a noisy method, got {method.name}: it proves nothing.")


@check_release.register
def _(method: VideoDprp | LaplaceNoise, shape: Shape) -> list[Finding]:
    pixels, frames = unit_extent(method.unit, shape)
    parts = (method.basis(shape), method.lattice(shape), shape.height, shape.width)
    return [
        check_basis(*parts, pixels=pixels, frames=frames),
        check_release_noise(*parts, stream=method.randomness.keystream()),
    ]


@check_release.register
def _(method: DpImage, shape: Shape) -> list[Finding]:
    stream = method.randomness.keystream()
    return [_latent_norm(method, shape), _latent_noise(method, shape, stream)]


def _recording(shape: Shape, pixels: int, level: int) -> Image:
    """Grey, with the unit's pixels at one level."""
    picture = np.full((shape.height, shape.width, 3), 128, dtype=np.uint8)
    picture.reshape(-1, 3)[:pixels] = level
    return picture


def _stream(picture: Image, count: int) -> Iterator[Frame]:
    return (Frame(picture, number, Fraction(number, 25)) for number in range(count))


@singledispatch
def _ratio(method: Any, shape: Shape, bright: Image, dark: Image) -> Ratio:
    """Log-likelihood ratio of one released picture: bright against dark."""
    raise AuditError(f"Expected a noisy method, got {method.name}: it proves nothing.")


@_ratio.register
def _(method: LaplaceNoise, shape: Shape, bright: Image, dark: Image) -> Ratio:
    basis, scale = method.basis(shape), method.scale(shape)
    means = [basis.analyse(picture[None].astype(np.float32))[0] for picture in (bright, dark)]
    levels = np.arange(LEVELS)
    # rounding and clipping put a whole interval of noise on every level
    tables = [_laplace_levels(levels, mean[..., None], scale) for mean in means]
    logs = np.log(np.maximum(tables[0], 1e-300)) - np.log(np.maximum(tables[1], 1e-300))

    def laplace(image: Image) -> float:
        seen = image[:: basis.size, :: basis.size][..., None].astype(np.int64)
        return float(np.take_along_axis(logs, seen, axis=-1).sum())

    return laplace


@_ratio.register
def _(method: GreyLevelResponse, shape: Shape, bright: Image, dark: Image) -> Ratio:
    changed = bright != dark
    return lambda image: (
        float((image[changed] == BRIGHT).sum()) - float((image[changed] == DARK).sum())
    )


@_ratio.register
def _(method: Snow, shape: Shape, bright: Image, dark: Image) -> Ratio:
    changed = bright != dark
    return lambda image: (
        float((image[changed] == BRIGHT).any()) - float((image[changed] == DARK).any())
    )


def _laplace_levels(levels: Any, mean: Any, scale: float) -> Any:
    upper = np.where(levels == BRIGHT, np.inf, levels + 0.5)
    lower = np.where(levels == DARK, -np.inf, levels - 0.5)
    noise = stats.laplace(loc=mean, scale=scale)
    # the far tail by survival: differences of a cumulative near one lose all digits
    near = noise.cdf(upper) - noise.cdf(lower)
    return np.where(lower > mean, noise.sf(lower) - noise.sf(upper), near)


@release_scores.register
def _(method: DpImage, shape: Shape) -> Pair:
    trials, frames, bright, dark = _neighbours(method, shape, _LATENTS)
    lattice, stream = method.lattice(shape), method.randomness.keystream()
    direction = method.clipped(bright) - method.clipped(dark)
    length = float(np.linalg.norm(direction))
    out = []
    for picture in (bright, dark):
        drawn = [
            lattice.values(method.noised(picture, lattice, stream)) @ direction / length
            for _ in range(trials * frames)
        ]
        out.append(np.array(drawn).reshape(trials, frames).sum(1))
    return out[0], out[1]


def _latent_norm(method: DpImage, shape: Shape) -> Finding:
    """Whatever the picture, its latent is no longer than C, so two are no further than 2 C."""
    rng = np.random.default_rng(0)
    size = (shape.height, shape.width, 3)
    pictures = [np.full(size, level, dtype=np.uint8) for level in (BRIGHT, DARK)]
    pictures += [rng.choice([DARK, BRIGHT], size).astype(np.uint8) for _ in range(20)]
    lattice = method.lattice(shape)
    points = [lattice.points(method.clipped(picture)) for picture in pictures]
    most = max(float(np.linalg.norm(one - other)) for one in points for other in points)
    # n frames move by the square root of n times what one moves
    _, frames = unit_extent(method.unit, shape)
    share = most * math.sqrt(frames) * lattice.spacing / method.sensitivity(shape)
    detail = f"two pictures moved the points by {share:.6f} of the bound"
    return Finding("sensitivity of the latent, rounding included", 0 < share <= 1, detail)


def _latent_noise(method: DpImage, shape: Shape, stream: KeyStream) -> Finding:
    picture, lattice = _recording(shape, 1, BRIGHT), method.lattice(shape)
    clean = lattice.points(method.clipped(picture))
    drawn = [method.noised(picture, lattice, stream) - clean for _ in range(60)]
    return noise_finding(np.stack(drawn), lattice)


@check_release.register
def _(method: GreyLevelResponse, shape: Shape) -> list[Finding]:
    """The table of 256 levels, enumerated; and draws of the code itself compared with it."""
    noise = method.noise(shape)
    # the odds of the coin that is really thrown
    replaced = threshold_of(noise) / 2**64
    table = np.full((LEVELS, LEVELS), replaced / LEVELS)
    table[np.diag_indices(LEVELS)] += 1 - replaced
    allowed = method.event(noise, shape).event.epsilon  # type: ignore[attr-defined]
    ramp = np.repeat(np.arange(LEVELS, dtype=np.uint8)[:, None, None], 32, axis=1)
    picture = np.repeat(ramp, 3, axis=2)
    size = Shape(picture.shape[0], picture.shape[1], shape.frames)
    counts = np.zeros((LEVELS, LEVELS))
    # the noise belongs to the unit's shape: the same probability on a picture of all levels
    fixed = GreyLevelResponse(unit=method.unit, noise=noise)
    fixed.randomness = method.randomness
    for frame in fixed.transform(_stream(picture, 40), size):
        for level, row in enumerate(frame.image.reshape(LEVELS, -1)):
            counts[level] += np.bincount(row, minlength=LEVELS)
    return [check_table(table, allowed), check_draws(counts, table)]


def check_draws(counts: Any, table: Any) -> Finding:
    """Do draws of the code (one row an input) follow the table? Chi-square, rare cells together."""
    seen, wanted = np.asarray(counts, dtype=np.float64), np.asarray(table, dtype=np.float64)
    expected = seen.sum(1, keepdims=True) * wanted
    large = expected >= 5
    statistic = float((((seen - expected) ** 2)[large] / expected[large]).sum())
    cells = int(large.sum())
    rest_seen, rest = float(seen[~large].sum()), float(expected[~large].sum())
    freedom = cells - int(large.any(1).sum()) + int(rest > 0)
    if rest > 0:
        statistic += (rest_seen - rest) ** 2 / rest
    fine = rest > 0 or rest_seen == 0
    fine = fine and (freedom < 1 or float(stats.chi2.sf(statistic, freedom)) > ALARM)
    detail = f"{int(seen.sum())} draws, chi-square {statistic:.5g} at {freedom} degrees of freedom"
    return Finding("draws follow the table", bool(fine), detail)


@check_release.register
def _(method: Snow, shape: Shape) -> list[Finding]:
    """How many pixels are shown: drawn independently, all three channels together."""
    size = Shape(40, 40, shape.frames)
    picture = np.full((40, 40, 3), BRIGHT, dtype=np.uint8)
    frames = [frame.image for frame in method.transform(_stream(picture, 100), size)]
    shown = np.stack(frames) == BRIGHT
    together = bool((shown.all(-1) == shown.any(-1)).all())
    hidden = bool((np.stack(frames)[~shown] == SNOW_GREY).all())
    coins = shown.all(-1)
    count, total = int(coins.sum()), coins.size
    chance = float(stats.binomtest(count, total, 1 - method.p).pvalue)
    repeats = float(np.mean(coins[1:] & coins[:-1]))
    band = 6 * math.sqrt(max((1 - method.p) ** 2, 1 / total) / coins[1:].size)
    fine = together and hidden and chance > ALARM and abs(repeats - (1 - method.p) ** 2) <= band
    detail = f"{count / total:.4f} of the pixels shown, {1 - method.p:.4f} promised"
    return [Finding("coins of the pixels", fine, detail)]
