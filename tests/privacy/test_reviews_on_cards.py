"""What a card says of those who looked: an honest limit, bound to its output, never a better one."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, hypergeom

from sfumato.errors import SfumatoError
from sfumato.privacy import (
    NOBODY_LOOKED,
    Card,
    FrameReview,
    NoGuarantee,
    Output,
    ReviewError,
    card_path,
    content_digest,
    read_card,
    sign,
    verify_output,
)
from sfumato.privacy._frame_review import share_at_most
from sfumato.privacy._signature import make_key


def card_of(path: Path, content: bytes = b"protected") -> Card:
    path.write_bytes(content)
    nothing = NoGuarantee(mechanism="blur", reason="Only faces were changed.")
    return Card(
        method="blur", done="Blurred.", promise=nothing, outputs=(Output.of(path),), reviews=()
    )


def review_of(card: Card, **changes: Any) -> FrameReview:
    counts = {"recordings": 1, "frames": 500, "sampled": 60, "misses": 1, "unsure": 1}
    here = {"sampled_here": 60, "misses_here": 2, "draw": "0" * 32}
    return FrameReview(
        by="Jane Doe",
        at="2026-11-17T06:00:00+00:00",
        output=card.content,
        release=content_digest([card.content]),
        **{**counts, **here, **changes},
    )


@pytest.mark.parametrize("frames", [1, 7, 40])
def test_limit_holds_in_95_of_100_draws_without_replacement(frames: int) -> None:
    """By enumeration: whatever share of the frames shows somebody, and however many are drawn."""
    for sampled in range(1, frames + 1):
        seen = np.arange(sampled + 1)
        limits = np.array([share_at_most(int(misses), sampled) for misses in seen])
        for truth in range(frames + 1):
            chance = hypergeom(frames, truth, sampled).pmf(seen)
            assert chance[limits >= truth / frames - 1e-12].sum() >= 0.95 - 1e-9


@pytest.mark.parametrize("misses", [0, 1, 5, 59])
def test_limit_is_where_so_few_misses_have_a_chance_of_5_percent(misses: int) -> None:
    """Exact and one-sided: neither wider than it has to be, nor the limit of the other side."""
    limit = share_at_most(misses, 60)
    assert limit > misses / 60
    assert binom(60, limit).cdf(misses) == pytest.approx(0.05, rel=1e-6)


def test_everything_missed_bounds_nothing_and_zero_of_60_bounds_by_5_percent() -> None:
    assert share_at_most(60, 60) == 1
    assert 0.048 < share_at_most(0, 60) < 0.05


def test_card_says_that_nobody_looked_until_somebody_has(tmp_path: Path) -> None:
    card = card_of(tmp_path / "out.mp4")
    assert NOBODY_LOOKED in card.page
    seen = card.reviewed(review_of(card))
    assert NOBODY_LOOKED not in seen.page
    assert "Jane Doe looked on 2026-11-17 at 60 of 500 frames" in seen.page
    assert "left on 1, and on 1 it could not be told" in seen.page
    # two of 60 count, rounded up
    assert f"{100 * share_at_most(2, 60):.1f}" == "10.1"
    assert "at most 10.2 % of the frames" in seen.page
    trained = replace(card, reviews=None)
    assert "looked" not in trained.page


def test_reviews_add_up_and_none_is_replaced_or_counted_twice(tmp_path: Path) -> None:
    card = card_of(tmp_path / "out.mp4")
    once = card.reviewed(review_of(card))
    twice = once.reviewed(review_of(card, draw="1" * 32, misses=0, unsure=0, misses_here=0))
    assert [each.missed for each in twice.reviews or ()] == [2, 0]
    assert "the best of several" in twice.page
    with pytest.raises(SfumatoError, match="not on the card yet"):
        twice.reviewed(review_of(card, misses=0, misses_here=1))


def test_reviewed_card_is_read_back_and_verified(tmp_path: Path) -> None:
    card = card_of(tmp_path / "out.mp4")
    card.reviewed(review_of(card)).write(tmp_path / "out.mp4")
    assert read_card(tmp_path / "out.mp4").reviews == (review_of(card),)
    verified = verify_output(tmp_path / "out.mp4")
    assert verified.to_json()["reviews"][0]["share_at_most"] == share_at_most(2, 60)
    assert "Jane Doe" in verified.who_looked[0]


def test_review_of_another_output_is_refused(tmp_path: Path) -> None:
    one, other = card_of(tmp_path / "a.mp4"), card_of(tmp_path / "b.mp4", b"other")
    with pytest.raises(SfumatoError, match="another output"):
        other.reviewed(review_of(one))
    one.reviewed(review_of(one)).write(tmp_path / "a.mp4")
    other.write(tmp_path / "b.mp4")
    moved = json.loads(card_path(tmp_path / "b.mp4").read_text())
    moved["reviews"] = json.loads(card_path(tmp_path / "a.mp4").read_text())["reviews"]
    card_path(tmp_path / "b.mp4").write_text(json.dumps(moved))
    with pytest.raises(SfumatoError, match="another output"):
        read_card(tmp_path / "b.mp4")


@pytest.mark.parametrize(
    "change",
    [
        {"share_at_most": 0.001},
        {"share_at_most": True},
        {"confidence": 0.5},
        {"misses": 61},
        {"sampled": 501},
        {"sampled": 0},
        {"misses": -1},
        {"misses": 0.5},
        {"recordings": 0},
        {"misses_here": 3},
        {"by": "<b>nobody</b>"},
        {"by": ""},
        {"at": "yesterday"},
        {"draw": "mine"},
        {"extra": 1},
    ],
)
def test_stated_review_that_its_counts_do_not_give_is_refused(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    card = card_of(tmp_path / "out.mp4")
    card.reviewed(review_of(card)).write(tmp_path / "out.mp4")
    file = card_path(tmp_path / "out.mp4")
    stored = json.loads(file.read_text())
    stored["reviews"][0] |= change
    file.write_text(json.dumps(stored))
    with pytest.raises(SfumatoError):
        read_card(tmp_path / "out.mp4")


def test_name_of_whoever_looked_may_be_written_in_any_script(tmp_path: Path) -> None:
    card = card_of(tmp_path / "out.mp4")
    for name in ("Zoë O'Neill-Ångström", "王小明", "Dr. A. B. (lab 3)"):
        assert name in card.reviewed(replace(review_of(card), by=name)).page
    for name in ("a\nb", " a", "a|b", "x" * 81, "a/b"):
        with pytest.raises(ReviewError, match="--by NAME"):
            replace(review_of(card), by=name)


def test_card_of_version_2_is_read_as_signed_and_takes_its_first_review(tmp_path: Path) -> None:
    make_key(tmp_path / "key")
    card = card_of(tmp_path / "out.mp4")
    old = {name: value for name, value in card.to_json().items() if name != "reviews"}
    # what version 2 wrote: no word of who looked, neither on the card nor on its page
    page = replace(card, reviews=None).page
    old |= {"version": 2, "readable": hashlib.sha256(page.encode()).hexdigest()}
    signed = sign(Card.from_json(old), tmp_path / "key")
    signed.write(tmp_path / "out.mp4")
    card_path(tmp_path / "out.mp4").with_suffix(".md").write_text(page)
    assert json.loads(card_path(tmp_path / "out.mp4").read_text())["version"] == 2
    verified = verify_output(tmp_path / "out.mp4", signed=True)
    assert verified.card.reviews is None
    assert verified.who_looked == []
    seen = verified.card.reviewed(review_of(card))
    seen.write(tmp_path / "out.mp4", force=True)
    assert verify_output(tmp_path / "out.mp4").card.reviews == (review_of(card),)
    for name in ("reviews", "version"):
        spoiled = json.loads(card_path(tmp_path / "out.mp4").read_text())
        spoiled.pop(name)
        with pytest.raises(SfumatoError):
            Card.from_json(spoiled)
