"""A page may offer what somebody types: no files, no commands, no seeds."""

from __future__ import annotations

import pytest

from sfumato import protect
from sfumato.protect import ProtectError


def test_every_method_but_those_that_run_a_command_has_a_form() -> None:
    assert set(protect.names()) - set(protect.methods_with_forms()) == {"external"}


@pytest.mark.parametrize("name", protect.methods_with_forms())
def test_no_form_offers_a_file_a_command_or_an_object(name: str) -> None:
    offered = protect.form_schema(name)["properties"]
    never = {
        "import_boxes",
        "encoder",
        "command",
        "poses",
        "masks",
        "inpainting",
        "finder",
        "refine",
    }
    assert not set(offered) & {*never, "seed", "leave_open", "cover", "public_mask"}
    text = str(offered)
    for word in ("path", "$ref", "'object'", "'description': 'text'"):
        assert word not in text, (name, word)


def test_a_form_offers_what_the_method_takes() -> None:
    form = protect.form_schema("dprp")
    assert form["required"] == ["epsilon"]  # the rest has the defaults of the command line
    shown = {name: form["properties"][name]["default"] for name in ("delta", "unit")}
    assert protect.with_defaults("dprp", {})[0] == shown
    assert form["properties"]["epsilon"]["maximum"] == 1e6
    assert form["properties"]["basis"]["enum"] == ["dct", "srht", "gaussian"]
    assert protect.form_schema("silhouette")["properties"]["region"]["enum"] == [
        None, "faces", "people", "background", "text",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "settings", [{"region": "/etc/passwd"}, {"import_boxes": "x"}, {"seed": 1}, {"nothing": 1}]
)
def test_other_settings_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ProtectError):
        protect.check_form("silhouette", settings)
    protect.check_form("silhouette", {"region": "people", "level": 50, "check": False})
