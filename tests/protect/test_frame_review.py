"""Somebody looks at a release: which frames are drawn, what a page may hold, what is recorded."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import stat
from collections import Counter
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from red_faces import HEIGHT, WIDTH, RedFaces, draw_faces, moving_face

from sfumato import protect
from sfumato.errors import SfumatoError
from sfumato.jobs import name_list
from sfumato.media import VideoWriter, open_video
from sfumato.privacy import card_path, read_card, says_private, sign, verify_folder, verify_output
from sfumato.privacy._signature import make_key
from sfumato.protect._command import Request


def film(path: Path, count: int, start: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with VideoWriter(path, rate=25, size=(WIDTH, HEIGHT), codec="ffv1") as writer:
        for frame in moving_face(start + count)[start:]:
            writer.write(frame.image)
    return path


@pytest.fixture
def released(face_video: Path, tmp_path: Path) -> Path:
    """Twelve protected frames."""
    out = tmp_path / "out" / "out.mkv"
    method = protect.make("blur", {"detector": RedFaces(), "check": None})
    protect.release(method, face_video, out, output=protect.OutputSettings("ffv1"))
    return out


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three protected recordings of 3, 5 and 8 frames, each with its card."""
    for number, count in enumerate((3, 5, 8)):
        method = protect.make("blur", {"detector": RedFaces(), "check": None})
        source = film(tmp_path / "in" / f"{number}.mkv", count, start=3 * number)
        protect.release(
            method,
            source,
            tmp_path / "rel" / f"{number}.mkv",
            output=protect.OutputSettings("ffv1"),
        )
    return tmp_path / "rel"


def answered(release: Path, frames: int = 6, **some: str) -> dict[str, Any]:
    sample = protect.draw_review_sample(release, frames)
    left = ["no"] * len(sample.drawn)
    for place, answer in some.items():
        left[int(place.removeprefix("at"))] = answer
    return sample.answers(left)


def test_every_frame_of_every_recording_may_be_drawn_and_each_once(folder: Path) -> None:
    whole = protect.draw_review_sample(folder, 1000)
    assert [each.frames for each in whole.recordings] == [3, 5, 8]
    assert sorted(whole.drawn) == [(r, f) for r, n in enumerate((3, 5, 8)) for f in range(n)]
    few = protect.draw_review_sample(folder, 4)
    assert len(set(few.drawn)) == 4
    assert set(few.drawn) <= set(whole.drawn)


def test_draws_differ_and_favour_no_frame(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Uniform over the frames of the release, not over recordings: 8 of 16 lie in the longest."""
    monkeypatch.setattr(
        "sfumato.protect._frame_review._frame_count", lambda path: (3, 5, 8)[int(path.stem)]
    )
    draws = [protect.draw_review_sample(folder, 4) for _ in range(150)]
    assert len({each.draw for each in draws}) == 150
    counts = Counter(place for each in draws for place in each.drawn)
    assert len(counts) == 16
    # 600 draws, 37.5 a frame, standard deviation 5.3: nine of these are no chance
    assert max(abs(counts[place] - 37.5) for place in counts) < 9 * 5.3


def test_pictures_are_the_protected_frames_that_were_drawn(released: Path) -> None:
    sample = protect.draw_review_sample(released, 5)
    with open_video(released) as video:
        frames = [frame.image for frame in video]
    shown = list(protect.drawn_pictures(released, sample))
    assert len(shown) == 5
    for (_, number), picture in zip(sample.drawn, shown, strict=True):
        np.testing.assert_array_equal(picture, frames[number])


def test_page_shows_protected_frames_and_loads_nothing(
    released: Path, face_video: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    sample = protect.write_review_page(released, page, frames=5)
    text = page.read_text()
    assert says_private(page)
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    pictures = re.findall(r'src="data:image/jpeg;base64,([^"]+)"', text)
    assert len(pictures) == 5
    for coded, wanted in zip(pictures, protect.drawn_pictures(released, sample), strict=True):
        data = np.frombuffer(base64.b64decode(coded), np.uint8)
        decoded = cv2.imdecode(data, cv2.IMREAD_COLOR)[..., ::-1]
        assert np.abs(decoded.astype(int) - wanted).mean() < 6
    without = re.sub(r"data:image/jpeg;base64,[^\"]+", "", text)
    assert not re.search(r"https?:|//[a-z]|url\(|@import|<link|<iframe|<object|fetch\(", without)
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', text)
    assert "default-src &#39;none&#39;" in policy
    assert "unsafe" not in policy
    for kind, code in (("style", r"<style>(.*?)</style>"), ("script", r"<script>(.*?)</script>")):
        (inside,) = re.findall(code, text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{kind}-src &#39;sha256-{digest}&#39;" in policy
    assert sample.release in text


def test_page_holds_names_as_text_only(folder: Path, tmp_path: Path) -> None:
    wild = "<b onclick=x>&.mkv"
    source = folder / "0.mkv"
    method = protect.make("blur", {"detector": RedFaces(), "check": None})
    protect.release(method, source, tmp_path / "one" / wild, output=protect.OutputSettings("ffv1"))
    page = tmp_path / "page.html"
    protect.write_review_page(tmp_path / "one" / wild, page, frames=2)
    assert "<b onclick" not in page.read_text()


def test_page_may_not_lie_in_a_released_folder(folder: Path, released: Path) -> None:
    with pytest.raises(SfumatoError, match="outside the released folder"):
        protect.write_review_page(folder, folder / "page.html")
    name_list(folder).write_text("")
    with pytest.raises(SfumatoError, match="outside the released folder"):
        protect.write_review_page(folder / "0.mkv", folder / "page.html")
    protect.write_review_page(folder, folder.parent / "page.html", frames=2)
    protect.write_review_page(released, released.with_name("beside.html"), frames=2)
    with pytest.raises(SfumatoError, match="--force"):
        protect.write_review_page(released, released.with_name("beside.html"), frames=2)


def test_recorded_review_stands_on_the_card_and_verifies(released: Path) -> None:
    recorded = protect.record_review(released, answered(released, at0="yes"), by="Jane Doe")
    assert len(recorded.left) == 1
    (review,) = read_card(released).reviews or ()
    assert (review.sampled, review.misses, review.frames, review.by) == (6, 1, 12, "Jane Doe")
    assert verify_output(released).page == "agrees"
    protect.record_review(released, answered(released), by="Joe")
    assert [each.by for each in read_card(released).reviews or ()] == ["Jane Doe", "Joe"]
    assert verify_output(released).page == "agrees"


def test_unsure_counts_as_a_miss(released: Path) -> None:
    sure = protect.record_review(released, answered(released, at1="yes"), by="a").first
    unsure = protect.record_review(released, answered(released, at1="unsure"), by="b").first
    assert unsure.share_at_most == sure.share_at_most
    assert (unsure.misses, unsure.unsure) == (0, 1)


def test_answers_about_another_release_are_refused(released: Path, folder: Path) -> None:
    for other in (folder, folder / "1.mkv"):
        with pytest.raises(SfumatoError, match="this very release"):
            protect.record_review(released, answered(other, 3), by="Jane Doe")
    assert read_card(released).reviews == ()


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda a: a["answers"][0].update(left=None), "answer every frame"),
        (lambda a: a["answers"][0].update(left="maybe"), "answer every frame"),
        (lambda a: a["answers"].append(dict(a["answers"][0])), "one answer a frame"),
        (lambda a: a["answers"][0].update(frame=12), "frames of this release"),
        (lambda a: a["answers"][0].update(frame=-1), "frames of this release"),
        (lambda a: a["answers"][0].update(recording="other.mkv"), "frames of this release"),
        (lambda a: a["answers"].clear(), "something else"),
        (lambda a: a.update(version=2), "something else"),
        (lambda a: a.update(draw="x"), "digest as draw"),
        (lambda a: a["answers"][0].pop("frame"), "got less"),
    ],
)
def test_answers_that_are_not_whole_are_refused(released: Path, spoil: Any, sentence: str) -> None:
    answers = answered(released)
    spoil(answers)
    with pytest.raises(SfumatoError, match=sentence):
        protect.record_review(released, answers, by="Jane Doe")
    assert read_card(released).reviews == ()


def test_same_answers_are_recorded_once(released: Path) -> None:
    answers = answered(released)
    protect.record_review(released, answers, by="Jane Doe")
    with pytest.raises(SfumatoError, match="not on the card yet"):
        protect.record_review(released, answers, by="Another Name")
    assert len(read_card(released).reviews or ()) == 1


def test_changed_output_is_neither_drawn_nor_recorded(released: Path) -> None:
    answers = answered(released)
    released.write_bytes(released.read_bytes() + b"more")
    for attempt in (
        lambda: protect.draw_review_sample(released),
        lambda: protect.record_review(released, answers, by="Jane Doe"),
    ):
        with pytest.raises(SfumatoError, match="changed"):
            attempt()


def test_signed_card_needs_its_own_key_and_stays_signed(released: Path, tmp_path: Path) -> None:
    make_key(tmp_path / "key")
    make_key(tmp_path / "other")
    sign(read_card(released), tmp_path / "key").write(released, force=True)
    answers = answered(released)
    for key in (None, tmp_path / "other"):
        with pytest.raises(SfumatoError, match="--sign KEY"):
            protect.record_review(released, answers, by="Jane Doe", sign_with=key)
    before = verify_output(released, signed=True).signer
    protect.record_review(released, answers, by="Jane Doe", sign_with=tmp_path / "key")
    assert verify_output(released, key=tmp_path / "key.pub", signed=True).signer == before
    forged = json.loads(card_path(released).read_text())
    forged["reviews"] = []
    card_path(released).write_text(json.dumps(forged))
    with pytest.raises(SfumatoError, match="signature does not fit"):
        verify_output(released)


def test_folder_is_one_release_and_every_card_says_so(folder: Path) -> None:
    recorded = protect.record_review(folder, answered(folder, 16, at2="yes"), by="Jane Doe")
    reviews = [(read_card(folder / f"{n}.mkv").reviews or ())[0] for n in range(3)]
    assert [each.sampled_here for each in reviews] == [3, 5, 8]
    assert [each.misses_here for each in reviews] == [1, 0, 0]
    assert {(each.sampled, each.misses, each.frames, each.recordings) for each in reviews} == {
        (16, 1, 16, 3)
    }
    assert recorded.left == (("0.mkv", 2),)
    verified = verify_folder(folder)
    assert verified.agree
    assert len(verified.who_looked) == 1
    # the limit is one for the whole folder, and no longer when some of it is gone
    for path in folder.glob("2.mkv*"):
        path.unlink()
    assert any("another set of recordings" in each for each in verify_folder(folder).who_looked)


def test_reviewed_folder_can_go_on_where_its_job_stopped(tmp_path: Path) -> None:
    """What a review writes is the job's own output: files that come later are protected as before."""
    settings = {"method": "pixelate", "settings": {"region": _mask(tmp_path), "check": False}}
    film(tmp_path / "in" / "a.mkv", 3)
    request = Request(
        source=tmp_path / "in", target=tmp_path / "rel", codec="ffv1", workers=1, **settings
    )
    assert protect.run(request, None, lambda sentence: None).failed == 0
    protect.record_review(tmp_path / "rel", answered(tmp_path / "rel", 2), by="Jane Doe")
    dates = {path.stat().st_mtime for path in (tmp_path / "rel").rglob("*") if path.is_file()}
    assert len(dates) == 1, "an order of writing tells the order of the originals"
    film(tmp_path / "in" / "b.mkv", 4, start=2)
    again = protect.run(request, None, lambda sentence: None)
    assert again.failed == 0
    assert len(again.outputs) == 2
    assert sum(bool(read_card(path).reviews) for path in again.outputs) == 1


def _mask(folder: Path) -> str:
    from sfumato.media import write_image

    path = folder / "mask.png"
    write_image(path, np.where(draw_faces([(5, 10)]) > 200, 255, 0).astype(np.uint8))
    return str(path)


def test_only_recordings_can_be_looked_at(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(SfumatoError, match="no card"):
        protect.draw_review_sample(tmp_path / "empty")
    with pytest.raises(SfumatoError, match="at least one frame"):
        protect.draw_review_sample(tmp_path / "empty", 0)
