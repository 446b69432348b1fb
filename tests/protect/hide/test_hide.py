"""Methods that hide: every place is covered on every frame, or nothing is released."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from red_faces import HEIGHT, WIDTH, RedFaces, RedPeople, draw_faces, moving_face

from sfumato import people
from sfumato.errors import SfumatoError
from sfumato.media import Frame, open_video
from sfumato.privacy import NoGuarantee, read_card
from sfumato.protect import OutputSettings, Shape, StillVisibleError, make, methods, release
from sfumato.protect.hide import (
    AppearanceFree,
    Blur,
    Edges,
    InverseSuperResolution,
    Pixelate,
    Selective,
    Silhouette,
)

LOSSLESS = OutputSettings(codec="ffv1")


def hiding(kind: type[Any], **changes: Any) -> Any:
    detector = RedPeople() if kind in (Silhouette, Selective) else RedFaces()
    return kind(**({"detector": detector, "check": RedFaces("other")} | changes))


def stack(frames: Any) -> Any:
    return np.stack([frame.image for frame in frames])


ALL = pytest.mark.parametrize("kind", [Blur, Pixelate, Silhouette, Selective])


@ALL
def test_every_face_is_covered_and_the_rest_is_untouched(kind: type[Any]) -> None:
    frames = moving_face(12)
    before = stack(frames)
    after = stack(hiding(kind, seed=1).frames(frames))
    assert after.shape == before.shape
    np.testing.assert_array_equal(before, stack(moving_face(12)), "the input is not written into")
    changed = (before != after).any(axis=-1)
    for number, frame in enumerate(frames):
        assert RedFaces().detect(frame.image)
        assert not RedFaces().detect(after[number])
        face = (slice(10, 22), slice(5 + number, 17 + number))
        assert changed[number][face].mean() > 0.9
    assert not changed[:, 36:].any()
    assert not changed[:, :, 40:].any()


@ALL
def test_a_face_missed_on_single_frames_is_covered_there_too(kind: type[Any]) -> None:
    """The leak that made users write: a face open for one frame."""

    class Blinking(RedPeople):
        looks = 0

        def segment(self, image: Any) -> Any:
            self.looks += 1
            found = super().segment(image)
            return np.zeros_like(found) if self.looks in (5, 6, 9) else found

    blind = RedFaces(blind=(4, 5, 8))
    detector = Blinking() if kind in (Silhouette, Selective) else blind
    method = hiding(kind, detector=detector, check=None)
    for image in stack(method.frames(moving_face(12))):
        assert not RedFaces().detect(image)
    spans = [span for stream in method.region.streams for span in stream.review.spans]
    assert any(span.reason == "bridged" for span in spans)


def test_what_the_first_detector_never_sees_the_second_one_covers() -> None:
    method = hiding(Blur, detector=RedFaces(blind=range(100)))
    for image in stack(method.frames(moving_face(4))):
        assert not RedFaces().detect(image)


@pytest.mark.parametrize(("on_miss", "blank"), [("hold", False), ("blank", True)])
def test_policy_for_a_missed_frame(on_miss: str, blank: bool) -> None:
    method = hiding(Blur, detector=RedFaces(blind=(4,)), on_miss=on_miss)
    out = stack(method.frames(moving_face(8)))
    assert (out[4] == 128).all() == blank
    assert not (out[3] == 128).all()


def test_policy_fail_raises() -> None:
    method = hiding(Blur, detector=RedFaces(blind=(4,)), on_miss="fail")
    with pytest.raises(people.MissedPersonError, match="frame 4"):
        list(method.frames(moving_face(8)))


class Stubborn(RedFaces):
    """Sees a face where it was, whatever is done about it."""

    def detect(self, image: Any) -> list[people.Box]:
        return [people.Box(5, 10, 17, 22, 0.9, self.name)]


class Restless(RedFaces):
    """Sees a face in another place whenever it has looked at the recording once."""

    def detect(self, image: Any) -> list[people.Box]:
        self.looks += 1
        x = 5 + 2 * (self.looks // 26)
        return [people.Box(x, 30, x + 12, 42, 0.9, self.name)]


def test_nothing_is_released_if_a_face_is_left(face_video: Path, tmp_path: Path) -> None:
    method = hiding(Blur, check=Restless("late"))
    with pytest.raises(StillVisibleError, match=r"frame \d+ .* late .*Nothing was released"):
        release(method, face_video, tmp_path / "out" / "a.mkv", output=LOSSLESS)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_place_of_one_colour_is_no_face_whatever_is_seen_in_it(
    face_video: Path, tmp_path: Path
) -> None:
    """Detectors guess a head above shoulders; a place without detail shows nobody."""
    release(hiding(Blur, check=Stubborn("late")), face_video, tmp_path / "a.mkv", output=LOSSLESS)
    with open_video(tmp_path / "a.mkv") as video:
        for frame in video:
            place = frame.image[13:19, 8:14].reshape(-1, 3)
            assert (place == place[0]).all()


def test_a_face_that_the_codec_brings_back_is_covered_by_another_try(
    face_video: Path, tmp_path: Path
) -> None:
    """Nobody sees anything while the file is made the first time; afterwards one frame is seen."""
    blind = [*range(12), *range(14, 200)]  # it looks at the output, then at the original
    method = hiding(Blur, detector=RedFaces(blind=range(100)), check=RedFaces("late", blind))
    release(method, face_video, tmp_path / "a.mkv", output=LOSSLESS)
    with open_video(tmp_path / "a.mkv") as video:
        seen = [bool(RedFaces().detect(frame.image)) for frame in video]
    assert seen[:2] == [False, False]
    assert all(seen[2:]), "only what was seen is covered anew"


class CountedPeople(RedPeople):
    looks = 0

    def segment(self, image: Any) -> Any:
        self.looks += 1
        return super().segment(image)


def test_another_try_covers_what_the_first_one_found(face_video: Path, tmp_path: Path) -> None:
    """People are searched for once, however often the file is made."""
    people_, frames = CountedPeople(), 12
    method = hiding(Silhouette, detector=people_, check=Restless("late"))
    with pytest.raises(StillVisibleError):
        release(method, face_video, tmp_path / "a.mkv", output=LOSSLESS)
    assert people_.looks == frames


def test_what_was_found_in_one_recording_is_not_covered_in_another(
    face_video: Path, tmp_path: Path
) -> None:
    """A run that failed leaves boxes behind: the next recording is searched all the same."""
    method = hiding(Blur, check=Restless("late"))
    with pytest.raises(StillVisibleError):
        release(method, face_video, tmp_path / "a.mkv", output=LOSSLESS)
    method.check = None
    frames = [Frame(draw_faces([(40, 30)]), number, Fraction(number, 25)) for number in range(12)]
    for image in stack(method.frames(frames)):
        assert not RedFaces().detect(image)


def test_one_search_serves_several_methods() -> None:
    frames, people_ = moving_face(12), CountedPeople()
    first = hiding(Silhouette, detector=people_)
    list(first.frames(frames))
    second = hiding(Selective, detector=people_, seed=1)
    second.reuse_detections(first.detection_log)
    out = stack(second.frames(frames))
    assert people_.looks == 12
    for image, (_, one), (_, other) in zip(
        out, first.places(frames), second.places(frames), strict=True
    ):
        assert not RedFaces().detect(image)
        np.testing.assert_array_equal(one.mask, other.mask)


def test_what_was_left_in_one_recording_is_not_filled_in_the_next_one_followed(
    face_video: Path, tmp_path: Path
) -> None:
    method, other, frames = hiding(Blur, check=Restless("late")), hiding(Blur), moving_face(12)
    with pytest.raises(StillVisibleError):
        release(method, face_video, tmp_path / "a.mkv", output=LOSSLESS)
    list(other.frames(frames))
    method.check, fresh = None, hiding(Blur, check=None)
    for each in (method, fresh):
        each.reuse_detections(other.detection_log)
    np.testing.assert_array_equal(stack(method.frames(frames)), stack(fresh.frames(frames)))


def test_a_face_that_only_the_output_shows_does_not_count(face_video: Path, tmp_path: Path) -> None:
    """The check asks for original faces: what a cover looks like is nobody's face."""

    class Ghost(RedFaces):
        def detect(self, image: Any) -> list[people.Box]:
            self.looks += 1
            return [people.Box(50, 40, 60, 47)] if self.looks % 2 and self.looks > 36 else []

    release(hiding(Blur, check=Ghost()), face_video, tmp_path / "a.mkv", output=LOSSLESS)
    assert (tmp_path / "a.mkv").exists()


def test_released_file_has_every_frame_and_a_card_without_promises(
    face_video: Path, tmp_path: Path
) -> None:
    target = tmp_path / "a.mkv"
    promise = release(hiding(Pixelate), face_video, target, output=LOSSLESS)
    assert isinstance(promise, NoGuarantee)
    assert set(people.NOT_COVERED) < set(promise.not_covered)
    assert read_card(target).promise == promise
    with open_video(face_video) as before, open_video(target) as after:
        assert before.info.rate == after.info.rate
        assert [frame.time for frame in before] == [frame.time for frame in after]


def test_switching_the_check_off_is_said() -> None:
    promise = hiding(Blur, check=False).promise(Shape(HEIGHT, WIDTH))
    assert any("switched off" in sentence for sentence in promise.assumptions)


def test_blur_grows_with_the_face_and_the_published_one_does_not() -> None:
    """Detail left inside a large face: much under kernel 21, next to none by default."""
    generator = np.random.default_rng(0)
    image = np.full((200, 200, 3), 90, np.uint8)
    coarse = generator.integers(0, 2, (6, 6, 1)) * 200
    image[20:180, 20:180] = np.kron(coarse, np.ones((27, 27, 3)))[:160, :160]

    class Whole:
        name, device = "whole", "test"

        def detect(self, picture: Any) -> list[people.Box]:
            return [people.Box(20, 20, 180, 180)]

    frame = Frame(image, 0, Fraction(0))
    spread = {}
    for published in (False, True):
        method = Blur(detector=Whole(), check=None, published=published)
        (out,) = method.frames([frame])
        spread[published] = float(out.image[40:160, 40:160].std())
    assert spread[False] < 0.3 * spread[True]
    assert method.settings["kernel"] == 21
    assert method.settings["sigma"] == 10


def test_pixelate_keeps_a_few_flat_squares() -> None:
    (out,) = hiding(Pixelate, cells=2, least=1).frames(
        [Frame(draw_faces([(20, 20)]), 0, Fraction(0))]
    )
    colours = np.unique(out.image[22:30, 22:30].reshape(-1, 3), axis=0)
    assert 1 <= len(colours) <= 4


def test_silhouette_is_one_colour() -> None:
    (out,) = hiding(Silhouette, level=7).frames([Frame(draw_faces([(20, 20)]), 0, Fraction(0))])
    assert (out.image[20:32, 20:32] == 7).all()


def test_isr_shows_no_more_than_its_tiny_picture_and_turns_each_recording_anew() -> None:
    frames = moving_face(3)
    one = stack(InverseSuperResolution(size="8x6").frames(frames))
    two = stack(InverseSuperResolution(size="8x6").frames(frames))
    assert not np.array_equal(one, two)
    for image in one:
        assert (image.reshape(6, 8, 8, 8, 3) == image[::8, ::8].reshape(6, 1, 8, 1, 3)).all()
    still = stack(InverseSuperResolution(size="8x6", shift=0, scale=0, rotation=0).frames(frames))
    mean = frames[0].image.reshape(6, 8, 8, 8, 3).mean(axis=(1, 3))
    np.testing.assert_allclose(still[0][::8, ::8], mean, atol=1)
    with pytest.raises(SfumatoError, match="choose a smaller size"):
        list(InverseSuperResolution(size="320x240").frames(frames))


def test_appearance_free_is_noise_that_follows_the_motion() -> None:
    """One frame says nothing about the picture; the next one is the same noise, moved along."""
    generator = np.random.default_rng(3)
    coarse = generator.integers(0, 256, (24, 44, 3)).astype(np.uint8)
    scene = np.kron(coarse, np.ones((4, 4, 1), np.uint8))
    frames = [Frame(scene[:, 3 * n : 3 * n + 96].copy(), n, Fraction(n, 25)) for n in range(2)]
    first, second = (frame.image for frame in AppearanceFree().frames(frames))
    assert abs(np.corrcoef(first.ravel(), frames[0].image.ravel())[0, 1]) < 0.05
    inner = (slice(16, 80), slice(16, 64))
    moved = (slice(16, 80), slice(19, 67))
    assert (second[inner] == first[moved]).mean() > 0.5
    assert (second[inner] == first[inner]).mean() < 0.2


def test_selective_is_that_noise_inside_and_the_recording_outside() -> None:
    frames = moving_face(6)
    out = stack(hiding(Selective, seed=1).frames(frames))
    inside = np.s_[:, 12:20, 12:14]
    assert np.abs(np.corrcoef(out[inside].ravel(), stack(frames)[inside].ravel())[0, 1]) < 0.4


def test_edges_draw_lines_and_nothing_else() -> None:
    (out,) = Edges().frames([Frame(draw_faces([(20, 20)]), 0, Fraction(0))])
    assert set(np.unique(out.image)) == {0, 255}
    flat = Frame(np.full((48, 64, 3), 80, np.uint8), 0, Fraction(0))
    (empty,) = Edges().frames([flat])
    assert (empty.image == 255).all()


def test_streams_declare_how_far_they_look_ahead() -> None:
    """No method holds back more frames than it says."""
    for kind in (Blur, Silhouette, Edges, AppearanceFree, InverseSuperResolution):
        method = hiding(kind) if issubclass(kind, Blur | Silhouette) else kind()
        if isinstance(method, InverseSuperResolution):
            method.size = (8, 6)
        taken = 0

        def counted() -> Any:
            nonlocal taken
            for frame in moving_face(40):
                taken += 1
                yield frame

        stream = method.frames(counted())
        for given, _ in enumerate(stream, start=1):
            assert taken - given <= stream.lookahead


def test_every_method_says_what_it_is() -> None:
    for name, kind in methods().items():
        assert kind.name == name
        assert kind.summary
        assert kind.provides
        assert "uarantee" in (kind.__doc__ or ""), name


def test_settings_reach_the_method_and_unknown_ones_are_named() -> None:
    made = make("blur", {"strength": 0.5, "region": "people", "on_miss": "blank"})
    assert isinstance(made, Blur)
    assert made.region.kind == "people"
    with pytest.raises(SfumatoError, match="'colour': there is no such setting"):
        make("blur", {"colour": 1})
    with pytest.raises(SfumatoError, match="hold, blank, fail"):
        make("blur", {"on_miss": "ignore"})
