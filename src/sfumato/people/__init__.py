"""Who is where: faces, people, masks and poses, followed through a video without gaps.

>>> from sfumato import people
>>> people.Box(0, 0, 10, 10).covers(people.Box(5, 0, 15, 10))
0.5

``people.find(frames)`` is the one way of finding: every frame with a list of :class:`Person`, each with
track, box, joints, head, mask and the evidence for it. The stream declares its ``lookahead`` and carries
a ``status`` and a ``review``.
"""

from sfumato.people._anatomy import head_by_box
from sfumato.people._boxes import Box, box_mask, hull, iou, suppress, unite
from sfumato.people._coco import (
    CocoAnnotations,
    CocoWriter,
    read_coco,
    run_length_mask,
    write_coco,
)
from sfumato.people._contact_sheet import (
    ContactSheet,
    contact_sheet,
    draw,
    draw_skeletons,
    with_legend,
)
from sfumato.people._corrections import (
    CARRIED,
    PeopleFile,
    PersonRow,
    StaleEditError,
    TrackSpan,
    numbered,
)
from sfumato.people._lines import (
    line_of_people,
    line_of_sightings,
    people_of_line,
    sightings_of_line,
)
from sfumato.people._mask_video import MaskVideoWriter, everybody, read_mask_video
from sfumato.people._person import (
    BRIDGED,
    BY_HAND,
    HELD,
    LEFT_OPEN,
    People,
    Person,
    by_hand,
    ellipse,
)
from sfumato.people._recording import add_person_at, follow_person, search_recording
from sfumato.people._text_line import TextLine, text_mask
from sfumato.people.detect._litert import threads
from sfumato.people.detect._protocols import (
    FaceDetector,
    FaceEmbedder,
    Mask,
    PersonDetector,
    PersonSegmenter,
    Pose,
    PoseEstimator,
    TextDetector,
)
from sfumato.people.detect._registry import (
    detectors,
    face_detector,
    face_embedder,
    look_near,
    person_detector,
    person_segmenter,
    pose_estimator,
    text_detector,
)
from sfumato.people.detect._search import search, searchers, segmenter
from sfumato.people.detect._sightings import Look, Sighting
from sfumato.people.track._batches import in_parallel
from sfumato.people.track._find import (
    EVERY,
    LOOKAHEAD,
    KnownLooks,
    LookFor,
    LookTurn,
    PeopleStream,
    find,
    held_back,
    look_at,
    look_schedule,
    with_masks,
)
from sfumato.people.track._motion import ShotBounds, most_between_looks
from sfumato.people.track._moving import MOST_AWAY
from sfumato.people.track._point import carried, person_at
from sfumato.people.track._pose_stream import PoseStream, TrackedPoses, place_of_pose, poses
from sfumato.people.track._status import (
    NOT_COVERED,
    TEXT,
    DetectorStatus,
    DoubtfulSpan,
    OnMiss,
    Review,
    runtime_packages,
)
from sfumato.people.track._text_stream import TextFound, TextStream, find_text, text_lookahead
from sfumato.people.track._tracks import MissedPersonError

__all__ = [
    "BRIDGED",
    "BY_HAND",
    "CARRIED",
    "EVERY",
    "HELD",
    "LEFT_OPEN",
    "LOOKAHEAD",
    "MOST_AWAY",
    "NOT_COVERED",
    "TEXT",
    "Box",
    "CocoAnnotations",
    "CocoWriter",
    "ContactSheet",
    "DetectorStatus",
    "DoubtfulSpan",
    "FaceDetector",
    "FaceEmbedder",
    "KnownLooks",
    "Look",
    "LookFor",
    "LookTurn",
    "Mask",
    "MaskVideoWriter",
    "MissedPersonError",
    "OnMiss",
    "People",
    "PeopleFile",
    "PeopleStream",
    "Person",
    "PersonDetector",
    "PersonRow",
    "PersonSegmenter",
    "Pose",
    "PoseEstimator",
    "PoseStream",
    "Review",
    "ShotBounds",
    "Sighting",
    "StaleEditError",
    "TextDetector",
    "TextFound",
    "TextLine",
    "TextStream",
    "TrackSpan",
    "TrackedPoses",
    "add_person_at",
    "box_mask",
    "by_hand",
    "carried",
    "contact_sheet",
    "detectors",
    "draw",
    "draw_skeletons",
    "ellipse",
    "everybody",
    "face_detector",
    "face_embedder",
    "find",
    "find_text",
    "follow_person",
    "head_by_box",
    "held_back",
    "hull",
    "in_parallel",
    "iou",
    "line_of_people",
    "line_of_sightings",
    "look_at",
    "look_near",
    "look_schedule",
    "most_between_looks",
    "numbered",
    "people_of_line",
    "person_at",
    "person_detector",
    "person_segmenter",
    "place_of_pose",
    "pose_estimator",
    "poses",
    "read_coco",
    "read_mask_video",
    "run_length_mask",
    "runtime_packages",
    "search",
    "search_recording",
    "searchers",
    "segmenter",
    "sightings_of_line",
    "suppress",
    "text_detector",
    "text_lookahead",
    "text_mask",
    "threads",
    "unite",
    "with_legend",
    "with_masks",
    "write_coco",
]
