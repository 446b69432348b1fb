"""Who is where: faces, people, masks and poses, followed through a video without gaps.

>>> from sfumato import people
>>> people.Box(0, 0, 10, 10).covers(people.Box(5, 0, 15, 10))
0.5

``people.face_detector("centerface+blazeface")`` makes a detector; ``people.track_boxes(frames,
detector)`` follows what it finds; ``people.person_masks`` and ``people.poses`` do the same for masks
and landmarks. Each stream declares its ``lookahead`` and carries a ``status`` and a ``review``.
"""

from sfumato.people._boxes import Box, box_mask, hull, iou, suppress, unite
from sfumato.people._coco import CocoAnnotations, CocoWriter, read_coco
from sfumato.people._contact_sheet import ContactSheet, contact_sheet, draw
from sfumato.people._mask_video import MaskVideoWriter, read_mask_video
from sfumato.people.detect._litert import threads
from sfumato.people.detect._protocols import (
    FaceDetector,
    FaceEmbedder,
    Mask,
    PersonDetector,
    PersonSegmenter,
    Pose,
    PoseEstimator,
)
from sfumato.people.detect._registry import (
    detectors,
    face_detector,
    face_embedder,
    look_near,
    person_detector,
    person_segmenter,
    pose_estimator,
)
from sfumato.people.track._box_stream import BoxStream, held_back, track_boxes
from sfumato.people.track._mask_stream import MaskStream, TrackedMask, masks_held_back, person_masks
from sfumato.people.track._pose_stream import PoseStream, TrackedPoses, poses
from sfumato.people.track._status import (
    NOT_COVERED,
    DetectorStatus,
    DoubtfulSpan,
    OnMiss,
    Review,
    runtime_packages,
)
from sfumato.people.track._tracker import MissedPersonError, TrackedBox, TrackedBoxes

__all__ = [
    "NOT_COVERED",
    "Box",
    "BoxStream",
    "CocoAnnotations",
    "CocoWriter",
    "ContactSheet",
    "DetectorStatus",
    "DoubtfulSpan",
    "FaceDetector",
    "FaceEmbedder",
    "Mask",
    "MaskStream",
    "MaskVideoWriter",
    "MissedPersonError",
    "OnMiss",
    "PersonDetector",
    "PersonSegmenter",
    "Pose",
    "PoseEstimator",
    "PoseStream",
    "Review",
    "TrackedBox",
    "TrackedBoxes",
    "TrackedMask",
    "TrackedPoses",
    "box_mask",
    "contact_sheet",
    "detectors",
    "draw",
    "face_detector",
    "face_embedder",
    "held_back",
    "hull",
    "iou",
    "look_near",
    "masks_held_back",
    "person_detector",
    "person_masks",
    "person_segmenter",
    "pose_estimator",
    "poses",
    "read_coco",
    "read_mask_video",
    "runtime_packages",
    "suppress",
    "threads",
    "track_boxes",
    "unite",
]
