"""A command that cannot be followed gets one sentence with what was most likely meant."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from command import DONE, FAILED, USAGE, Run

from sfumato import protect
from sfumato.errors import did_you_mean
from sfumato.media import VideoWriter


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    path = tmp_path / "patients" / "anna.mkv"
    path.parent.mkdir()
    with VideoWriter(path, rate=10, size=(32, 24), codec="ffv1") as writer:
        for number in range(3):
            writer.write(np.full((24, 32, 3), 40 * number, np.uint8))
    return path


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["protec", "a", "b"], "did you mean protect?"),
        (["audit", "lekas", "a"], "did you mean leaks?"),
        (["protect", "a", "b", "--metod", "blur"], "did you mean --method?"),
        (["protect", "a.mp4", "b.mp4", "--method", "blurr"], "did you mean blur?"),
        (["protect", "a.mp4", "b.mp4", "--method", "edges+siluette"], "did you mean silhouette?"),
        (["protect", "a.mp4", "b.mp4", "--method", "pas"], "did you mean pass?"),
        (["protect", "a.mp4", "b.mp4", "--method", "blur", "--epsilon", "8"], "proves nothing"),
        (
            ["protect", "a.mp4", "b.mp4", "--method", "snow", "--epsilon", "8"],
            "follows from its other",
        ),
        (["protect", "a.mp4", "b.mp4", "--epsilon", "8"], "dprp"),
        (["protect", "patients", "out.mp4"], "did you mean sfumato protect patients out?"),
        (["protect", "patients/anna.mkv", "patients"], "patients/protected.mkv"),
        (["protect", "patients/anna.mkv", "released/"], "released/protected.mkv"),
        (["protect", "anna.mkv", "out.mp4"], "'anna.mkv', found nothing"),
        (["protect", "patients/anna.mkv", "patients/anna.mkv"], "apart from the originals"),
        (["protect", "a.mp4"], "Expected TARGET, got none: such as sfumato protect in.mp4 out.mp4"),
        (["blur", "a.mp4", "b.mp4"], "protect in.mp4 out.mp4 --method blur?"),
        (["schema", "trian"], "did you mean train?"),
        (["examples", "frist.yaml"], "did you mean first.yaml?"),
        (["xyz"], "there are protect, "),
    ],
)
def test_a_slip_gets_one_sentence_with_the_intention(
    run: Run, clip: Path, words: list[str], meant: str
) -> None:
    code, said, told = run(*words)
    assert code in {FAILED, USAGE}
    assert not said
    assert told.count("\n") == 1
    assert told.startswith("sfumato: ")
    assert meant in told
    assert list(clip.parent.parent.iterdir()) == [clip.parent]


def test_a_mistake_in_the_words_has_its_own_exit_code_and_json(run: Run) -> None:
    assert run("protec", "a", "b")[0] == USAGE
    code, said, _ = run("protect", "a", "b", "--metod", "x", "--json")
    assert (code, json.loads(said)["ok"]) == (USAGE, False)


def test_without_a_method_whole_people_are_covered_and_it_is_said(run: Run) -> None:
    code, said, told = run("protect", "a.mp4", "b.mp4", "--dry-run", "--json")
    assert code == DONE
    assert json.loads(said)["method"] == protect.DEFAULT_METHOD == "silhouette"
    for word in ("silhouette", "because blur hides faces alone", "dprp", "sfumato methods"):
        assert word in told


def test_attributes_without_a_method_name_the_methods_that_know_them(run: Run) -> None:
    code, _, told = run("protect", "a", "b", "--private", "gender")
    assert code == FAILED
    assert "--method pass" in told


@pytest.mark.skipif(sys.platform == "win32", reason="names differ in case only")
def test_the_most_similar_name_is_found_whatever_its_case() -> None:
    assert did_you_mean("BLUR", ["blur", "edges"]) == ": did you mean blur?"
    assert did_you_mean("zzz", ["blur", "edges"]) == ": there are blur, edges."
