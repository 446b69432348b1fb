"""What is still useful: accuracy of a task, of joints, and of pixels. Higher is better."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from sfumato.audit.measure._measure import BatchedMeasure, Estimate, Measure, MeasureError, Result
from sfumato.audit.measure._scores import majority_rate, mean_interval, wilson
from sfumato.data import pck

Floats = npt.NDArray[np.float64]
# Wang, Bovik, Sheikh, Simoncelli 2004: a Gaussian window of 11 pixels, K1 and K2
_WINDOW, _SIGMA, _K1, _K2 = 11, 1.5, 0.01, 0.03


class _Labels(BatchedMeasure):
    """Guesses beside true classes; ``scores`` (records, classes) or class numbers are taken."""

    group = "utility"
    higher_is_better = True
    bounds = (0.0, 1.0)

    def update(self, scores: npt.ArrayLike, truth: npt.ArrayLike) -> None:
        given, true = np.asarray(scores), np.asarray(truth, dtype=np.int64)
        if given.ndim not in (1, 2) or true.ndim != 1 or len(given) != len(true):
            raise MeasureError(
                f"Expected scores (records, classes) or class numbers, one for each of {true.size} "
                f"true classes, got shape {given.shape}."
            )
        self.keep((given.argmax(1) if given.ndim == 2 else given).astype(np.int64), true)

    def confusion(self, labels: tuple[str, ...], **facts: Any) -> Result:
        """How often each true class (rows) was taken for each class (columns)."""
        guess, truth = self.joined()
        counts = np.zeros((len(labels), len(labels)))
        np.add.at(counts, (truth, guess), 1)
        matrix = Result("confusion", self.group, matrix=counts.tolist(), labels=labels)
        return matrix.about(**facts)


class TopOne(_Labels):
    """Share of records whose best class is the true one."""

    name = "top-1"

    def compute(self) -> Estimate:
        guess, truth = self.joined()
        right = int((guess == truth).sum())
        low, high = wilson(right, len(truth))
        return Estimate(right / len(truth), low, high, 0.95, majority_rate(truth))


class MeanPerClassAccuracy(_Labels):
    """mPCA: the accuracy of each true class, averaged over the classes that occur."""

    name = "mean per-class accuracy"

    def compute(self) -> Estimate:
        guess, truth = self.joined()
        present, counts = np.unique(truth, return_counts=True)
        value = float(np.mean([(guess[truth == code] == code).mean() for code in present]))
        low, high = mean_interval(value, counts)
        return Estimate(value, low, high, 0.95, 1 / len(present))


class CorrectKeypoints(BatchedMeasure):
    """PCK over batches: joints within ``threshold`` times a person's size; PCKh by head size.

    The value is the mean over the joints that count anywhere, ``per_joint`` has them one by one.
    """

    name = "PCK"
    group = "utility"
    higher_is_better = True
    bounds = (0.0, 1.0)

    needs = "joints to score"

    def __init__(self, threshold: float = 0.5) -> None:
        super().__init__()
        self.threshold = threshold

    def update(self, predicted: npt.ArrayLike, truth: npt.ArrayLike, size: npt.ArrayLike) -> None:
        """``predicted`` (people, J, 2), ``truth`` (people, J, 3) with weights, ``size`` (people,)."""
        guess, true, scale = (np.asarray(each, np.float64) for each in (predicted, truth, size))
        if true.ndim != 3 or guess.shape[:2] != true.shape[:2] or scale.shape != true.shape[:1]:
            raise MeasureError(
                f"Expected joints (people, J, 2), truth (people, J, 3) and sizes (people,), got "
                f"{guess.shape}, {true.shape} and {scale.shape}."
            )
        self.keep(guess[..., :2], true, scale)

    def per_joint(self) -> Floats:
        guess, true, size = self.joined()
        return pck(guess, true, size, self.threshold)

    def compute(self) -> float:
        joints = self.per_joint()
        if not np.isfinite(joints).any():
            raise MeasureError("Expected annotated joints of people with a size, got none.")
        return float(np.nanmean(joints))


class HeadSizedKeypoints(CorrectKeypoints):
    """PCKh: joints within half of the head's size, as MPII is evaluated."""

    name = "PCKh"


class _Pictures(Measure):
    """Pairs of pictures (..., H, W, C) of bytes, averaged."""

    group = "utility"
    higher_is_better = True

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._sum, self._count = 0.0, 0

    def update(self, shown: npt.ArrayLike, original: npt.ArrayLike) -> None:
        one, other = np.asarray(shown), np.asarray(original)
        if one.shape != other.shape or one.ndim < 3 or one.dtype != np.uint8:
            raise MeasureError(
                f"Expected two equal stacks of 8-bit pictures (..., height, width, channels), got "
                f"{one.dtype} {one.shape} and {other.shape}."
            )
        for a, b in zip(one.reshape(-1, *one.shape[-3:]), other.reshape(-1, *one.shape[-3:])):
            self._sum += self._score(a, b)
            self._count += 1

    @abstractmethod
    def _score(self, shown: npt.NDArray[np.uint8], original: npt.NDArray[np.uint8]) -> float:
        """Of one picture."""

    def _mean(self) -> float:
        if not self._count:
            raise MeasureError("Expected pictures to compare, got none: call update first.")
        return self._sum / self._count


class Ssim(_Pictures):
    """Structural similarity of the pictures, averaged over them and their channels."""

    name = "SSIM"
    bounds = (-1.0, 1.0)

    def _score(self, shown: npt.NDArray[np.uint8], original: npt.NDArray[np.uint8]) -> float:
        return ssim(shown, original)

    def compute(self) -> float:
        return self._mean()


class Psnr(_Pictures):
    """Peak signal-to-noise ratio in decibel of the mean squared error over all pictures."""

    name = "PSNR"
    bounds = (0.0, math.inf)
    _BEST = 99.0  # equal pictures: infinite, which no file and no axis can hold

    def _score(self, shown: npt.NDArray[np.uint8], original: npt.NDArray[np.uint8]) -> float:
        return float(np.square(shown.astype(np.float64) - original).mean())

    def compute(self) -> float:
        error = self._mean()
        return min(self._BEST, 10 * math.log10(255**2 / error)) if error > 0 else self._BEST


def ssim(shown: npt.NDArray[np.uint8], original: npt.NDArray[np.uint8]) -> float:
    """Wang et al. 2004, eq. 13, over the pixels whose whole window lies in the picture."""
    if min(shown.shape[:2]) < _WINDOW:
        raise MeasureError(
            f"Expected pictures of at least {_WINDOW} pixels a side for SSIM, got "
            f"{shown.shape[1]} x {shown.shape[0]}."
        )
    x, y = shown.astype(np.float64), original.astype(np.float64)
    edge = _WINDOW // 2

    def mean(values: Any) -> Floats:
        blurred = cv2.GaussianBlur(values, (_WINDOW, _WINDOW), _SIGMA)
        return np.asarray(blurred[edge:-edge, edge:-edge], dtype=np.float64)

    mx, my = mean(x), mean(y)
    vx, vy, both = mean(x * x) - mx**2, mean(y * y) - my**2, mean(x * y) - mx * my
    c1, c2 = (_K1 * 255) ** 2, (_K2 * 255) ** 2
    structure = (2 * mx * my + c1) * (2 * both + c2) / ((mx**2 + my**2 + c1) * (vx + vy + c2))
    return float(structure.mean())
