"""The card: complete, true to its output, silent about the input."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from sfumato.privacy import (
    DRAWN_EXACTLY,
    Bounds,
    Card,
    CardError,
    Gaussian,
    Guarantee,
    NoGuarantee,
    Output,
    card_path,
    check_outputs,
    read_card,
)
from sfumato.privacy._card_page import checklist, markdown, officer_view
from sfumato.privacy._registry import registry_entry
from sfumato.privacy._signature import check_signature, make_key, sign


def promise(**changes: Any) -> Guarantee:
    fields: dict[str, Any] = {
        "mechanism": "test noise",
        "unit": "frame",
        "relation": "replace",
        "delta": 1e-5,
        "event": Gaussian(4.0, Bounds.DIFFERENCE),
        "accountant": "analytic-gaussian",
        "not_covered": ("the sound",),
    }
    return Guarantee(**(fields | changes))


@pytest.fixture
def released(tmp_path: Path) -> tuple[Path, Card]:
    output = tmp_path / "out.mp4"
    output.write_bytes(b"protected")
    card = Card(
        method="dprp",
        done="A video was projected, noised and put together again.",
        promise=promise(),
        outputs=(Output.of(output),),
        settings={"epsilon": 1.5, "rate": "30000/1001", "nested": {"k": [1, 2]}},
    )
    card.write(output)
    return output, card


def test_card_survives_the_round_trip(released: tuple[Path, Card]) -> None:
    output, card = released
    again = read_card(output)
    assert again == read_card(card_path(output))
    assert again.to_json() == card.to_json()
    check_outputs(again, output.parent)


def test_changed_output_is_noticed(released: tuple[Path, Card]) -> None:
    output, card = released
    output.write_bytes(b"protectee")
    with pytest.raises(CardError, match="content has changed"):
        check_outputs(card, output.parent)
    output.unlink()
    with pytest.raises(CardError, match="not there"):
        check_outputs(card, output.parent)


@pytest.mark.parametrize(
    ("field", "value"),
    [("epsilon", 0.01), ("unit", "record"), ("relation", "add-remove"), ("not_covered", [])],
)
def test_changed_promise_is_noticed(released: tuple[Path, Card], field: str, value: Any) -> None:
    """Every edit that would make the promise look better, or other, than it is."""
    output, _ = released
    path = card_path(output)
    content = json.loads(path.read_text())
    content["promise"][field] = value
    path.write_text(json.dumps(content))
    with pytest.raises(Exception, match=r"below|do not agree|Expected"):
        read_card(output)


def test_card_of_a_folder_notices_added_renamed_and_changed_files(tmp_path: Path) -> None:
    folder = tmp_path / "release"
    (folder / "train").mkdir(parents=True)
    (folder / "train" / "a.png").write_bytes(b"a")
    (folder / "train" / "b.png").write_bytes(b"b")
    before = Output.of(folder)
    assert before.size == 2
    (folder / "train" / "b.png").rename(folder / "train" / "c.png")
    assert Output.of(folder).sha256 != before.sha256
    (folder / "train" / "c.png").rename(folder / "train" / "b.png")
    assert Output.of(folder) == before
    (folder / "extra").write_bytes(b"")
    assert Output.of(folder).sha256 != before.sha256


@pytest.mark.parametrize("bad", ["/home/anna/x.mp4", "patients/P001", "C:\\videos", Path("x")])
def test_paths_never_reach_a_card(released: tuple[Path, Card], bad: Any) -> None:
    _, card = released
    with pytest.raises(CardError, match=r"path|plain values"):
        replace(card, settings={"a": {"b": [bad]}})


def test_card_says_nothing_about_the_folder_it_lies_in(released: tuple[Path, Card]) -> None:
    output, _ = released
    for path in (card_path(output), card_path(output).with_suffix(".md")):
        assert str(output.parent) not in path.read_text()


def test_readable_card_answers_the_checklists(released: tuple[Path, Card]) -> None:
    _, card = released
    page = markdown(card)
    assert str(card.promise) in page
    for risk in ("singling out", "linkability", "inference"):
        assert f"| {risk} |" in page
    # NIST SP 800-226 and "How to DP-fy ML" 5.3
    answered = checklist(card)
    for question in (
        "Definition",
        "Unit of privacy",
        "Neighbouring data sets",
        "Mechanism",
        "Accounting",
        "Setting (who is trusted)",
        "What is released",
        "Post-processing",
        "Tuning on private data",
        "Not covered",
        "How to check",
    ):
        assert answered[question]
        assert f"| {question} |" in page


def test_only_a_promise_that_says_so_covers_floating_point(
    released: tuple[Path, Card],
) -> None:
    """Older cards and trainings do not; neither does a sum of which one part does not."""
    _, card = released
    question = "Floating-point attacks on the noise"
    assert checklist(card)[question] == "Not covered."
    exact = promise(public=("all settings", DRAWN_EXACTLY))
    assert checklist(replace(card, promise=exact))[question].startswith("Covered")
    assert DRAWN_EXACTLY in exact.compose(exact).public
    for mixed in (exact.compose(promise()), promise().compose(exact)):
        assert checklist(replace(card, promise=mixed))[question] == "Not covered."
    none = NoGuarantee(mechanism="blur", reason="Blur can be undone.")
    assert checklist(replace(card, promise=none))[question].startswith("Does not apply")


def test_officer_is_told_when_nothing_is_proven() -> None:
    none = NoGuarantee(mechanism="blur", reason="Blur can be undone.")
    assert all("Not excluded" in answer for answer in officer_view(none).values())
    seeded = promise(randomness="seeded (not private)")
    assert all("seed" in answer for answer in officer_view(seeded).values())


def test_signature_covers_the_whole_card(released: tuple[Path, Card], tmp_path: Path) -> None:
    output, card = released
    public = make_key(tmp_path / "key")
    other = make_key(tmp_path / "other")
    assert (tmp_path / "key").stat().st_mode & 0o077 == 0
    signed = sign(card, tmp_path / "key")
    signed.write(output, force=True)
    again = read_card(output)
    check_signature(again, public)
    with pytest.raises(CardError, match="another key"):
        check_signature(again, other)
    with pytest.raises(CardError, match="changed after signing"):
        check_signature(replace(again, done="Something else was done."), public)
    with pytest.raises(CardError, match="not signed"):
        check_signature(card)


def test_registry_entry_has_the_registrys_fields(released: tuple[Path, Card]) -> None:
    _, card = released
    entry = yaml.safe_load(
        registry_entry(card, name="Gait films", curator="A lab", intended_use="Research")
    )
    deployment = entry["deployment"]
    assert set(deployment) == {
        "product",
        "dp_flavor",
        "privacy_loss",
        "model",
        "accounting",
        "implementation",
    }
    parameters = deployment["privacy_loss"]["privacy_parameters"]
    assert parameters == {"epsilon": card.promise.to_json()["epsilon"], "delta": 1e-5}
    assert deployment["dp_flavor"]["name"] == "Approximate DP"
    with pytest.raises(CardError, match="guarantee"):
        registry_entry(
            replace(card, promise=NoGuarantee(mechanism="blur", reason="None.")),
            name="x",
            curator="y",
            intended_use="z",
        )


def test_card_does_not_overwrite(released: tuple[Path, Card]) -> None:
    output, card = released
    with pytest.raises(Exception, match="--force"):
        card.write(output)
    card.write(output, force=True)
