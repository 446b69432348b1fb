"""Whom a card speaks for (R21), what a signature covers, and what a malicious card may not do."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from sfumato.errors import SfumatoError
from sfumato.files import parse_json
from sfumato.privacy import (
    Bounds,
    Card,
    CardError,
    Gaussian,
    Guarantee,
    NoCardError,
    Output,
    card_for,
    card_path,
    checked_card,
    read_card,
)
from sfumato.privacy._signature import make_key, sign
from sfumato.privacy._verify import verify_output

# Written and signed by sfumato 0.1.0 before cards had a version 2.
OLD = json.loads(
    """
{"created": "2026-01-02", "device": "cpu",
 "done": "A video was projected, noised and put together again.", "method": "dprp",
 "model_of_trust": "central", "outputs": [{"name": "walk.mp4", "size": 9,
   "sha256": "9b2bbce6c72dd9bbd9c7a9976d5d76d1fcc2bb9832dec246375bb92006beccc3"}],
 "post_processing": [], "promise": {"accountant": "analytic-gaussian", "assumptions": [],
   "delta": 1e-05, "epsilon": 0.9263415040077424,
   "event": {"bounds": "difference", "kind": "gaussian", "noise_multiplier": 4.0},
   "mechanism": "test noise", "not_covered": ["the sound"], "public": [],
   "randomness": "operating system entropy", "relation": "replace", "type": "guarantee",
   "unit": "frame", "version": 1},
 "promise_in_words": "This release (test noise) is differentially private with epsilon 0.927 and delta \
1e-05 for one whole frame: the chance of any output changes by a factor of at most 2.53 if it is \
exchanged for any other one, apart from a probability of 1e-05. Whoever tries to tell the two cases \
apart and wrongly accuses 1 % of the time is right at most 1.9 % of the time; at 0.1 %, 0.23 %. Unit \
frame, relation replace, accountant analytic-gaussian. Does not cover: the sound.",
 "schema": "sfumato-card", "settings": {"epsilon": 1.5, "rate": "30000/1001"},
 "signature": {"algorithm": "ed25519",
   "public_key": "d5425fbdceda9706ad4b1012ba642659bb5bfbe5c7462ec4f4a2f8ee67c3b4d9",
   "value": "039ce2b0334709332ba293d8ee6350339434a53c0e5888471d9b782df978a0f8\
39073f0a5993a3aa998239cca4f5d5667de3444c1c9d91e1184997d217060700"},
 "temporary_files": [],
 "tuning": "Not stated: choices made by looking at the private data are not covered.", "version": 1,
 "versions": {"python": "3.11.7", "sfumato": "0.1.0"}}
"""
)


def promise() -> Guarantee:
    return Guarantee(
        mechanism="test noise",
        unit="frame",
        relation="replace",
        delta=1e-5,
        event=Gaussian(4.0, Bounds.DIFFERENCE),
        accountant="analytic-gaussian",
        not_covered=("the sound",),
    )


def make(target: Path, content: bytes = b"protected", **card: Any) -> Path:
    target.write_bytes(content)
    stated = {"method": "dprp", "done": "Noised.", "settings": {"k": 2}}
    Card(promise=promise(), outputs=(Output.of(target),), **{**stated, **card}).write(target)
    return target


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return make(tmp_path / "walk.mp4")


@pytest.fixture
def key(tmp_path: Path) -> Path:
    make_key(tmp_path / "key")
    return tmp_path / "key"


def stored(output: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(card_path(output).read_text())
    return found


def store(output: Path, content: dict[str, Any]) -> None:
    card_path(output).write_text(json.dumps(content))


# -- which card speaks for a file


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("there", [False, True])
def test_the_card_of_another_file_is_no_card(
    output: Path, key: Path, signed: bool, there: bool
) -> None:
    """Copied under another name, also when it is signed and also when nothing is there."""
    if signed:
        sign(read_card(output), key).write(output, force=True)
    other = output.with_name("other.mp4")
    shutil.copy(card_path(output), card_path(other))
    if there:
        shutil.copy(output, other)
    for ask in (card_for, checked_card, read_card, verify_output):
        for path in (other, card_path(other)):
            with pytest.raises(CardError, match=r"not for 'other.mp4'|not there"):
                ask(path)


def test_an_output_that_is_not_there_has_no_promise(output: Path) -> None:
    output.unlink()
    for ask in (card_for, checked_card, verify_output):
        with pytest.raises(CardError, match="not there"):
            ask(output)
    # the card by itself may be read: it says what was promised about what is elsewhere
    assert card_for(card_path(output)).state == "absent"
    with pytest.raises(CardError, match="not there"):
        verify_output(card_path(output))


def test_states_of_an_output(output: Path) -> None:
    assert card_for(output).state == "agrees"
    output.write_bytes(b"other")
    assert card_for(output).state == "changed"
    with pytest.raises(CardError, match="content has changed"):
        checked_card(output)


def test_a_changed_output_is_not_excused_by_a_missing_one(tmp_path: Path) -> None:
    video, layer = tmp_path / "walk.mp4", tmp_path / "walk.public.mkv"
    video.write_bytes(b"video")
    layer.write_bytes(b"layer")
    outputs = (Output.of(video), Output.of(layer))
    Card(method="avatar", done="Done.", promise=promise(), outputs=outputs).write(video)
    assert card_for(layer).card.method == "avatar"
    verify_output(layer)
    layer.unlink()
    assert card_for(video).state == "absent"
    video.write_bytes(b"other")
    assert card_for(video).state == "changed"


def test_the_card_of_a_folder_speaks_for_what_is_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "released"
    (folder / "files").mkdir(parents=True)
    (folder / "files" / "1.png").write_bytes(b"one")
    Card(method="pass", done="Done.", promise=promise(), outputs=(Output.of(folder),)).write(folder)
    found = card_for(folder / "files" / "1.png")
    assert (found.output, found.state) == (folder, "agrees")
    (folder / "files" / "2.png").write_bytes(b"two")
    assert card_for(folder / "files" / "1.png").state == "changed"


def test_a_folder_may_be_named_from_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "released"
    folder.mkdir()
    (folder / "1.png").write_bytes(b"one")
    Card(method="pass", done="Done.", promise=promise(), outputs=(Output.of(folder),)).write(folder)
    monkeypatch.chdir(folder)
    for name in (".", "./", "../released"):
        assert verify_output(name).card.method == "pass"
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NoCardError):
        card_for(".")


def test_a_card_cannot_name_what_lies_elsewhere(output: Path) -> None:
    for name in ("..", ".", "", "a/walk.mp4", "../walk.mp4"):
        content = stored(output)
        content["outputs"][0]["name"] = name
        store(output, content)
        with pytest.raises(CardError):
            card_for(card_path(output))


# -- what a signature covers


def signed_bytes(content: dict[str, Any]) -> bytes:
    """The slow obvious rule: what is stored, without the signature, in one form."""
    body = {name: value for name, value in content.items() if name != "signature"}
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()


def test_what_is_signed_is_what_is_stored(output: Path, key: Path) -> None:
    verify_output(output, sign_with=key)
    content = stored(output)
    public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(content["signature"]["public_key"]))
    public.verify(bytes.fromhex(content["signature"]["value"]), signed_bytes(content))


def test_forged_words_break_a_signature(output: Path, key: Path) -> None:
    """Also where the words are excused as those of another version."""
    verify_output(output, sign_with=key)
    for changes in (
        {"promise_in_words": "Nobody can be recognised."},
        {"promise_in_words": "Nobody can be recognised.", "versions": {"sfumato": "9.9"}},
        {"done": "Everything was made safe."},
        {"detectors": ["perfect"]},
        {"readable": "0" * 64},
    ):
        kept = stored(output)
        store(output, kept | changes)
        with pytest.raises(CardError, match=r"changed|do not agree"):
            verify_output(output)
        store(output, kept)


def test_better_words_of_a_later_version_keep_a_signature(
    output: Path, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verify_output(output, sign_with=key)
    monkeypatch.setattr(Guarantee, "__str__", lambda self: "The same, said better.")
    monkeypatch.setattr("sfumato.privacy._card.__version__", "999.0")
    verified = verify_output(output, key=key.with_name("key.pub"))
    assert any("not those that this version derives" in each for each in verified.remarks)
    # signing again signs what is stored, and leaves it as it is
    before = stored(output)
    verify_output(output, sign_with=key)
    assert stored(output) == before


@pytest.mark.parametrize("epsilon", [0.927, 50.0])
def test_a_larger_stored_epsilon_is_covered_too(output: Path, key: Path, epsilon: float) -> None:
    verify_output(output, sign_with=key)
    content = stored(output)
    content["promise"]["epsilon"] = epsilon
    store(output, content)
    with pytest.raises(CardError, match="changed after signing"):
        verify_output(output)


def test_cards_written_before_load_and_their_signatures_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "walk.mp4"
    output.write_bytes(b"protected")
    store(output, OLD)
    verified = verify_output(output)
    assert verified.signer == OLD["signature"]["public_key"]
    assert any("version 1" in each for each in verified.remarks)
    # whatever this version would say instead
    monkeypatch.setattr(Guarantee, "__str__", lambda self: "The same, said better.")
    assert verify_output(output).signer == OLD["signature"]["public_key"]
    for changes in ({"promise_in_words": "Nobody can be recognised."}, {"tuning": "None."}):
        store(output, OLD | changes)
        with pytest.raises(CardError, match="changed after signing"):
            verify_output(output)
    unsigned = OLD | {"signature": None, "promise_in_words": "Nobody can be recognised."}
    store(output, unsigned)
    assert any("words stored" in each for each in verify_output(output).remarks)


def test_words_may_differ_by_a_rounded_digit_but_not_by_a_number(output: Path) -> None:
    content = stored(output)
    words = content["promise_in_words"]
    assert "0.927" in words
    store(output, content | {"promise_in_words": words.replace("0.927", "0.926")})
    read_card(output)
    store(output, content | {"promise_in_words": words.replace("0.927", "0.27")})
    with pytest.raises(CardError, match="do not agree"):
        read_card(output)


# -- the readable page


def test_a_changed_page_is_noticed(output: Path, key: Path) -> None:
    page = card_path(output).with_suffix(".md")
    assert hashlib.sha256(page.read_bytes()).hexdigest() == stored(output)["readable"]
    assert verify_output(output).page == "agrees"
    verify_output(output, sign_with=key)
    assert verify_output(output).page == "agrees"
    page.write_text(page.read_text().replace("0.927", "0.001"))
    with pytest.raises(CardError, match="readable page"):
        verify_output(output)
    page.unlink()
    assert verify_output(output).page == "absent"


# -- what may not stand on a card


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", '"2"', "true", "[]"])
def test_no_epsilon_but_a_finite_number_is_read(output: Path, number: str) -> None:
    text = card_path(output).read_text()
    card_path(output).write_text(text.replace(f"{promise().epsilon!r}", number))
    assert number in card_path(output).read_text()
    with pytest.raises(SfumatoError):
        read_card(output)


@pytest.mark.parametrize("epsilon", [float("nan"), float("inf"), 10**400, "2", None, True])
def test_a_stored_guarantee_has_a_finite_epsilon(epsilon: Any) -> None:
    with pytest.raises(SfumatoError, match="finite"):
        Guarantee.from_json(promise().to_json() | {"epsilon": epsilon})


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', "[NaN]", "[1e400]", "[" * 100_000, "{", ""])
def test_strict_json(text: str) -> None:
    with pytest.raises(ValueError):
        parse_json(text)
    assert parse_json('{"a": [1, 2.5, null, "x"]}') == {"a": [1, 2.5, None, "x"]}


@pytest.mark.parametrize("bad", ["\x1b[2J", "\n", "\r", "\x07", "\x9b31m", "\u202e", "\ud800"])
@pytest.mark.parametrize(
    "place",
    [
        lambda card, bad: card | {"done": f"Done{bad}."},
        lambda card, bad: card | {"settings": {f"k{bad}": 1}},
        lambda card, bad: card | {"versions": {"sfumato": f"1{bad}"}},
        lambda card, bad: card | {"promise": card["promise"] | {"mechanism": f"m{bad}"}},
        lambda card, bad: card | {"outputs": [card["outputs"][0] | {"name": f"a{bad}"}]},
        lambda card, bad: card | {"created": bad},
    ],
)
def test_nothing_on_a_card_can_move_a_cursor(
    output: Path, bad: str, place: Callable[[dict[str, Any], str], dict[str, Any]]
) -> None:
    store(output, place(stored(output), bad))
    with pytest.raises(CardError, match="control character") as caught:
        read_card(output)
    assert str(caught.value).isprintable()


def test_such_a_card_is_not_written_either(output: Path) -> None:
    with pytest.raises(CardError, match="control character"):
        replace(read_card(output), done="Done.\x1b[2J")


WEIRD = (None, True, 7, -1.5, "x", "", [], {}, [1], ["x"], {"a": 1}, [[]], [{}])


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a JSON value."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value)
    if isinstance(value, dict | list):
        for key, item in items:
            yield from (
                places(item, (*path, key)) if isinstance(item, dict | list) else [(*path, key)]
            )


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    copied = json.loads(json.dumps(value))
    at = copied
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = new
    return copied


def removed(value: Any, path: tuple[Any, ...]) -> Any:
    copied = json.loads(json.dumps(value))
    at = copied
    for key in path[:-1]:
        at = at[key]
    del at[path[-1]]
    return copied


def test_malformed_cards_give_one_sentence(output: Path, key: Path) -> None:
    """Every place of a card, without it and with other kinds of values: refused, or read as it is."""
    verify_output(output, sign_with=key)
    content = stored(output)
    tried, sentences = 0, []
    for path in places(content):
        for broken in (removed(content, path), *(changed(content, path, each) for each in WEIRD)):
            tried += 1
            try:
                Card.from_json(broken)
            except SfumatoError as error:
                sentences.append(str(error))
    for whole in (*WEIRD, content | {"surprise": 1}):
        with pytest.raises(SfumatoError):
            Card.from_json(whole)
    assert tried > 500
    deep: Any = []
    for _ in range(900):
        deep = [deep]
    with pytest.raises(SfumatoError):
        Card.from_json(content | {"settings": {"deep": deep}})
    assert not [each for each in sentences if "\n" in each]


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[1]", b"null", b"[" * 100_000])
def test_files_that_are_no_cards_give_one_sentence(output: Path, content: bytes) -> None:
    card_path(output).write_bytes(content)
    with pytest.raises(CardError) as caught:
        read_card(output)
    assert "\n" not in str(caught.value)
