"""The card names what ran: the detectors that looked, and the versions of what did the work."""

from __future__ import annotations

import sys
from fractions import Fraction
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import cv2
import numpy as np
import pytest
from red_faces import RedFaces, moving_face

from sfumato import people, protect
from sfumato.errors import SfumatoError
from sfumato.media import Frame
from sfumato.people import runtime_packages
from sfumato.privacy import NoGuarantee, read_card, versions_of
from sfumato.protect.hide import _hiding, _region

# import name -> distribution, for what methods may or may not use
PACKAGES = {"cv2": "opencv-python-headless", "torch": "torch", "dp_accounting": "dp-accounting"}
FRAME: dict[str, Any] = {"epsilon": 8.0, "unit": "frame"}
METHODS: list[tuple[str, dict[str, Any]]] = [
    ("blur", {"detector": RedFaces(), "check": None}),
    ("edges", {}),
    ("isr", {"size": "16x12"}),
    ("appearance-free", {}),
    ("laplace", FRAME),
    ("dppix", FRAME),
    ("dprp", {**FRAME, "delta": 1e-5}),
    ("dprp", {**FRAME, "delta": 1e-5, "basis": "srht", "k": 16}),
    ("dp-image", {**FRAME, "delta": 1e-5}),
    ("snow", {"p": 0.1, "unit": "frame"}),
    ("randomized-response", FRAME),
    ("blur+dprp", {}),
]


class Watched:
    """A module that remembers whether anybody called into it."""

    def __init__(self, real: ModuleType, used: set[str]) -> None:
        self._real, self._used = real, used

    def __getattr__(self, name: str) -> Any:
        self._used.add(self._real.__name__)
        return getattr(self._real, name)


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The packages that sfumato's modules reach into from now on."""
    found: set[str] = set()
    protect.methods()  # loads the modules that are to be watched
    for name, module in list(sys.modules.items()):
        # reading and writing files is the release's part, not the method's
        if not name.startswith("sfumato.") or name.startswith("sfumato.media"):
            continue
        for package in PACKAGES:
            held = vars(module).get(package)
            if isinstance(held, ModuleType):
                monkeypatch.setattr(module, package, Watched(held, found))
    return found


@pytest.mark.parametrize(("name", "settings"), METHODS)
def test_the_stated_packages_are_those_that_did_the_work(
    name: str, settings: dict[str, Any], used: set[str]
) -> None:
    if name == "blur+dprp":
        stages = [
            protect.make("blur", {"detector": RedFaces(), "check": None}),
            protect.make("dprp", {"epsilon": 8.0, "delta": 1e-5, "unit": "clip"}),
        ]
        from sfumato.protect._chain import Chain

        method: Any = Chain(stages)
    else:
        method = protect.make(name, settings)
    frames = moving_face(4)
    for _ in method.frames(frames, count=len(frames)):
        pass
    assert set(method.packages) == {PACKAGES[each] for each in used}


def test_the_card_of_a_blur_names_its_detectors_and_their_runtime(
    face_video: Path, tmp_path: Path
) -> None:
    first, second = RedFaces("first"), RedFaces("second")
    first.device = "cpu (LiteRT)"
    method = protect.make("blur", {"detector": first, "check": second})
    protect.release(method, face_video, tmp_path / "out.mkv")
    card = read_card(tmp_path / "out.mkv")
    text = "no text every 4 to 8 frames on test"  # what the tests look for letters with
    again = "no text every 16 frames at the output on test"
    assert card.detectors == ("first on cpu (LiteRT)", text, "second at the output on test", again)
    assert card.versions == versions_of("av", "opencv-python-headless", "ai-edge-litert")
    assert card.versions["ai-edge-litert"] == metadata.version("ai-edge-litert")
    for absent in ("dp-accounting", "torch", "onnxruntime"):
        assert absent not in card.versions
    assert "first on cpu (LiteRT)" in (tmp_path / "out.mkv.card.md").read_text()


def test_a_method_that_looks_for_nobody_names_no_detector(face_video: Path, tmp_path: Path) -> None:
    protect.release(protect.make("laplace", FRAME), face_video, tmp_path / "out.mkv")
    card = read_card(tmp_path / "out.mkv")
    assert card.detectors == ()
    assert set(card.versions) == {"sfumato", "python", "numpy", "scipy", "av"}


def test_the_detector_that_looks_for_whole_people_in_the_output_is_named(
    face_video: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Nobody:
        name, device = "nanodet", "cpu (LiteRT)"

        def detect(self, image: Any) -> list[Any]:
            return []

    monkeypatch.setattr(_hiding.people, "person_detector", lambda name: Nobody())
    method = protect.make("silhouette", {})
    said = ("nanodet every 6 frames at the output", "cpu (LiteRT)")
    assert said not in method.detectors_used
    method.check_output(face_video, face_video)
    assert said in method.detectors_used


def test_private_files_that_lay_on_disk_meanwhile_are_named(
    face_video: Path, tmp_path: Path
) -> None:
    faces = RedFaces("first")
    found = "where people and text were found"
    cases: tuple[tuple[str, dict[str, Any], str], ...] = (
        ("blur", {"detector": faces, "check": faces}, found),
        ("blur+edges", {"blur.detector": faces, "blur.check": faces}, found),
        ("external", {"command": "cp {input} {output}"}, "what the tool made"),
        ("laplace", FRAME, ""),
    )
    for name, settings, said in cases:
        target = tmp_path / f"{name}.mkv"
        protect.release(protect.make(name, settings), face_video, target)
        told = read_card(target).temporary_files
        assert [each.startswith(said) for each in told] == [True] * bool(said)
        page = (tmp_path / f"{name}.mkv.card.md").read_text()
        assert f"| Temporary files with private content | {said or 'None.'}" in page


def test_runtimes_are_known_by_their_devices() -> None:
    assert runtime_packages([]) == runtime_packages(["test"]) == ()
    assert runtime_packages(["cpu (LiteRT)", "cpu (dlib)"]) == ("ai-edge-litert", "dlib-bin")


@pytest.mark.parametrize(
    "name", ["avatar", "blur", "pixelate", "silhouette", "selective", "skeleton"]
)
def test_no_summary_promises_more_than_was_found(name: str) -> None:
    """Whoever no detector found is still there, and the card repeats the summary."""
    assert "found" in protect.methods()[name].summary


def _mask(folder: Path) -> str:
    name = str(folder / "mask.png")
    cv2.imwrite(name, np.full((96, 128), 255, np.uint8))
    return name


@pytest.mark.parametrize(
    ("region", "done", "shown"),
    [
        ("faces", "the faces that were found, MANNER; text that was", "body, clothes, gait"),
        ("people", "the people who were found, MANNER; text that was", "outline, size and gait"),
        ("background", "the surroundings of the people", "the people themselves, who are shown"),
        (
            "text",
            "the lines of text that were found, filled with one",
            "everybody who is to be seen",
        ),
        ("mask", "the pixels of a mask, MANNER", "everything outside the mask"),
    ],
)
@pytest.mark.parametrize("name", ["blur", "pixelate", "silhouette", "selective"])
def test_the_card_says_which_region_was_covered_and_what_was_left(
    name: str, region: str, done: str, shown: str, tmp_path: Path
) -> None:
    kind = protect.get(name)
    method: Any = protect.make(name, {"region": _mask(tmp_path) if region == "mask" else region})
    assert method.summary.startswith(done.replace("MANNER", kind.manner))  # type: ignore[attr-defined]
    left = " ".join(method.promise(protect.Shape(96, 128, 8)).not_covered)
    assert shown in left
    others = {
        "body, clothes, gait",
        "outline, size and gait",
        "the people themselves, who are shown",
    }
    assert not any(each in left for each in others - {shown})


def test_a_setting_that_would_do_nothing_is_refused(tmp_path: Path) -> None:
    mask = _mask(tmp_path)
    for name, settings in (
        ("blur", {"region": "text", "strength": 1.0}),
        ("pixelate", {"region": "text", "cells": 2}),
        ("silhouette", {"region": "text", "detector": "movenet"}),
        ("silhouette", {"region": mask, "every": 2}),
        ("blur", {"region": mask, "check": "centerface"}),
        ("blur", {"region": "background", "check": "centerface"}),
        ("blur", {"import_boxes": "boxes.json", "on_miss": "fail"}),
        ("blur", {"published": True, "strength": 0.9}),
        ("edges", {"region": "text", "every": 2}),
        ("avatar", {"tool_timeout": 5.0}),
    ):
        with pytest.raises(protect.ProtectError, match="has none: leave it out"):
            protect.make(name, settings)
    told = protect.make("blur", {"region": "text"}).settings
    assert "strength" not in told
    assert "check" not in told  # a detector of faces that looks at nothing


def test_what_was_left_open_by_hand_stands_in_the_reason() -> None:
    by_hand = {"start": 0.5, "end": 1.0, "cover": ["0-3:1,1,9,9"]}
    promise = protect.make("blur", by_hand).promise(protect.Shape(96, 128, 8))
    said = "Everything before 0.5 s and from 1 s on is shown on purpose as it was recorded."
    assert isinstance(promise, NoGuarantee)
    assert promise.reason.endswith(said)
    assert "and what was covered by hand were changed" in promise.reason
    limited = protect.make("edges", {"region": "faces"}).promise(protect.Shape(96, 128, 8))
    assert isinstance(limited, NoGuarantee)
    assert "limited to the faces that were found and the text that was found" in limited.reason


def test_how_often_was_looked_is_said_as_it_was() -> None:
    class Poses:
        name, device = "poses", "test"

        def estimate(self, *args: Any) -> list[Any]:
            return []

    faces = RedFaces("faces")
    look = people.Look([], [faces], Poses())  # type: ignore[arg-type]
    assert look.helpers == (("poses for joints", "test"),)
    for count, often in ((1, ""), (8, " every 2 to 8 frames")):
        stream = people.find(moving_face(count), look, masks=False)
        assert len(list(stream)) == count
        assert stream.status.used == ((f"faces{often}", faces.device), *look.helpers)
    large = [Frame(np.zeros((720, 1280, 3), np.uint8), n, Fraction(n, 25)) for n in range(9)]
    stream = people.find(large, people.Look([], [faces]), masks=False)
    assert len(list(stream)) == 9
    assert "for small people on every second of these" in stream.status.name


def test_text_and_people_between_two_looks_are_not_covered() -> None:
    stream = people.find_text([], _hiding.people.text_detector(), every=_region.TEXT_EVERY)
    most = stream.status.often.split()[-2]
    text = f"what comes and goes between two looks, up to {most} frames apart"
    for every, said in ((4, "up to 8 frames apart (for small people 16)"), (24, "to 24 frames")):
        method = protect.make("blur", {"every": every})
        for frames in (8, None):
            left = method.promise(protect.Shape(96, 128, frames)).not_covered
            assert any(said in each for each in left)
            assert any(text in each for each in left)
        picture = method.promise(protect.Shape(96, 128, 1)).not_covered
        assert not any("between two looks" in each for each in picture)
    annotated = protect.make("blur", {"import_boxes": "boxes.json"})
    left = annotated.promise(protect.Shape(96, 128, 8)).not_covered
    assert "people who are not in the imported annotations" in left
    assert not any("detector missed in a frame" in each for each in left)
    assert people.TEXT in protect.make("avatar", {}).promise(protect.Shape(96, 128, 8)).not_covered


def test_what_is_switched_off_and_what_draws_nothing_is_said() -> None:
    shape = protect.Shape(96, 128, 8)
    blind = protect.make("blur", {"check": False}).promise(shape)
    assert isinstance(blind, NoGuarantee)
    assert blind.reason.endswith("No second detector checked the output.")
    unseen = protect.make("avatar", {"second_look": False}).promise(shape)
    assert any("second_look was switched off" in each for each in unseen.assumptions)
    for name, drawn in (("blur", False), ("edges", False), ("selective", True), ("isr", True)):
        said = protect.make(name, {"seed": 3}).promise(shape).randomness
        assert (said != "nothing is drawn at random") is drawn
    mixed = protect.make("blur+selective", {}).promise(shape)
    assert mixed.randomness == "operating system entropy"


def test_a_network_that_would_make_no_masks_is_refused(face_video: Path, tmp_path: Path) -> None:
    for detector, region in (("selfie", "faces"), ("selfie+selfie", "people")):
        method = protect.make("blur", {"detector": detector, "region": region})
        with pytest.raises(SfumatoError, match="masks"):
            protect.release(method, face_video, tmp_path / "out.mkv")
    with pytest.raises(protect.ProtectError, match="which is for sound"):
        protect.make("voice", {"region": "faces"})


def test_a_device_is_no_file_of_boxes() -> None:
    with pytest.raises(SfumatoError, match="or a device"):
        people.read_coco("/dev/zero")
