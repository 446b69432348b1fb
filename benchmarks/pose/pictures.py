"""Pictures of table ``pose``: the paper's Figure 3 (skeletons over epsilon) and 4f (raw beside psi).

Those of LSP show people, so they go where the user says and never into the results; those of staged
people may be shown to anyone.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
from safetensors.torch import load_file

from benchmarks.pose.fit import SIZE, predict, prepared
from benchmarks.pose.grid import DP_METHODS, EPSILONS, PSI, Setting, Task, head_path
from sfumato.data import LSP, draw_skeletons
from sfumato.learn import BlurFeatures
from sfumato.media import write_image

Pixels = npt.NDArray[np.uint8]
CLIP_NORM = 0.1  # as in the paper's Figure 3
_ENLARGED = 2


def save_pictures(folder: str, task: Task, settings: Sequence[Setting]) -> None:
    """Both figures, of four people of the test half and of four staged ones."""
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    for name, people in (("lsp", task.test), ("staged", task.public)):
        some = np.linspace(0, len(people) - 1, 6).astype(int)[1:-1]
        crops, truth = people.x[some], people.y[some]
        drawn = over_epsilon(task, settings, crops, truth)
        write_image(place / f"{name}-over-epsilon.png", drawn, force=True)
        write_image(place / f"{name}-raw-and-psi.png", raw_and_psi(crops), force=True)


def raw_and_psi(crops: Pixels) -> Pixels:
    """Three rows: as filmed, what is public here, and the published blur at this size."""
    scale = SIZE[0] / 256
    blur = BlurFeatures(2 * round(25 * scale / 2) + 1, 10 * scale)
    rows = (("raw (private)", crops), ("psi(x) (public)", np.stack([PSI(x) for x in crops])),
            ("published blur", np.stack([blur(x) for x in crops])))  # fmt: skip
    return np.vstack([_row(name, pictures) for name, pictures in rows])


def over_epsilon(
    task: Task, settings: Sequence[Setting], crops: Pixels, truth: npt.NDArray[np.floating]
) -> Pixels:
    """A row for the truth, before any private picture, and each method at each epsilon."""
    model = copy.deepcopy(task.model).eval()
    inputs = prepared(crops)
    rows = [_row("annotated", _drawn(crops, truth)),
            _row("before", _drawn(crops, predict(model, inputs)))]  # fmt: skip
    for method in DP_METHODS:
        for epsilon in EPSILONS:
            fitting = [one for one in settings if (one.method, one.epsilon, one.clip_norm, one.seed)
                       == (method, epsilon, CLIP_NORM, 0)]  # fmt: skip
            for setting in fitting:
                path = head_path(setting, task)
                if path.is_file():
                    model.head.load_state_dict(load_file(path))
                    drawn = _drawn(crops, predict(model, inputs))
                    rows.append(_row(f"{method}, epsilon {epsilon:g}", drawn))
    return np.vstack(rows)


def _drawn(crops: Pixels, joints: npt.NDArray[np.floating]) -> Pixels:
    drawn = []
    for crop, person in zip(crops, joints):
        large = cv2.resize(crop, None, fx=_ENLARGED, fy=_ENLARGED, interpolation=cv2.INTER_CUBIC)
        whole = np.ones((1, len(person), 3))
        whole[0, :, :2] = _ENLARGED * person[:, :2]
        drawn.append(draw_skeletons(np.asarray(large, np.uint8), whole, LSP))
    return np.stack(drawn)


def _row(name: str, pictures: Pixels) -> Pixels:
    """Pictures side by side under their name."""
    strip = np.hstack(list(pictures))
    strip = np.asarray(cv2.resize(strip, (len(pictures) * 2 * SIZE[1], 2 * SIZE[0])), np.uint8)
    title = np.full((22, strip.shape[1], 3), 255, np.uint8)
    cv2.putText(title, name, (6, 16), cv2.FONT_HERSHEY_SIMPLEX, 0.5, (0, 0, 0), 1, cv2.LINE_AA)
    return np.vstack([title, strip])
