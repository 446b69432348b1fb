"""The staged task is hard in the papers' way: person and background each tell part of the action."""

from __future__ import annotations

import cv2
import numpy as np

from sfumato.stage import Staging, clips

_CELLS = 8


def pooled(video: np.ndarray) -> np.ndarray:
    """Mean colour, change and spread over time of an 8 x 8 grid: one vector for a clip."""
    grid = np.stack([cv2.resize(f, (_CELLS, _CELLS), interpolation=cv2.INTER_AREA) for f in video])
    cells = grid.astype(np.float32) / 255
    grey = cells.mean(-1)
    change = np.abs(np.diff(grey, axis=0)).mean(0) if len(grey) > 1 else np.zeros_like(grey[0])
    return np.concatenate([cells.mean(0).ravel(), 4 * change.ravel(), 4 * grey.std(0).ravel()])


def accuracy(features: np.ndarray, labels: np.ndarray, classes: int) -> float:
    """Ridge regression on the first two thirds, tested on the rest."""
    train = np.arange(len(labels)) < len(labels) * 2 // 3
    scaled = (features - features[train].mean(0)) / (features[train].std(0) + 1e-2)
    target = np.eye(classes)[labels[train]] - 1 / classes
    gram = scaled[train] @ scaled[train].T + 300 * np.eye(train.sum())
    scores = scaled[~train] @ scaled[train].T @ np.linalg.solve(gram, target)
    return float((scores.argmax(1) == labels[~train]).mean())


def test_person_alone_and_background_alone_beat_chance_and_lose_to_both() -> None:
    plan = Staging(
        clips=270, frames=4, fps=5, width=32, height=32, seed=1,
        actions=("walk", "jump", "wave", "sit", "drink", "pick_up"),
    )  # fmt: skip
    person, background, labels = [], [], []
    for clip in clips(plan):
        person.append(pooled(clip.frames * clip.mask[..., None]))
        background.append(pooled(clip.empty[None]))
        labels.append(plan.actions.index(clip.action))
    y, k = np.array(labels), len(plan.actions)
    a, b = np.array(person), np.array(background)
    alone, room = accuracy(a, y, k), accuracy(b, y, k)
    both = accuracy(np.concatenate([a, b], 1), y, k)
    chance = 1 / k
    assert min(alone, room) > chance + 0.1, (alone, room, both)
    assert both > max(alone, room) + 0.04, (alone, room, both)
    assert both < 0.97, both
