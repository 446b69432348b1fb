"""Filling a hole with texture: patches of the surroundings that agree, from coarse to fine.

Space-time completion of Wexler et al. in space alone: every patch that meets the hole searches its
nearest neighbour outside (PatchMatch), and every hidden pixel becomes the weighted mean of what the
neighbours of all patches over it say. Randomness only orders the search and is fixed.
"""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

Picture = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]
Points = npt.NDArray[np.int64]
_HALF = 3  # patches are 7 x 7
_ROUNDS = {0: 2, 1: 3}  # of matching and voting per level, from fine; coarser levels take 5
_SMALLEST = 24  # pixels of the shorter side at the coarsest level
# What lies beside a hole is likelier to go on behind it than what lies above or below: the squared
# difference of grey levels that a shift by the whole height or width costs, per value of a patch.
_ACROSS, _ALONG = 120.0**2, 40.0**2


def synthesise(
    image: npt.NDArray[np.uint8], missing: Mask, first: Picture
) -> tuple[Picture, npt.NDArray[np.float32]]:
    """``image`` with the missing pixels filled by texture; ``first`` is a smooth guess.

    The second answer is the doubt: how far, squared and per value, patches over a pixel are from
    what they were matched with.
    """
    levels = [(image.astype(np.float32), missing, first)]
    while min(levels[-1][1].shape) // 2 >= _SMALLEST:
        picture, hole, guess = levels[-1]
        size = (hole.shape[1] // 2, hole.shape[0] // 2)
        smaller = [cv2.resize(p, size, interpolation=cv2.INTER_AREA) for p in (picture, guess)]
        some = cv2.resize(hole.astype(np.float32), size, interpolation=cv2.INTER_AREA) > 0
        levels.append((
            np.asarray(smaller[0], np.float32), np.asarray(some), np.asarray(smaller[1], np.float32)
        ))  # fmt: skip
    rng = np.random.default_rng(0)
    filled: Picture | None = None
    doubt = np.zeros(missing.shape, np.float32)
    for number in range(len(levels) - 1, -1, -1):
        picture, hole, guess = levels[number]
        if filled is None:
            start = _peeled(picture, hole, guess)
        else:
            start = _larger(filled, hole.shape)
        current = np.where(hole[..., None], start, picture)
        filled, doubt = _complete(current, hole, rng, _ROUNDS.get(number, 5))
    assert filled is not None
    return filled, doubt


def _peeled(picture: Picture, hole: Mask, guess: Picture) -> Picture:
    """The hole of a small picture, filled ring by ring with the centre of the best known patch."""
    current, known = np.where(hole[..., None], guess, picture), ~hole
    height, width = hole.shape
    kernel = np.ones((2 * _HALF + 1, 2 * _HALF + 1), np.uint8)
    inner = cv2.erode(known.astype(np.uint8), kernel, borderValue=0) > 0
    sources = np.argwhere(inner)
    if len(sources) < 16:
        return current
    offsets = np.argwhere(kernel > 0) - _HALF
    library = current[tuple((sources[:, None] + offsets).transpose(2, 0, 1))]  # (n, 49, 3)
    while not known.all():
        ring = np.argwhere(~known & (cv2.dilate(known.astype(np.uint8), np.ones((3, 3))) > 0))
        places = ring[:, None] + offsets
        legal = ((places >= 0) & (places < [height, width])).all(-1)
        clipped = np.clip(places, 0, [height - 1, width - 1])
        usable = legal & known[clipped[..., 0], clipped[..., 1]]
        patch = current[clipped[..., 0], clipped[..., 1]] * usable[..., None]
        # |a - b|^2 over the usable pixels, as three products of matrices
        weight = usable.astype(np.float32)
        cost = np.einsum("rpc,rpc->r", patch, patch)[:, None]
        cost = cost - 2 * np.einsum("rpc,npc->rn", patch, library, optimize=True)
        cost = cost + weight @ (library**2).sum(-1).T
        cost = cost / np.maximum(3 * weight.sum(1), 1)[:, None]
        cost = cost + _far(ring[:, None], sources[None], hole.shape)
        best = sources[cost.argmin(1)]
        current[tuple(ring.T)] = current[tuple(best.T)]
        known[tuple(ring.T)] = True
    return current


def _far(a: Points, b: Points, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """What a match costs for being elsewhere, per value of a patch."""
    away = ((a - b) / np.array(shape[:2])) ** 2
    return np.asarray(_ACROSS * away[..., 0] + _ALONG * away[..., 1], dtype=np.float32)


def _larger(picture: Picture, shape: tuple[int, ...]) -> Picture:
    return np.asarray(cv2.resize(picture, (shape[1], shape[0]), interpolation=cv2.INTER_LINEAR))


def _complete(
    picture: Picture, hole: Mask, rng: np.random.Generator, rounds: int
) -> tuple[Picture, npt.NDArray[np.float32]]:
    kernel = np.ones((2 * _HALF + 1, 2 * _HALF + 1), np.uint8)
    meets = cv2.dilate(hole.astype(np.uint8), kernel) > 0
    inside = np.zeros_like(hole)
    inside[_HALF:-_HALF, _HALF:-_HALF] = True
    sources = np.argwhere(~meets & inside)
    targets = np.argwhere(meets & inside)
    if len(sources) < 16 or not len(targets):
        return picture, np.full(hole.shape, np.inf, np.float32)
    allowed = ~meets & inside
    matches = sources[rng.integers(len(sources), size=len(targets))]
    index = np.full(hole.shape, -1)
    index[tuple(targets.T)] = np.arange(len(targets))
    for _ in range(rounds):
        matches, cost = _match(picture, targets, matches, index, allowed, sources, rng)
        picture = _vote(picture, hole, targets, matches, cost)
    return picture, _doubt(picture, targets, matches)


def _doubt(picture: Picture, targets: Points, matches: Points) -> npt.NDArray[np.float32]:
    windows = _windows(picture)
    gap = windows[tuple((targets - _HALF).T)] - windows[tuple((matches - _HALF).T)]
    apart, count = np.zeros((2, *picture.shape[:2]), np.float32)
    apart[tuple(targets.T)] = (gap**2).reshape(len(gap), -1).mean(1)
    count[tuple(targets.T)] = 1
    side = (2 * _HALF + 1, 2 * _HALF + 1)
    total, share = cv2.blur(apart, side), cv2.blur(count, side)
    return np.asarray(np.where(share > 0, total / np.maximum(share, 1e-6), np.inf), np.float32)


def _windows(picture: Picture) -> Picture:
    """Every patch (rows, columns, 3, 7, 7), without copying."""
    side = 2 * _HALF + 1
    return np.lib.stride_tricks.sliding_window_view(picture, (side, side), axis=(0, 1))


def _match(
    picture: Picture,
    targets: Points,
    matches: Points,
    index: Points,
    allowed: Mask,
    sources: Points,
    rng: np.random.Generator,
) -> tuple[Points, npt.NDArray[np.float32]]:
    """PatchMatch: try the neighbours' matches moved along, then random places nearer and nearer."""
    windows = _windows(picture)
    own = windows[targets[:, 0] - _HALF, targets[:, 1] - _HALF].reshape(len(targets), -1)

    def price(places: Points) -> npt.NDArray[np.float32]:
        there = windows[places[:, 0] - _HALF, places[:, 1] - _HALF].reshape(len(places), -1)
        gap = there - own
        apart = own.shape[1] * _far(places, targets, allowed.shape)
        return np.asarray(np.einsum("ij,ij->i", gap, gap) + apart, dtype=np.float32)

    best, cost = matches.copy(), price(matches)
    height, width = allowed.shape

    def consider(places: Points) -> None:
        clipped = np.clip(places, 0, [height - 1, width - 1])
        ok = allowed[clipped[:, 0], clipped[:, 1]]
        tried = np.where(ok[:, None], clipped, best)
        new = price(tried)
        better = new < cost
        best[better], cost[better] = tried[better], new[better]

    for step in (4, 2, 1):
        for dy, dx in ((0, step), (step, 0), (0, -step), (-step, 0)):
            beside = np.clip(targets - [dy, dx], 0, [height - 1, width - 1])
            neighbour = index[beside[:, 0], beside[:, 1]]
            moved = best[np.maximum(neighbour, 0)] + [dy, dx]
            consider(np.where((neighbour >= 0)[:, None], moved, best))
    consider(sources[rng.integers(len(sources), size=len(targets))])
    radius = max(height, width) // 2
    while radius >= 1:
        consider(best + rng.integers(-radius, radius + 1, size=best.shape))
        radius //= 3
    return best, cost


def _vote(
    picture: Picture,
    hole: Mask,
    targets: Points,
    matches: Points,
    cost: npt.NDArray[np.float32],
) -> Picture:
    """Each hidden pixel becomes the mean of what the matches of all patches over it show."""
    scale = max(float(np.percentile(cost, 60)), 1.0)
    weight = np.exp(-cost / (2 * scale)) + 1e-6
    total, share = np.zeros_like(picture), np.zeros(hole.shape, np.float32)
    for dy in range(-_HALF, _HALF + 1):
        for dx in range(-_HALF, _HALF + 1):
            y, x = targets[:, 0] + dy, targets[:, 1] + dx
            # targets differ, so for one offset no pixel is written twice
            total[y, x] += weight[:, None] * picture[matches[:, 0] + dy, matches[:, 1] + dx]
            share[y, x] += weight
    mean = total / np.maximum(share, 1e-6)[..., None]
    reached = (hole & (share > 0))[..., None]
    return np.where(reached, mean, picture).astype(np.float32)
