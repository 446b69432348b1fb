"""One contract for every measure of leakage and usefulness."""

from sfumato.audit.measure._accuracy import (
    CorrectKeypoints,
    HeadSizedKeypoints,
    MeanPerClassAccuracy,
    Psnr,
    Ssim,
    TopOne,
    ssim,
)
from sfumato.audit.measure._measure import Estimate, Measure, MeasureError, Result
from sfumato.audit.measure._measures_file import measures_json, measures_path, write_measures
from sfumato.audit.measure._multi_label import (
    MultiLabel,
    MultiLabelScores,
    average_precision,
    class_f1,
    cmap,
)
from sfumato.audit.measure._nag import NormalizedAccuracyGain, UsefulAccuracyGain, mnag, nag
from sfumato.audit.measure._scores import AttributeScores, ClassifierScores

__all__ = [
    "AttributeScores", "ClassifierScores", "CorrectKeypoints", "Estimate", "HeadSizedKeypoints",
    "MeanPerClassAccuracy", "Measure", "MeasureError", "MultiLabel", "MultiLabelScores",
    "NormalizedAccuracyGain", "Psnr", "Result", "Ssim", "TopOne", "UsefulAccuracyGain",
    "average_precision", "class_f1", "cmap", "measures_json", "measures_path", "mnag", "nag",
    "ssim", "write_measures",
]  # fmt: skip
