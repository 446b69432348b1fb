"""Conformance of releases: what a change does to the points of the lattice, what noise is really added
to them, every LDP table.

All of it is looked at where it is released: in whole steps of the lattice.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from sfumato.audit.certify._conformance import ALARM, Finding
from sfumato.audit.certify._epsilon import AuditError
from sfumato.privacy import KeyStream
from sfumato.protect.noise import (
    GREY,
    PEAK,
    Array,
    Basis,
    Lattice,
    NoisyBlocks,
    Numbers,
    Points,
    reach_of,
)

# A block of video beyond this many bytes is not enumerated.
MOST_BYTES = 1 << 29
# The most telling change is searched for in blocks up to this size, from a few starts.
_MOST_SEARCHED, _STARTS, _STEPS = 1 << 24, 3, 12
# Noise is counted in 2^5 equally likely intervals, and its 4 last bits must be uniform.
_INTERVAL_BITS, _LOW_BITS = 5, 4
# Columns of noise that are compared with each other.
_COLUMNS = 400
# Numbers that are released at a time.
_AT_ONCE = 1 << 20


def check_basis(
    basis: Basis,
    lattice: Lattice,
    height: int,
    width: int,
    *,
    pixels: int,
    frames: int,
    trials: int = 24,
) -> Finding:
    """No change of the unit moves the points of the lattice further than the basis says: noise off.

    Pictures of 8 bits that differ by changes of full contrast: flat, one channel, low-frequency signs,
    random signs; in corners, in rows, scattered; and the change that a search from there ends at.
    Around the change the picture is black, white or random, because rounding depends on all of it. For
    Laplace noise the sum of the moves counts. Frames beyond a block move other blocks: that is the
    distinguisher's to see.
    """
    shape = (basis.block, height, width, 3)
    if 4 * math.prod(shape) > MOST_BYTES:
        raise AuditError(
            f"Expected a block of at most {MOST_BYTES >> 20} MB to enumerate, got "
            f"{4 * math.prod(shape) >> 20} MB: audit the method on a smaller recording."
        )
    generator = np.random.default_rng(0)
    inside = min(frames, basis.block)
    reach = reach_of(basis, pixels, inside, lattice.kind)
    changes = _changes(shape, pixels, inside, trials, generator)
    if reach.order == 2:
        changes.append(_most_revealing_change(basis, changes, pixels, inside))
    worst = 0.0
    for change, around in zip(changes, itertools.cycle(_surroundings(shape, generator))):
        one, other = (
            lattice.points(basis.analyse(np.where(change == 0, around, side * PEAK / 2 * change)))
            for side in (np.float32(1), np.float32(-1))
        )
        moved = (one - other).ravel().astype(np.float64)
        worst = max(worst, float(np.linalg.norm(moved, reach.order)))
    share = worst * lattice.spacing / reach.on(lattice.spacing)
    detail = f"a change of full contrast moves the points by {share:.6f} of the bound"
    return Finding(f"sensitivity of the basis {basis.name}, rounding included", share <= 1, detail)


def _surroundings(shape: tuple[int, ...], generator: np.random.Generator) -> Iterator[Array]:
    yield np.full(shape, -GREY)
    yield np.full(shape, GREY)
    yield generator.integers(0, 256, shape).astype(np.float32) - GREY


def _changes(
    shape: tuple[int, int, int, int],
    pixels: int,
    frames: int,
    trials: int,
    generator: np.random.Generator,
) -> list[Array]:
    block, height, width, _ = shape
    pixels = min(pixels, height * width)
    vertical, horizontal = np.indices((height, width))
    corner = np.argsort((vertical + horizontal).ravel(), kind="stable")[:pixels]
    scattered = generator.permutation(height * width)[:pixels]
    signs = np.where(horizontal < width / 2, 1.0, -1.0)[..., None]
    out = []
    for place, start in itertools.product(
        (corner, np.arange(pixels), scattered), (0, block - frames)
    ):
        where = np.zeros((height, width, 1), np.float32)
        where.reshape(-1)[place] = 1
        patterns = [
            np.ones(3),
            np.array([1.0, 0, 0]),
            signs,
            generator.choice([-1.0, 1.0], (height, width, 3)),
        ]
        for pattern in patterns[: max(1, trials // 6)]:
            change = np.zeros(shape, np.float32)
            change[start : start + frames] = where * pattern
            out.append(change)
    return out


def _most_revealing_change(basis: Basis, changes: list[Array], pixels: int, frames: int) -> Array:
    """Of all changes of the unit, one that moves the coefficients far.

    From the best of ``changes``, each step goes to the change that agrees most with what the last one
    moved: of frames, pixels and signs. The length of a move is convex, so no step shortens it.
    """

    def moved(change: Array) -> float:
        return float(np.linalg.norm(basis.analyse(change)))

    best = max(changes, key=moved)
    length = moved(best)
    if 4 * best.size > _MOST_SEARCHED:
        return best
    for start in sorted(changes, key=moved)[-_STARTS:]:
        change = start
        for _ in range(_STEPS):
            agreeing = basis.synthesise(basis.analyse(change))
            weight = np.abs(agreeing).sum(-1).reshape(basis.block, -1)
            windows = [weight[first : first + frames].sum(0)
                       for first in range(basis.block - frames + 1)]  # fmt: skip
            last = min(pixels, weight.shape[1]) - 1
            chosen = [np.argpartition(-window, last)[: last + 1] for window in windows]
            first = int(np.argmax([w[c].sum() for w, c in zip(windows, chosen)]))
            change = np.zeros_like(change)
            inside = change.reshape(basis.block, -1, 3)[first : first + frames]
            signs = np.sign(agreeing.reshape(basis.block, -1, 3)[first : first + frames])
            inside[:, chosen[first]] = signs[:, chosen[first]]
            reached = moved(change)
            if reached > length:
                best, length = change, reached
    return best


@dataclass(frozen=True)
class _RecordingLattice(Lattice):
    """A lattice that keeps what was put on it and what was released."""

    clean: list[Points] = field(default_factory=list)
    released: list[Points] = field(default_factory=list)

    def noised(self, values: Numbers, stream: KeyStream) -> Points:
        self.clean.append(self.points(values))
        self.released.append(super().noised(values, stream))
        return self.released[-1]


@dataclass
class _RecordingBasis:
    """A basis that keeps what it was asked to synthesise."""

    inner: Basis
    noisy: list[Numbers] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def synthesise(self, coefficients: Numbers) -> Array:
        self.noisy.append(coefficients)
        return self.inner.synthesise(coefficients)


def check_release_noise(
    basis: Basis, lattice: Lattice, height: int, width: int, *, stream: KeyStream
) -> Finding:
    """The noise of a whole release: of the promised size and shape in every coefficient, in whole steps
    down to the last bit, shared by no two coefficients; and nothing but noised points goes on.
    """
    watched = _RecordingLattice(lattice.scale, lattice.bits, lattice.kind)
    asked = _RecordingBasis(basis)
    # small pictures are soon released, and their few numbers take many releases to judge
    most = max(60, min(2000, _AT_ONCE // (basis.block * height * width * 3)))
    blocks = max(8, min(most, 4 * _AT_ONCE // basis.coefficients))
    pictures = np.random.default_rng(0).integers(0, 256, (basis.block, height, width, 3))
    still = pictures.astype(np.uint8)
    release = NoisyBlocks(asked, watched, stream)  # type: ignore[arg-type]
    for _ in release(picture for _ in range(blocks) for picture in still):
        pass
    steps = np.stack(watched.released) - np.stack(watched.clean)
    on_lattice = all(
        np.array_equal(points * lattice.spacing, seen)
        for points, seen in zip(watched.released, asked.noisy, strict=True)
    )
    return noise_finding(steps.reshape(blocks, -1), lattice, on_lattice)


def noise_finding(steps: Points, lattice: Lattice, on_lattice: bool = True) -> Finding:
    """Rows of noise, in steps, that should be as the lattice says and share nothing."""
    values = steps / 2.0**lattice.bits
    if lattice.kind == "laplace":  # twice an absolute value is chi-square of two degrees of freedom
        energy, tail = 2 * float(np.abs(values).sum()), stats.chi2(2 * values.size)
        ranks = stats.laplace.cdf(values)
    else:
        energy, tail = float((values**2).sum()), stats.chi2(values.size)
        ranks = stats.norm.cdf(values)
    fine = on_lattice and 2 * min(tail.cdf(energy), tail.sf(energy)) > ALARM
    # as many intervals as leave every one of them enough to be counted
    intervals = 1 << min(_INTERVAL_BITS, max(1, int(math.log2(values.size / 20))))
    places = np.minimum((ranks * intervals).astype(np.int64), intervals - 1)
    fine = fine and _uniform(places, intervals)
    last = min(intervals, 1 << _LOW_BITS)
    fine = fine and _uniform(steps & (last - 1), last)
    scores = stats.norm.ppf(ranks)
    closest, pairs = _largest_correlation(scores)
    limit = math.tanh(stats.norm.isf(ALARM / pairs) / math.sqrt(len(steps) - 3))
    repeats = float((scores[1:] * scores[:-1]).mean())
    fine = fine and closest < limit and abs(repeats) < 6 / math.sqrt(scores[1:].size)
    share = energy / float(tail.mean())
    detail = (
        f"{share:.4f} of the promised size, largest correlation {closest:.3f}, lag-1 {repeats:.4f}"
    )
    if not on_lattice:
        detail += ", and something else than noised points was released"
    return Finding("noise of the release", bool(fine), detail)


def _uniform(places: Points, count: int) -> bool:
    seen = np.bincount(places.ravel(), minlength=count)
    return float(stats.chisquare(seen).pvalue) > ALARM


def _largest_correlation(scores: Numbers) -> tuple[float, float]:
    """Between any two of some columns, and how many pairs; not a number where one does not vary."""
    count = min(_COLUMNS, scores.shape[1])
    some = scores[:, np.linspace(0, scores.shape[1] - 1, count).astype(int)]
    if not (some.std(0) > 0).all():
        return math.nan, 1.0
    correlation = np.atleast_2d(np.corrcoef(some.T))
    np.fill_diagonal(correlation, 0)
    return float(np.abs(correlation).max()), correlation.size / 2


def distinguisher_scores(
    basis: Basis,
    lattice: Lattice,
    height: int,
    width: int,
    *,
    pixels: int,
    frames: int,
    trials: int,
    stream: KeyStream,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Scores of releases of grey with the unit at its brightest against its darkest.

    The most telling change is looked for first; the score is the released points' share along
    it, with noise from the release's own code.
    """
    shape = (basis.block, height, width, 3)
    inside = min(frames, basis.block)
    changes = _changes(shape, pixels, inside, 24, np.random.default_rng(0))
    moved = basis.analyse(_most_revealing_change(basis, changes, pixels, inside) * np.float32(PEAK))
    direction = moved.ravel()
    length = float(np.linalg.norm(direction))
    out = []
    for side in (0.5, -0.5):
        scores = []
        for count in _chunks(trials, max(1, _AT_ONCE // moved.size)):
            runs = np.broadcast_to(side * direction, (count, moved.size))
            scores.append(lattice.values(lattice.noised(runs, stream)) @ direction / length)
        out.append(np.concatenate(scores))
    return out[0], out[1]


def _chunks(total: int, size: int) -> Iterator[int]:
    while total > 0:
        yield min(size, total)
        total -= size


def check_table(rows: Any, epsilon: float) -> Finding:
    """Every entry of a table P(output | input): no log-ratio of two rows exceeds epsilon."""
    table = np.asarray(rows, dtype=np.float64)
    if table.ndim != 2 or len(table) < 2 or (table < 0).any():
        raise AuditError("Expected a table of probabilities, one row an input, got another shape.")
    sums = bool(np.allclose(table.sum(1), 1, atol=1e-9))
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(table)
        ratio = logs.max(0) - logs.min(0)
    largest = float(np.nanmax(np.where(np.isneginf(logs).all(0), 0.0, ratio)))
    detail = (
        f"largest log-ratio {largest:.4g} over {table.shape[0]} inputs and {table.shape[1]} outputs"
    )
    return Finding("enumeration of the table", sums and largest <= epsilon + 1e-9, detail)
