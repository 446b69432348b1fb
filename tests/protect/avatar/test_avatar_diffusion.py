"""Refining avatars: real models of diffusers, tiny and random; nothing private enters them."""

from __future__ import annotations

import copy
import functools
import json
import random
import sys
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from device_check import CUDA, FakeCuda
from sfumato.body import cast_of, draw, rest_motion
from sfumato.devices import using
from sfumato.media import VideoWriter
from sfumato.privacy import card_path
from sfumato.protect import ProtectError
from sfumato.protect.avatar import Avatar, Known, Scene, Track, read_layers
from sfumato.protect.avatar._conditions import DrawnBody, condition, over_grey
from sfumato.protect.avatar._diffusion import (
    Refinement,
    Refiner,
    crop,
    frame_sets,
    tubelets,
    windows,
)
from sfumato.stage import Clip, Staging, clips

_LIBRARIES: list[Any] = []


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A Stable Diffusion, a motion adapter and three ControlNets, each of a few thousand weights."""
    pytest.importorskip("diffusers", reason="diffusers is not installed: sfumato[diffusion]")
    pytest.importorskip("transformers", reason="transformers is not installed: sfumato[diffusion]")
    try:
        torch.ops.torchvision.nms  # noqa: B018  (raises when the operator is not there)
    except AttributeError:
        # transformers imports torchvision, whose operators do not load beside a CPU torch
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _LIBRARIES.append(library)
    import diffusers
    import transformers

    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("models")
    base = folder / "tiny-base"
    blocks = {
        "block_out_channels": (8, 8),
        "layers_per_block": 1,
        "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
        "cross_attention_dim": 8,
        "attention_head_dim": 2,
    }
    diffusers.UNet2DConditionModel(
        sample_size=8,
        norm_num_groups=2,
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        **blocks,
    ).save_pretrained(base / "unet")
    diffusers.AutoencoderKL(
        block_out_channels=(8, 8), latent_channels=4, norm_num_groups=2,
        down_block_types=["DownEncoderBlock2D"] * 2, up_block_types=["UpDecoderBlock2D"] * 2,
    ).save_pretrained(base / "vae")  # fmt: skip
    diffusers.DDIMScheduler(beta_schedule="linear").save_pretrained(base / "scheduler")
    words = ["<|startoftext|>", "<|endoftext|>"]
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    vocabulary = [*letters, *(f"{letter}</w>" for letter in letters), ",", ",</w>", *words]
    (base / "tokenizer").mkdir(parents=True)
    table = {word: number for number, word in enumerate(vocabulary)}
    (base / "tokenizer" / "vocab.json").write_text(json.dumps(table))
    (base / "tokenizer" / "merges.txt").write_text("#version: 0.2\n")
    (base / "tokenizer" / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "CLIPTokenizer", "model_max_length": 16})
    )
    transformers.CLIPTextModel(
        transformers.CLIPTextConfig(
            vocab_size=len(table), hidden_size=8, intermediate_size=8, num_hidden_layers=1,
            num_attention_heads=2, max_position_embeddings=16, bos_token_id=len(table) - 2,
            eos_token_id=len(table) - 1, pad_token_id=len(table) - 1,
        )
    ).save_pretrained(base / "text_encoder")  # fmt: skip
    diffusers.MotionAdapter(
        block_out_channels=(8, 8), motion_layers_per_block=1, motion_norm_num_groups=2,
        motion_num_attention_heads=2, motion_max_seq_length=16,
    ).save_pretrained(folder / "motion")  # fmt: skip
    for name in ("depth", "pose", "face"):
        net = diffusers.ControlNetModel(
            norm_num_groups=2, conditioning_embedding_out_channels=(8, 8), **blocks
        )
        # a fresh ControlNet ends in zeros and says nothing: this one speaks
        for weight in net.parameters():
            if not weight.detach().any():
                torch.nn.init.normal_(weight, std=0.3)
        net.save_pretrained(folder / name)
    paths = {name: str(folder / name) for name in ("motion", "depth", "pose", "face")}
    return paths | {"base": str(base)}


def refinement(models: dict[str, str], **changes: Any) -> dict[str, Any]:
    small = {"steps": 3, "strength": 0.7, "guidance": 2.0, "window": 4, "overlap": 2, "side": 48}
    return models | small | changes


@pytest.fixture(scope="module")
def clip() -> Clip:
    plan = Staging(clips=1, frames=6, fps=10, width=96, height=72, seed=3, actions=("wave",))
    return next(iter(clips(plan)))


def avatar(clip: Clip, refine: dict[str, Any] | None) -> Avatar:
    known = Known(Scene(clip.alpha > 0, (Track(clip.joints.astype(float)),), clip.camera, 0.0))
    return Avatar(body="procedural", finder=known, seed=5, window=6, refine=refine)


def save(path: Path, frames: np.ndarray) -> Path:
    size = (frames.shape[2], frames.shape[1])
    with VideoWriter(path, rate=Fraction(10), size=size, codec="ffv1") as video:
        for image in frames:
            video.write(image)
    return path


def test_public_pixels_stay_whatever_the_source_shows(
    tmp_path: Path, clip: Clip, models: dict[str, str]
) -> None:
    noise = np.random.default_rng(0).integers(0, 256, clip.frames.shape).astype(np.uint8)
    layers = []
    for name, frames in (("a", clip.frames), ("b", noise)):
        source = save(tmp_path / f"{name}.mkv", frames)
        avatar(clip, refinement(models)).apply(source, tmp_path / f"{name}.mp4")
        layers.append(read_layers(tmp_path / f"{name}.mp4"))
    (mask, layer), (mask_too, layer_too) = layers
    assert mask.any()
    assert np.array_equal(mask, mask_too)
    assert np.array_equal(layer, layer_too)
    # and the model did repaint them, inside the renderer's outline
    avatar(clip, None).apply(tmp_path / "a.mkv", tmp_path / "plain.mp4")
    plain_mask, plain = read_layers(tmp_path / "plain.mp4")
    assert np.array_equal(mask, plain_mask)
    assert np.abs(layer[mask].astype(int) - plain[mask]).mean() > 5


def test_the_card_says_that_a_model_repainted(
    tmp_path: Path, clip: Clip, models: dict[str, str]
) -> None:
    target = tmp_path / "out" / "out.mp4"
    source = save(tmp_path / "in.mkv", clip.frames)
    avatar(clip, refinement(models)).apply(source, target)
    card = json.loads(card_path(target).read_text())
    words = card["promise_in_words"]
    assert "not the renderer's alone" in words
    assert "conditional on the avatar pixels" in words
    assert "remembers from its own training" in words
    assert card["settings"]["refine"]["base"] == "tiny-base"
    assert models["base"] not in card_path(target).read_text()
    plain = avatar(clip, None)
    assert "refine" not in plain.settings
    assert "diffusion" not in str(plain.promise(_shape()))


def _shape() -> Any:
    from sfumato.protect import Shape

    return Shape(72, 96)


@pytest.fixture
def refiner(models: dict[str, str]) -> Refiner:
    return Refiner(Refinement.of(refinement(models)), np.random.default_rng(0))


def test_overlapping_windows_are_averaged(
    refiner: Refiner, monkeypatch: pytest.MonkeyPatch
) -> None:
    latents = torch.randn(6, 4, 8, 8)
    time = torch.tensor(500)
    calls: list[int] = []

    def guess(part: Any, time: Any, hints: Any) -> Any:
        calls.append(len(calls))
        return torch.full_like(part, float(calls[-1]))

    monkeypatch.setattr(refiner, "_predict", guess)
    refiner._scheduler.set_timesteps(3)
    made = refiner._step(latents, time, {})
    step = refiner._scheduler.step
    zero, one = (step(torch.full_like(latents, v), time, latents).prev_sample for v in (0.0, 1.0))
    # frames 0 to 3 are in the first window, 2 to 5 in the second
    torch.testing.assert_close(made[:2], zero[:2])
    torch.testing.assert_close(made[2:4], (zero[2:4] + one[2:4]) / 2)
    torch.testing.assert_close(made[4:], one[4:])


def test_every_condition_steers(refiner: Refiner) -> None:
    torch.manual_seed(1)
    pictures = torch.rand(5, 3, 16, 16)
    hints = {name: torch.rand(5, 3, 16, 16) for name in ("depth", "pose", "face")}

    def made(changed: str | None) -> Any:
        refiner._noise = np.random.default_rng(3)
        given = {n: torch.zeros_like(h) if n == changed else h for n, h in hints.items()}
        return refiner.refine(pictures, given)

    same = made(None)
    assert same.shape == pictures.shape
    assert torch.equal(same, made(None))
    for name in hints:
        assert not torch.equal(same, made(name)), name


def test_one_window_is_what_the_pipeline_of_diffusers_predicts(refiner: Refiner) -> None:
    """Our sampler beside AnimateDiffControlNetPipeline: same latents, steps and prompts."""
    import diffusers

    nets = [refiner._nets[name] for name in ("depth", "pose", "face")]
    how = refiner.how
    pipeline = diffusers.AnimateDiffControlNetPipeline(
        vae=refiner._vae, text_encoder=None, tokenizer=None, unet=refiner._unet,
        motion_adapter=None, controlnet=nets, scheduler=refiner._scheduler,
    )  # fmt: skip
    pipeline.set_progress_bar_config(disable=True)
    torch.manual_seed(2)
    latents = torch.randn(4, 4, 8, 8)
    hints = {name: torch.rand(4, 3, 16, 16) for name in ("depth", "pose", "face")}
    theirs = pipeline(
        prompt_embeds=refiner._words[1:], negative_prompt_embeds=refiner._words[:1],
        conditioning_frames=[[hint[t] for t in range(4)] for hint in hints.values()],
        num_frames=4, height=16, width=16, num_inference_steps=how.steps,
        guidance_scale=how.guidance, latents=latents.transpose(0, 1)[None], output_type="latent",
    ).frames[0].transpose(0, 1)  # fmt: skip
    refiner._scheduler.set_timesteps(how.steps)
    ours = latents
    with torch.inference_mode():
        for time in refiner._scheduler.timesteps:
            ours = refiner._step(ours, time, hints)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_windows_cover_every_frame_and_overlap() -> None:
    draw_from = random.Random(0)
    for _ in range(200):
        size = draw_from.randint(1, 20)
        overlap, count = draw_from.randint(0, size - 1), draw_from.randint(1, 90)
        parts = list(windows(count, size, overlap))
        assert parts[0].start == 0
        assert parts[-1].stop == count
        assert all(part.stop - part.start == min(size, count) for part in parts)
        assert all(a.stop - b.start >= overlap for a, b in pairwise(parts))


def test_conditions_are_drawn_where_the_avatar_is(clip: Clip) -> None:
    body = cast_of("procedural")[0]
    motion = rest_motion(body)
    drawing = draw([body.mesh(motion, 0)], clip.camera)
    figure = DrawnBody(body.joints(motion), np.array([True]))
    rows, columns = crop(drawing.touched)
    outside = np.ones_like(drawing.touched)
    outside[rows, columns] = False
    assert (over_grey([drawing])[0][~drawing.touched] == 128).all()
    for name in ("depth", "pose", "face"):
        made = condition(name, [drawing], [figure], clip.camera)
        assert made.any(), name
        assert not made[0][outside].any(), name
        absent = DrawnBody(figure.joints, np.array([False]))
        if name != "depth":
            assert not condition(name, [drawing], [absent], clip.camera).any()
    depth = condition("depth", [drawing], [figure], clip.camera)[0, ..., 0]
    assert ((depth > 0) == np.isfinite(drawing.depth)).all()
    away = figure.joints * [-1, 1, -1]  # turned round where it stands
    behind = DrawnBody(away, figure.present)
    assert not condition("face", [drawing], [behind], clip.camera).any()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"depth": None, "pose": None, "face": None}, "at least one"),
        ({"strength": 0.0}, "strength"),
        ({"overlap": 4}, "overlap"),
        ({"colour": "red"}, "'colour'"),
    ],
)
def test_settings_of_refine_are_checked(changes: dict[str, Any], words: str) -> None:
    named = dict.fromkeys(("base", "motion", "depth", "pose", "face"), "nowhere")
    with pytest.raises(ProtectError, match=words):
        Avatar(body="procedural", refine=refinement(named, **changes))
    with pytest.raises(ProtectError, match="base"):
        Avatar(body="procedural", refine={"motion": "m", "depth": "d"})


def test_models_that_are_not_there_are_named(models: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for part in ("motion", "pose"):
        gone = refinement(models | {part: str(tmp_path / "empty")})
        with pytest.raises(ProtectError, match="safetensors"):
            Refiner(Refinement.of(gone), np.random.default_rng(0))
    with pytest.raises(ProtectError, match="at most 16 frames"):
        Refiner(Refinement.of(refinement(models, window=17)), np.random.default_rng(0))


@pytest.mark.parametrize(("count", "stride"), [(1, 4), (5, 2), (16, 1), (37, 2), (40, 4)])
def test_sets_of_frames_at_a_stride_hold_every_frame(count: int, stride: int) -> None:
    sets = list(frame_sets(count, 6, 2, stride))
    assert {frame for chosen in sets for frame in chosen} == set(range(count))
    for chosen in sets:
        assert len(chosen) <= 6
        assert all(b - a == stride for a, b in pairwise(chosen))


def test_steps_go_over_frames_at_varying_strides(
    refiner: Refiner, monkeypatch: pytest.MonkeyPatch
) -> None:
    strides = []
    step = Refiner._step

    def noted(self: Refiner, latents: Any, time: Any, hints: Any, stride: int = 1) -> Any:
        strides.append(stride)
        return step(self, latents, time, hints, stride)

    monkeypatch.setattr(Refiner, "_step", noted)
    hints = {name: torch.rand(9, 3, 16, 16) for name in ("depth", "pose", "face")}
    refiner.refine(torch.rand(9, 3, 16, 16), hints)
    assert set(strides) == {1, 2}  # sets of four: a stride of four would hold three of nine frames
    strides.clear()
    refiner.refine(torch.rand(3, 3, 16, 16), {n: hint[:3] for n, hint in hints.items()})
    assert set(strides) == {1}


def test_people_apart_have_a_crop_each_and_people_together_share_one() -> None:
    touched = np.zeros((60, 100), bool)
    touched[10:50, 5:15] = touched[10:50, 60:70] = True
    one, two = sorted(tubelets(touched), key=lambda each: each[1].start)
    assert one[1].stop <= two[1].start
    touched[10:50, 72:80] = True  # their crops meet
    assert len(tubelets(touched)) == 2
    covered = np.zeros_like(touched)
    for rows, columns in tubelets(touched):
        assert not covered[rows, columns].any()
        covered[rows, columns] = True
    assert covered[touched].all()


def test_diffusion_runs_on_the_chosen_device_and_leaves_nothing_behind(
    models: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under ``device_check.FakeCuda``: every tensor is followed, and the picture is the CPU's."""
    pictures = torch.rand(5, 3, 48, 48)
    hints = {name: torch.rand(5, 3, 48, 48) for name in ("depth", "pose", "face")}

    import diffusers
    import transformers

    kinds = [diffusers.UNet2DConditionModel, diffusers.MotionAdapter, diffusers.AutoencoderKL,
             diffusers.ControlNetModel, transformers.CLIPTextModel]  # fmt: skip
    for kind in kinds:  # read from disk once, outside: their loader has devices of its own

        @functools.cache
        def once(name: str, subfolder: str, real: Any = kind.from_pretrained) -> Any:
            return real(name, subfolder=subfolder, use_safetensors=True)

        def copied(name: str, *, once: Any = once, subfolder: str = "", **more: Any) -> Any:
            return copy.deepcopy(once(name, subfolder))

        monkeypatch.setattr(kind, "from_pretrained", copied)

    def refined() -> torch.Tensor:
        how = Refinement.of(refinement(models))
        return Refiner(how, np.random.default_rng(0)).refine(pictures, hints)

    here = refined()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with FakeCuda() as fake, using("cuda") as used:
        there = refined()
        assert there.device == CUDA
        there = there.cpu()
    assert used == {"diffusion": "cuda:0"}
    assert fake.operations["cuda"] > 100
    torch.testing.assert_close(there, here)
