"""Conformance of releases: what a basis does to a change, what noise is really added, every LDP table."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import stats

from sfumato.audit._conformance import ALARM, Finding
from sfumato.audit._epsilon import AuditError
from sfumato.protect.video._bases import Array, Basis
from sfumato.protect.video._noisy_blocks import PEAK, NoisyBlocks

# A block of video beyond this many bytes is not enumerated.
MOST_BYTES = 1 << 29
# The most telling change is searched for in blocks up to this size, from a few starts.
_MOST_SEARCHED, _STARTS, _STEPS = 1 << 24, 3, 12


def check_basis(
    basis: Basis,
    height: int,
    width: int,
    *,
    pixels: int,
    frames: int,
    trials: int = 24,
    l1: bool = False,
) -> Finding:
    """No change of the unit moves the coefficients further than the basis' own ``gain`` says.

    Changes of full contrast: flat, one channel, low-frequency signs, random signs; in corners, in
    rows, scattered; and the one that a search from there ends at. With ``l1`` the sum of the moves counts, as it does for Laplace noise, against
    ``l1_gain``. Frames beyond a block move other blocks: that is the distinguisher's to see.
    """
    shape = (basis.block, height, width, 3)
    if 4 * math.prod(shape) > MOST_BYTES:
        raise AuditError(
            f"Expected a block of at most {MOST_BYTES >> 20} MB to enumerate, got "
            f"{4 * math.prod(shape) >> 20} MB: audit the method on a smaller recording."
        )
    generator = np.random.default_rng(0)
    inside = min(frames, basis.block)
    order = 1 if l1 else 2
    allowed = (basis.l1_gain if l1 else basis.gain)(pixels, inside)  # type: ignore[attr-defined]
    changes = _changes(shape, pixels, inside, trials, generator)
    if not l1:
        changes.append(_most_telling(basis, changes, pixels, inside))
    worst = max(float(np.linalg.norm(basis.analyse(change).ravel(), order)) for change in changes)
    detail = (
        f"a change of full contrast moves the coefficients by {worst / allowed:.4f} of the bound"
    )
    return Finding(
        f"operator norm of the basis {basis.name}", worst <= allowed * (1 + 1e-4), detail
    )


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


def _most_telling(basis: Basis, changes: list[Array], pixels: int, frames: int) -> Array:
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
            chosen = [np.argsort(-window, kind="stable")[:pixels] for window in windows]
            first = int(np.argmax([w[c].sum() for w, c in zip(windows, chosen)]))
            change = np.zeros_like(change)
            inside = change.reshape(basis.block, -1, 3)[first : first + frames]
            signs = np.sign(agreeing.reshape(basis.block, -1, 3)[first : first + frames])
            inside[:, chosen[first]] = signs[:, chosen[first]]
            reached = moved(change)
            if reached > length:
                best, length = change, reached
    return best


@dataclass
class _Watched:
    """A basis that keeps what went in and what it was asked to synthesise."""

    inner: Basis
    name: str = "watched"
    clean: list[Array] = field(default_factory=list)
    noisy: list[Array] = field(default_factory=list)

    @property
    def block(self) -> int:
        return self.inner.block

    @property
    def coefficients(self) -> int:
        return self.inner.coefficients

    def gain(self, pixels: int, frames: int) -> float:
        return self.inner.gain(pixels, frames)

    def analyse(self, block: Array) -> Array:
        self.clean.append(self.inner.analyse(block).copy())
        return self.clean[-1].copy()

    def synthesise(self, coefficients: Array) -> Array:
        self.noisy.append(coefficients.copy())
        return self.inner.synthesise(coefficients)


def check_release_noise(
    basis: Basis,
    scale: float,
    height: int,
    width: int,
    *,
    generator: np.random.Generator,
    noise: Literal["gaussian", "laplace"] = "gaussian",
) -> Finding:
    """The noise of a whole release: of the promised size, and no two coefficients share it."""
    watched = _Watched(basis)
    blocks = max(8, min(60, (1 << 22) // max(1, basis.coefficients)))
    pictures = np.random.default_rng(0).integers(0, 256, (basis.block, height, width, 3))
    still = pictures.astype(np.uint8)
    release = NoisyBlocks(watched, scale, generator, noise=noise)  # type: ignore[arg-type]
    for _ in release(picture for _ in range(blocks) for picture in still):
        pass
    values = (np.stack(watched.noisy) - np.stack(watched.clean)).reshape(blocks, -1) / scale
    if noise == "laplace":  # twice an absolute value is chi-square of two degrees of freedom
        energy, tail = (
            2 * float(np.abs(values.astype(np.float64)).sum()),
            stats.chi2(2 * values.size),
        )
    else:
        energy, tail = float((values.astype(np.float64) ** 2).sum()), stats.chi2(values.size)
    fine = 2 * min(tail.cdf(energy), tail.sf(energy)) > ALARM
    if noise == "laplace":  # as normal scores, so that one limit of correlation serves both
        values = stats.norm.ppf(stats.laplace.cdf(values.astype(np.float64)))
    some = values[:, np.linspace(0, values.shape[1] - 1, min(400, values.shape[1])).astype(int)]
    spread = some.std(0)
    if (spread > 0).all():
        correlation = np.corrcoef(some.T)
        np.fill_diagonal(correlation, 0)
        closest = float(np.abs(correlation).max())
        pairs = correlation.size / 2
        fine = fine and closest < math.tanh(stats.norm.isf(ALARM / pairs) / math.sqrt(blocks - 3))
    else:
        fine, closest = False, math.nan
    share = energy / float(tail.mean())
    detail = f"{share:.4f} of the promised size, largest correlation {closest:.3f}"
    return Finding("noise of the release", bool(fine), detail)


def distinguisher_scores(
    basis: Basis,
    scale: float,
    height: int,
    width: int,
    *,
    pixels: int,
    frames: int,
    trials: int,
    generator: np.random.Generator,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Scores of releases of grey with the unit at its brightest against its darkest.

    The most telling change is looked for first; the score is the noised coefficients' share along
    it, with noise from the release's own code.
    """
    shape = (basis.block, height, width, 3)
    inside = min(frames, basis.block)
    changes = _changes(shape, pixels, inside, 24, np.random.default_rng(0))
    moved = basis.analyse(_most_telling(basis, changes, pixels, inside) * np.float32(PEAK))
    direction = moved.ravel().astype(np.float64)
    length = float(np.linalg.norm(direction))
    noise = NoisyBlocks(basis, scale, generator)
    out = []
    for side in (0.5, -0.5):
        present = (side * moved).astype(np.float32)
        scores = [noise._noised(present).ravel() @ direction / length for _ in range(trials)]
        out.append(np.array(scores, dtype=np.float64))
    return out[0], out[1]


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
