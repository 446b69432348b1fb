"""Undoing a protection: a known blur comes back, means beat noise drawn anew, a cover keeps its own."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from sfumato import people, protect
from sfumato.audit import AuditError, MeasureError, find_leaks
from sfumato.audit.attack import (
    FittingBlur,
    FixedBlur,
    Squares,
    averaged,
    averaged_near,
    changed_places,
    cover_matrix,
    deblurred,
    gathered,
    halo,
    learned,
    reconstruct,
    tikhonov,
    undo_frames,
)
from sfumato.cli.audit import app
from sfumato.media import Frame, VideoWriter, write_image
from sfumato.privacy import read_card, says_private
from sfumato.protect.hide import Place


def scene(height: int = 48, width: int = 64, seed: int = 0) -> Any:
    """Smooth colours with a few edges, as pictures have them."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (height // 6, width // 6, 3)).astype(np.uint8)
    picture = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
    cv2.circle(picture, (width // 2, height // 2), height // 4, (200, 160, 120), -1)
    cv2.circle(picture, (width // 2 - 5, height // 2 - 3), 2, (20, 20, 20), -1)
    cv2.circle(picture, (width // 2 + 5, height // 2 - 3), 2, (20, 20, 20), -1)
    return picture


def psnr(a: Any, b: Any) -> float:
    return float(10 * np.log10(255**2 / np.mean((a.astype(float) - b) ** 2)))


def test_tikhonov_solves_its_least_squares_problem() -> None:
    """Against the large linear system, solved as one, with the prior as a matrix of its own."""
    picture, weight, cover = scene(12, 14), 1e-3, FixedBlur(5, 2.0)
    blurred = cv2.GaussianBlur(picture, (5, 5), 2.0)
    whole = np.kron(*(cover.along(n, 12) for n in picture.shape[:2]))
    apart = [np.abs(np.subtract.outer(np.arange(n), np.arange(n))) for n in picture.shape[:2]]
    prior = np.linalg.inv(np.kron(*(0.97**each for each in apart)))
    for channel in range(3):
        mean = blurred[..., channel].mean()
        seen = blurred[..., channel].astype(float).ravel() - mean
        slow = np.linalg.solve(whole.T @ whole + weight * prior, whole.T @ seen) + mean
        fast = tikhonov(blurred, cover, weight)[..., channel].ravel()
        np.testing.assert_allclose(fast, np.clip(np.rint(slow), 0, 255), atol=1)


@pytest.mark.parametrize(
    ("name", "settings", "kind"),
    [
        ("blur", {"strength": 0.2}, FittingBlur),
        ("blur", {"published": True}, FixedBlur),
        ("pixelate", {"cells": 5}, Squares),
    ],
)
@pytest.mark.parametrize("size", [(60, 44), (20, 31)])
def test_a_cover_is_its_two_matrices(
    name: str, settings: dict[str, Any], kind: type, size: tuple[int, int]
) -> None:
    method = protect.make(name, settings)
    cover = cover_matrix(method)
    assert cover is not None
    assert isinstance(cover, kind)
    picture: Any = cv2.resize(scene(), size[::-1])
    made = method.make_filter(protect.Shape(*size, 1))(  # type: ignore[attr-defined]
        picture.copy(), Place(np.ones(size, dtype=bool), False)
    )
    rows, columns = (cover.along(length, min(size)) for length in size)
    for channel in range(3):
        np.testing.assert_allclose(
            rows @ picture[..., channel] @ columns.T, made[..., channel], atol=2
        )


def test_a_blur_of_known_kernel_comes_back() -> None:
    """G5: an 8-bit blur is far from one-way."""
    clear = scene(96, 96)
    blurred = cv2.GaussianBlur(clear, (21, 21), 10.0)
    back = tikhonov(blurred, FixedBlur(21, 10.0))
    assert psnr(back, clear) > psnr(blurred, clear) + 2.5
    (found,) = reconstruct(clear[None], blurred[None], {"deblur": deblurred()})
    assert found.gain > 1
    assert found.ssim[1] > found.ssim[0]


def test_what_lies_around_an_outline_helps_to_undo_what_is_inside() -> None:
    clear = scene(96, 96)
    mask = np.zeros((96, 96), dtype=bool)
    cv2.ellipse(mask.view(np.uint8), (48, 48), (30, 40), 0, 0, 360, 1, -1)
    method = protect.make("blur", {"published": True, "region": "people"})
    cover = method.make_filter(protect.Shape(96, 96, 1))  # type: ignore[attr-defined]
    shown = cover(clear.copy(), Place(mask, False))
    found, _ = undo_frames(clear[None], shown[None], method, attacks=["deblur"], places=mask[None])
    assert found[0].attack == "Tikhonov inversion"
    assert found[0].gain > 2


def test_squares_become_a_smooth_picture() -> None:
    clear = scene(60, 60)
    method = protect.make("pixelate", {"cells": 8})
    cover = method.make_filter(protect.Shape(60, 60, 1))  # type: ignore[attr-defined]
    whole = np.ones((60, 60), dtype=bool)
    shown = cover(clear.copy(), Place(whole, False))
    found, _ = undo_frames(clear[None], shown[None], method, attacks=["deblur"], places=whole[None])
    assert found[0].gain > 1


def test_the_mean_over_time_takes_away_noise_drawn_anew() -> None:
    clear = np.repeat(scene()[None], 16, axis=0)
    noise = np.random.default_rng(0).normal(0, 40, clear.shape)
    noisy = np.clip(clear + noise, 0, 255).astype(np.uint8)
    (found,) = reconstruct(clear, noisy, {"mean": averaged})
    # sixteen independent draws: twelve decibel, less what clipping keeps
    assert 5 < found.gain < 13
    (near,) = reconstruct(clear, noisy, {"near": averaged_near})
    assert 3 < near.gain < found.gain, "five draws take away less than sixteen"
    once = np.repeat(noisy[:1], 16, axis=0)
    (same,) = reconstruct(clear, once, {"mean": averaged})
    assert abs(same.gain) < 0.5, "noise that is drawn once stays"


def test_snow_melts_when_frames_are_gathered() -> None:
    clear = np.repeat(scene()[None], 12, axis=0)
    method = protect.make("snow", {"unit": "pixels(1, frames=1)", "p": 0.7, "seed": 1})
    shape = protect.Shape(48, 64, 12)
    stream = method.transform((Frame(p, n, Fraction(n)) for n, p in enumerate(clear)), shape)
    snowed = np.stack([frame.image for frame in stream])
    everywhere = np.ones(clear.shape[:3], dtype=bool)
    (found,) = reconstruct(clear, snowed, {"gather": gathered}, masks=everywhere)
    assert found.gain > 10


def test_a_learned_inverse_beats_the_squares_on_pictures_it_never_saw() -> None:
    mask = np.ones((48, 48), dtype=bool)

    def squares(picture: Any) -> Any:
        small = cv2.resize(picture, (12, 12), interpolation=cv2.INTER_AREA)
        return cv2.resize(small, (48, 48), interpolation=cv2.INTER_NEAREST)

    public = [scene(48, 48, seed) for seed in range(1, 9)]
    clear = scene(48, 48, 99)
    for at_places in (True, False):
        undo = learned(
            [(each, squares(each), mask) for each in public], steps=60, at_places=at_places
        )
        (found,) = reconstruct(
            clear[None], squares(clear)[None], {"learned": undo}, masks=mask[None]
        )
        assert found.gain > 0.5
    with pytest.raises(MeasureError, match="public"):
        learned([])


def test_a_flat_cover_gives_no_pixel_back_but_shows_its_outline() -> None:
    rng = np.random.default_rng(0)
    room: Any = cv2.resize(rng.integers(0, 256, (6, 8, 3)).astype(np.uint8), (64, 48))
    clear: Any = np.repeat(room[None], 9, axis=0)
    covered = clear.copy()
    erased = covered.copy()
    for time in range(9):
        place = np.s_[time, 12:36, 4 + 5 * time : 16 + 5 * time]
        clear[place] = rng.integers(0, 256, (24, 12, 3))
        covered[place] = 96
    assert halo(clear, covered) > 0.9
    assert halo(clear, erased) == pytest.approx(0.5, abs=0.1)
    (found,) = reconstruct(clear, covered, {"mean": averaged})
    assert found.ssim[1] < 0.5


def test_changed_places_are_where_pixels_differ() -> None:
    clear = np.repeat(scene()[None], 2, axis=0)
    shown = clear.copy()
    shown[1, 10:20, 10:20] += 50
    places = changed_places(clear, shown)
    assert not places[0].any()
    assert places[1, 10:20, 10:20].all()
    assert places[1].sum() <= 144
    with pytest.raises(MeasureError, match="differ"):
        reconstruct(clear, clear, {})


def test_a_codec_alone_changes_no_place() -> None:
    clear = np.repeat(scene(120, 160)[None], 2, axis=0)
    noise = np.random.default_rng(0).integers(-6, 7, clear.shape)
    coded = np.clip(clear.astype(int) + noise, 0, 255).astype(np.uint8)
    coded[1, 30:90, 40:100] = 128
    places = changed_places(clear, coded, coded=True)
    assert not places[0].any()
    assert places[1, 35:85, 45:95].all()
    assert places[1].sum() < 1.3 * 60 * 60


def test_the_card_tells_how_it_was_covered(tmp_path: Path) -> None:
    write_image(tmp_path / "in.png", scene())
    for settings, kind in (({"published": True}, FixedBlur), ({"strength": 0.4}, FittingBlur)):
        method = protect.make(
            "blur", {**settings, "region": "faces", "detector": RedSpots(), "check": False}
        )
        target = tmp_path / f"{kind.__name__}.png"
        protect.release(method, tmp_path / "in.png", target)
        assert cover_matrix(protect.from_card(read_card(target))) == cover_matrix(method)
        assert isinstance(cover_matrix(method), kind)


class RedSpots:
    """Finds red as a face: a detector whose answers are known."""

    name, device = "red", "none"

    def detect(self, image: Any) -> list[people.Box]:
        red = (image[..., 0] > 180) & (image[..., 1] < 80)
        count, _, stats, _ = cv2.connectedComponentsWithStats(red.astype(np.uint8))
        return [
            people.Box(float(x), float(y), float(x + w), float(y + h), 0.9)
            for x, y, w, h, area in stats[1:count]
            if area > 200
        ]


def write(path: Path, spots: list[int | None]) -> Path:
    with VideoWriter(path, rate=Fraction(10), size=(64, 48), codec="ffv1") as writer:
        for left in spots:
            picture = np.full((48, 64, 3), 90, dtype=np.uint8)
            if left is not None:
                picture[10:30, left : left + 14] = (230, 20, 20)
            writer.write(picture)
    return path


def test_people_who_are_left_are_listed_with_their_place(tmp_path: Path) -> None:
    original = write(tmp_path / "in.mkv", [5, 5, 5, 5])
    output = write(tmp_path / "out.mkv", [None, 5, 45, None])
    found = find_leaks(output, original, faces=RedSpots(), bodies=False)
    assert found.leaking
    assert [(leak.frame, leak.there_before) for leak in found.leaks] == [(1, True), (2, False)]
    assert found.leaks[0].box == pytest.approx((5, 10, 19, 30), abs=1)
    assert found.residual.compute().value == 0.25
    assert len(found.thumbnails) == 1
    assert found.sheet() is not None
    alone = find_leaks(output, faces=RedSpots(), bodies=False)
    assert [leak.there_before for leak in alone.leaks] == [None, None]
    clean = find_leaks(
        write(tmp_path / "clean.mkv", [None] * 4), original, faces=RedSpots(), bodies=False
    )
    assert not clean.leaking
    assert clean.sheet() is None
    with pytest.raises(AuditError, match="frames"):
        find_leaks(write(tmp_path / "short.mkv", [None]), original, faces=RedSpots(), bodies=False)


def test_thumbnails_show_the_output_and_never_the_original(tmp_path: Path) -> None:
    original, output = tmp_path / "in.png", tmp_path / "out.png"
    picture = np.full((48, 64, 3), 90, dtype=np.uint8)
    picture[10:30, 5:19] = (230, 20, 20)
    marked = picture.copy()
    marked[40:, 40:] = (0, 255, 0)
    write_image(original, marked)
    write_image(output, picture)
    (thumbnail,) = find_leaks(output, original, faces=RedSpots(), bodies=False).thumbnails
    assert not (thumbnail[..., 1] > 200).any()


def test_leaks_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(people, "face_detector", lambda *a, **k: RedSpots())
    originals, outputs = tmp_path / "originals", tmp_path / "outputs"
    originals.mkdir()
    outputs.mkdir()
    write(originals / "a.mkv", [5, 5])
    write(outputs / "a.mkv", [None, 5])
    arguments = ["leaks", str(outputs), "--originals", str(originals), "--faces-only", "--json"]
    found = CliRunner().invoke(app, arguments)
    assert found.exit_code == 1, found.output
    told = json.loads(found.stdout)
    assert told["leaks"][0]["frame"] == 1
    assert str(tmp_path) not in found.stdout
    assert sorted(path.name for path in outputs.iterdir()) == ["a.mkv"]
    assert (tmp_path / "outputs.leaks.measures.json").is_file()
    assert says_private(tmp_path / "outputs.leaks.png")


def test_reconstruct_on_the_command_line(tmp_path: Path) -> None:
    original, output = tmp_path / "in.mkv", tmp_path / "out.mkv"
    with VideoWriter(original, rate=Fraction(10), size=(64, 48), codec="ffv1") as writer:
        for _ in range(8):
            writer.write(scene())
    settings = {"epsilon": 200.0, "unit": "pixels(1, frames=1)", "seed": 1}
    protect.release(
        protect.make("laplace", settings), original, output,
        output=protect.OutputSettings(codec="ffv1"),
    )  # fmt: skip
    found = CliRunner().invoke(
        app, ["reconstruct", str(original), str(output), "--method", "average", "--json"]
    )
    assert found.exit_code == 0, found.output
    told, _ = json.loads(found.stdout)["attacks"]
    assert told["gain_decibel"] > 2
    assert (tmp_path / "out.mkv.reconstruct.measures.json").is_file()


class Brightness:
    """Who somebody is, by how bright their face is."""

    name, device, same_person = "brightness", "none", 12.0

    def embed(self, image: Any, face: people.Box) -> Any:
        return image[face.pixels(image.shape[1], image.shape[0])].reshape(-1, 3).mean(0)


def test_faces_that_come_back_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise hides a red face from a detector; its mean over time shows it again."""
    monkeypatch.setattr(people, "face_detector", lambda *a, **k: RedSpots())
    monkeypatch.setattr(people, "face_embedder", lambda *a, **k: Brightness())
    original, output = write(tmp_path / "in.mkv", [5] * 32), tmp_path / "out.mkv"
    settings = {"epsilon": 8.0, "unit": "pixels(1, frames=1)", "seed": 1}
    protect.release(
        protect.make("laplace", settings), original, output,
        output=protect.OutputSettings(codec="ffv1"),
    )  # fmt: skip
    found = CliRunner().invoke(
        app, ["reconstruct", str(original), str(output), "--method", "average", "--faces", "--json"]
    )
    assert found.exit_code == 0, found.output
    whole = json.loads(found.stdout)["attacks"][0]
    assert whole["attack"] == "mean over time"
    assert whole["faces_in_originals"] == 8
    assert whole["faces_found"] == [0, 8]
    assert whole["faces_recognised"][0] == 0
    written = json.loads((tmp_path / "out.mkv.reconstruct.measures.json").read_text())
    assert any("faces recognised" in each["name"] for each in written["measures"])
