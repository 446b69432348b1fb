"""Release methods: one module each, all behind ``methods()`` and ``get(name)``.

>>> from sfumato import protect
>>> method = protect.get("dprp")(epsilon=8, delta=1e-5, unit="pixels(16, frames=1)")
>>> method.promise(protect.Shape(height=240, width=320)).epsilon <= 8
True
"""

from __future__ import annotations

from sfumato.protect._before_after import BeforeAfterPairs
from sfumato.protect._command import CommandResult, Request, dry_run, run, with_defaults
from sfumato.protect._corrected import CATEGORIES, boxes_category, corrected_settings, write_boxes
from sfumato.protect._dataset_method import DatasetMethod
from sfumato.protect._doubts import doubtful_frames, ranked
from sfumato.protect._forms import check_form, form_schema, methods_with_forms
from sfumato.protect._frame_review import (
    USUAL_SAMPLE,
    RecordedReview,
    ReviewSample,
    draw_review_sample,
    drawn_pictures,
    read_answers,
    record_review,
)
from sfumato.protect._intentions import (
    DEFAULT_METHOD,
    NO_METHOD_GIVEN,
    SOUND_GIVEN,
    SOUND_METHOD,
    check_files,
    check_intention,
    check_options,
    is_sound,
    sound_wishes,
)
from sfumato.protect._method import Method, Promise, ProtectError, Shape, StillVisibleError, Stream
from sfumato.protect._preview import preview
from sfumato.protect._registry import (
    dataset_methods,
    from_card,
    get,
    get_dataset_method,
    make,
    methods,
    names,
    register,
    works_on_datasets,
)
from sfumato.protect._release import OutputSettings, release, shape_of
from sfumato.protect._review_exports import ReviewExports
from sfumato.protect._review_page import review_page, write_review_page
from sfumato.protect._setting_kinds import Epsilon, seconds_of

__all__ = [
    "CATEGORIES",
    "DEFAULT_METHOD",
    "NO_METHOD_GIVEN",
    "SOUND_GIVEN",
    "SOUND_METHOD",
    "USUAL_SAMPLE",
    "BeforeAfterPairs",
    "CommandResult",
    "DatasetMethod",
    "Epsilon",
    "Method",
    "OutputSettings",
    "Promise",
    "ProtectError",
    "RecordedReview",
    "Request",
    "ReviewExports",
    "ReviewSample",
    "Shape",
    "StillVisibleError",
    "Stream",
    "boxes_category",
    "check_files",
    "check_form",
    "check_intention",
    "check_options",
    "corrected_settings",
    "dataset_methods",
    "doubtful_frames",
    "draw_review_sample",
    "drawn_pictures",
    "dry_run",
    "form_schema",
    "from_card",
    "get",
    "get_dataset_method",
    "is_sound",
    "make",
    "methods",
    "methods_with_forms",
    "names",
    "preview",
    "ranked",
    "read_answers",
    "record_review",
    "register",
    "release",
    "review_page",
    "run",
    "seconds_of",
    "shape_of",
    "sound_wishes",
    "with_defaults",
    "works_on_datasets",
    "write_boxes",
    "write_review_page",
]
