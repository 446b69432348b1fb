"""A method of one's own: one file, one line of registration, and everything else works with it."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import numpy as np
import pytest
from red_faces import RedFaces
from typer.testing import CliRunner

from sfumato import protect
from sfumato.cli.methods import app as list_methods
from sfumato.media import open_video
from sfumato.privacy import read_card
from sfumato.protect import ProtectError, _registry

TOY = '''
from typing import Annotated, Any, ClassVar

from pydantic import Field

from sfumato.media import Image
from sfumato.protect import Shape
from sfumato.protect.hide import Filter, Hiding, Place


class Stripes(Hiding):
    """Faces under stripes. Guarantee: none."""

    name: ClassVar[str] = "stripes"
    summary: ClassVar[str] = "the faces that were found, under stripes"
    provides: ClassVar[str] = "no guarantee"

    def __init__(self, *, width: Annotated[int, Field(ge=1, le=64)] = 2, **finding: Any) -> None:
        super().__init__(**finding)
        self.width = width

    @property
    def settings(self) -> dict[str, Any]:
        return super().settings | {"width": self.width}

    def make_filter(self, shape: Shape) -> Filter:
        def stripes(image: Image, place: Place) -> Image:
            image[place.mask] = 0
            image[::2 * self.width][place.mask[::2 * self.width]] = 200
            return image

        return stripes
'''


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the class of the toy method lies, importable but registered nowhere."""
    (tmp_path / "toy_stripes.py").write_text(TOY, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(_registry, "_METHODS", dict(_registry._METHODS))
    groups = _registry._GROUPS | {"sfumato.methods": _registry._METHODS}
    monkeypatch.setattr(_registry, "_GROUPS", groups)
    monkeypatch.delitem(sys.modules, "toy_stripes", raising=False)
    return "toy_stripes:Stripes"


def uses_everything(face_video: Path, folder: Path) -> None:
    """Make, chain, release, check, describe, rebuild from the card: as any other method."""
    settings = {"detector": RedFaces(), "check": RedFaces("other")}
    method = protect.make("stripes", settings | {"width": 3})
    target = folder / "out" / "a.mkv"
    protect.release(method, face_video, target, output=protect.OutputSettings(codec="ffv1"))
    with open_video(target) as reader:
        for frame in reader:
            assert not RedFaces().detect(frame.image)
            assert (frame.image == 200).all(axis=-1).any()
    card = read_card(target)
    again = protect.from_card(card)
    assert (again.name, again.settings["width"]) == ("stripes", 3)
    assert {"smooth", "halo"} <= again.audits
    assert method.region is not None
    assert method.watchers is method.region.watchers
    own = {f"stripes.{name}": value for name, value in settings.items()}
    assert protect.make("stripes+edges", own).name == "stripes+edges"
    with pytest.raises(ProtectError, match="width"):
        protect.make("stripes", {"width": 65})


def test_a_toy_method_registered_in_one_line_works_everywhere(
    toy: str, face_video: Path, tmp_path: Path
) -> None:
    assert "stripes" not in protect.names()
    protect.register("stripes", toy)
    assert "stripes" in protect.names()
    assert "toy_stripes" not in sys.modules, "registering imports nothing"
    uses_everything(face_video, tmp_path)


def test_a_toy_method_found_by_its_entry_point_works_everywhere(
    toy: str, face_video: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = EntryPoints([
        EntryPoint("stripes", toy, "sfumato.methods"),
        EntryPoint("blur", toy, "sfumato.methods"),
        EntryPoint("nowhere", "no_such_module:Nothing", "sfumato.methods"),
    ])  # fmt: skip
    monkeypatch.setattr(_registry, "entry_points", lambda group: entries.select(group=group))
    assert protect.get("blur").__module__.startswith("sfumato."), "a plug-in replaces nothing"
    uses_everything(face_video, tmp_path)
    with pytest.raises(ProtectError, match="cannot be loaded"):
        protect.get("nowhere")


def test_names_are_unique_and_classes_carry_them(toy: str) -> None:
    for taken in ("blur", "pass"):
        with pytest.raises(ProtectError, match="no other method has"):
            protect.register(taken, toy)
    with pytest.raises(ProtectError, match="no other method has"):
        protect.register("blur", toy, datasets=True)
    protect.register("lines", toy)
    with pytest.raises(ProtectError, match="with the name lines"):
        protect.get("lines")
    protect.register("numbers", "numpy:zeros")
    with pytest.raises(ProtectError, match="to be a Method"):
        protect.get("numbers")


def test_asking_for_one_method_imports_neither_torch_nor_the_others() -> None:
    code = (
        "import sys; from sfumato import protect; protect.names(); protect.get('edges');"
        "print([n for n in ('torch', 'sfumato.attributes', 'sfumato.protect.avatar') if n in sys.modules],"
        "sorted(n for n in sys.modules if n.startswith(('sfumato.protect.hide.', 'sfumato.protect.noise'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] ['sfumato.protect.hide._whole_picture']"


def test_methods_of_data_sets_are_known_without_importing_them() -> None:
    assert protect.works_on_datasets("pass")
    assert protect.works_on_datasets("pass-ldp")
    assert not protect.works_on_datasets("blur")
    assert not protect.works_on_datasets("nothing")
    for name, method in protect.dataset_methods().items():
        assert method.name == name
        assert method.summary
        assert method.provides
        assert method.settings_schema().model_fields
    with pytest.raises(ProtectError, match="for recordings, got pass"):
        protect.make("pass+edges", {})
    with pytest.raises(ProtectError, match="for data sets, got blur"):
        protect.get_dataset_method("blur")
    with pytest.raises(ProtectError, match=r"method out of .*edges.*pass-ldp"):
        protect.get("nothing")


def test_the_list_of_methods_has_both_kinds() -> None:
    done = CliRunner().invoke(list_methods, ["--json"])
    listed = {each["name"]: each for each in json.loads(done.stdout)["methods"]}
    assert sorted(listed) == sorted([*protect.names(), *protect.dataset_methods()])
    assert "epsilon" in listed["pass-ldp"]["settings"]
    assert "epsilon" not in listed["pass"]["settings"]
    assert all(each["summary"] and each["provides"] for each in listed.values())


CARDS = sorted((Path(__file__).parent / "cards_written_before").glob("*.card.json"))
SHAPE = protect.Shape(48, 64, 1)


@pytest.mark.parametrize("path", CARDS, ids=lambda path: path.name.partition(".")[0])
def test_cards_written_before_still_name_the_same_method(path: Path) -> None:
    card = read_card(path.with_name(path.name.removesuffix(".card.json")))
    method = protect.from_card(card)
    assert method.name == card.method
    of_the_release = {"codec", "keep_audio", "region", "public_mask"}
    gone = {"between"}  # a second detector on the frames between two full detections
    assert card.settings.keys() - of_the_release - gone <= method.settings.keys()
    told = {name: value for name, value in method.settings.items() if name in card.settings}
    masked = card.settings.get("public_mask", False)
    for name, value in told.items():
        wanted = str(card.settings[name])
        if name == "unit" and masked:
            wanted = wanted.replace(", inside public mask", "")
        if name != "detector" and name != "check":
            assert str(value) == wanted, name
    if "release-code" in method.audits:
        again, before = method.promise(SHAPE), card.promise
        assert np.isclose(again.epsilon, before.epsilon)  # type: ignore[union-attr]
        assert np.isclose(again.delta, before.delta, rtol=1e-6)  # type: ignore[union-attr]
