"""The card names what ran: the detectors that looked, and the versions of what did the work."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from red_faces import RedFaces, moving_face

from sfumato import protect
from sfumato.people import runtime_packages
from sfumato.privacy import read_card, versions_of
from sfumato.protect.hide import _hiding

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
    assert card.detectors == ("first on cpu (LiteRT)", text, "second at the output on test")
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
    said = ("nanodet at the output", "cpu (LiteRT)")
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
