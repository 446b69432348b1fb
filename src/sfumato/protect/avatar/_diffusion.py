"""Refining avatars with a video diffusion model: AnimateDiff with ControlNets, through ``diffusers``.

The paper's generator reads the real background, so its "public" pixels are functions of private ones
(SOUNDNESS 2.3). Here it reads the avatars over a constant colour and conditions drawn from fitted
bodies; the outline stays the renderer's. Its decoder reads the whole crop (it has attention), so no
erosion of the mask would help: that nothing private enters is what makes its pixels public.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import cv2
import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from torch import Tensor

from sfumato.body import Camera, Drawing
from sfumato.devices import device_for
from sfumato.protect._method import ProtectError
from sfumato.protect.avatar._conditions import CONDITIONS, DrawnBody, condition, over_grey
from sfumato.settings import Text, checked, schema_of

Frames = npt.NDArray[np.uint8]
_ROOM = 0.1  # of the crop's sides, around the avatars
_STRIDES = (1, 2, 4)  # frames from one of a set to the next
_CHUNK = 8  # frames that are encoded or decoded at a time


@dataclass(frozen=True, kw_only=True)
class Refinement:
    """Which models refine, by folder or id, and how; at least one of the conditions is needed."""

    base: Text  # Stable Diffusion: unet, vae, text_encoder, tokenizer, scheduler
    motion: Text  # AnimateDiff's motion adapter
    depth: Text | None = None  # ControlNets
    pose: Text | None = None
    face: Text | None = None
    prompt: str = "a person, natural skin and clothes, soft light, photograph"
    negative: str = "deformed, blurry, cartoon"
    steps: Annotated[int, Field(ge=1, le=1000)] = 25
    # 0 keeps the rendering, 1 keeps its outline only
    strength: Annotated[float, Field(gt=0, le=1)] = 0.5
    guidance: Annotated[float, Field(ge=0, le=100)] = 7.5
    window: Annotated[int, Field(ge=1, le=256)] = 16  # frames that the model sees at once
    overlap: Annotated[int, Field(ge=0, le=255)] = 6  # of them shared with the next window
    side: Annotated[int, Field(ge=8, le=4096)] = 512  # pixels of the crop's longer side

    def __post_init__(self) -> None:
        if not any(getattr(self, name) for name in CONDITIONS):
            raise ProtectError(
                f"Expected a ControlNet for at least one of {', '.join(CONDITIONS)}, got none: "
                "without one the model would not keep the pose."
            )
        if self.overlap >= self.window:
            raise ProtectError(
                f"Expected an overlap smaller than the window, got {self.overlap} and {self.window}."
            )

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Refinement:
        return cls(**checked(schema_of(cls), given, "refine", ProtectError))

    @property
    def settings(self) -> dict[str, Any]:
        """For the card: models by their last name, because folders name people."""
        models = ("base", "motion", *CONDITIONS)
        return {
            name: Path(value).name if name in models and value else value
            for name, value in asdict(self).items()
        }


class Refiner:
    """Loads the models once and refines one window of drawings after the other."""

    def __init__(self, how: Refinement, noise: np.random.Generator) -> None:
        self.how, self._noise, self._device = how, noise, device_for("diffusion")
        try:
            diffusers, transformers = import_module("diffusers"), import_module("transformers")
            unet = self._load(diffusers.UNet2DConditionModel, how.base, "unet")
            adapter = self._load(diffusers.MotionAdapter, how.motion)
            motion = diffusers.UNetMotionModel.from_unet2d(unet, adapter)
            self._unet = motion.to(self._device).eval()
            self._vae = self._load(diffusers.AutoencoderKL, how.base, "vae")
            self._nets = {
                name: self._load(diffusers.ControlNetModel, getattr(how, name))
                for name in CONDITIONS
                if getattr(how, name)
            }
            encoder = self._load(transformers.CLIPTextModel, how.base, "text_encoder")
            tokenizer = transformers.CLIPTokenizer.from_pretrained(how.base, subfolder="tokenizer")
            # deterministic, and each step is linear in the latents: windows can be averaged
            self._scheduler = diffusers.DDIMScheduler.from_pretrained(
                how.base, subfolder="scheduler", clip_sample=False
            )
        except (ImportError, RuntimeError) as error:
            raise ProtectError(
                "Expected diffusers and transformers for refine, they cannot be imported "
                f"({type(error).__name__}): install sfumato[diffusion]."
            ) from error
        most = int(adapter.config.motion_max_seq_length)
        if how.window > most:
            raise ProtectError(
                f"Expected a window of at most {most} frames for this motion adapter, got {how.window}."
            )
        self._words = self._embedded(tokenizer, encoder)

    def _load(self, kind: Any, name: str, part: str | None = None) -> Any:
        try:
            # tensors only: a pickled model file could run code
            made = kind.from_pretrained(name, subfolder=part or "", use_safetensors=True)
            return made.to(self._device).eval()
        except (OSError, ValueError) as error:
            raise ProtectError(
                f"Expected a model in safetensors for {part or kind.__name__} of refine, found none "
                f"({type(error).__name__}): give a folder or an id that has it."
            ) from None

    @torch.inference_mode()
    def _embedded(self, tokenizer: Any, encoder: Any) -> Tensor:
        """The negative prompt, then the prompt: (2, words, channels)."""
        tokens = tokenizer(
            [self.how.negative, self.how.prompt], padding="max_length", truncation=True,
            max_length=encoder.config.max_position_embeddings, return_tensors="pt",
        )  # fmt: skip
        made: Tensor = encoder(tokens.input_ids.to(self._device))[0]
        return made

    @property
    def _cell(self) -> int:
        """Pixels of one latent cell."""
        return int(2 ** (len(self._vae.config.block_out_channels) - 1))

    def __call__(
        self, drawings: Sequence[Drawing], figures: Sequence[DrawnBody], camera: Camera
    ) -> Frames:
        """Refined avatars (T, H, W, 3); what they stand on is meaningless, alpha cuts it off."""
        plain = over_grey(drawings)
        touched = np.stack([drawing.touched for drawing in drawings])
        if not touched.any():
            return plain
        hints = {name: condition(name, drawings, figures, camera) for name in self._nets}
        pictures = plain.copy()
        # one crop a tubelet, for all frames of the window: smoother over time than any that follows
        for rows, columns in tubelets(np.asarray(touched.any(axis=0))):
            self._refine_crop(plain, pictures, hints, rows, columns)
        return pictures

    def _refine_crop(
        self, plain: Frames, out: Frames, hints: Mapping[str, Frames], rows: slice, columns: slice
    ) -> None:
        grid = self._cell * 2 ** (len(self._unet.config.block_out_channels) - 1)
        high, wide = rows.stop - rows.start, columns.stop - columns.start
        factor = self.how.side / max(high, wide)
        size = tuple(max(grid, grid * round(side * factor / grid)) for side in (wide, high))

        def scaled(pictures: Frames) -> Tensor:
            small = [cv2.resize(p[rows, columns], size) for p in pictures]
            return torch.from_numpy(np.stack(small)).permute(0, 3, 1, 2).float() / 255

        made = self.refine(scaled(plain), {name: scaled(hint) for name, hint in hints.items()})
        pictures = (made.permute(0, 2, 3, 1).cpu().numpy() * 255).round().astype(np.uint8)
        for t, picture in enumerate(pictures):
            out[t][rows, columns] = cv2.resize(picture, (wide, high), interpolation=cv2.INTER_AREA)

    @torch.inference_mode()
    def refine(self, pictures: Tensor, hints: Mapping[str, Tensor]) -> Tensor:
        """Noise pictures (T, 3, H, W) in [0, 1] up to ``strength`` and denoise them.

        Steps go over sets of frames at varying strides in turn: near frames agree on detail, far ones on
        what somebody looks like.
        """
        pictures = pictures.to(self._device)
        hints = {name: hint.to(self._device) for name, hint in hints.items()}
        strides = [s for s in _STRIDES if s == 1 or len(pictures) > self.how.window * s // 2]
        scale = float(self._vae.config.scaling_factor)
        clean = torch.cat(
            [
                self._vae.encode(2 * part - 1).latent_dist.mode()
                for part in torch.split(pictures, _CHUNK)
            ]
        )
        latents = clean * scale
        self._scheduler.set_timesteps(self.how.steps, device=self._device)
        first = self.how.steps - max(1, round(self.how.strength * self.how.steps))
        times = self._scheduler.timesteps[first:]
        noise = torch.from_numpy(self._noise.standard_normal(latents.shape, dtype=np.float32))
        latents = self._scheduler.add_noise(latents, noise.to(self._device), times[:1])
        for number, time in enumerate(times):
            latents = self._step(latents, time, hints, strides[number % len(strides)])
        decoded = [self._vae.decode(part / scale).sample for part in torch.split(latents, _CHUNK)]
        return (torch.cat(decoded) / 2 + 0.5).clamp(0, 1)

    def _step(
        self, latents: Tensor, time: Tensor, hints: Mapping[str, Tensor], stride: int = 1
    ) -> Tensor:
        """One step on every set of frames; where sets overlap, their latents are averaged."""
        total, share = torch.zeros_like(latents), latents.new_zeros(len(latents), 1, 1, 1)
        for chosen in frame_sets(len(latents), self.how.window, self.how.overlap, stride):
            part = latents[chosen]
            guess = self._predict(part, time, {n: hint[chosen] for n, hint in hints.items()})
            total[chosen] += self._scheduler.step(guess, time, part).prev_sample
            share[chosen] += 1
        return total / share

    def _predict(self, latents: Tensor, time: Tensor, hints: Mapping[str, Tensor]) -> Tensor:
        """The noise in latents (F, C, h, w), with guidance away from the negative prompt."""
        count = len(latents)
        twice = torch.cat([latents, latents])
        words = self._words.repeat_interleave(count, dim=0)
        down: list[Tensor] = []
        middle: Tensor | None = None
        for name, net in self._nets.items():
            hint = torch.cat([hints[name], hints[name]])
            samples, mid = net(
                twice, time, encoder_hidden_states=words, controlnet_cond=hint, return_dict=False
            )
            down = [a + b for a, b in zip(down, samples, strict=True)] if down else list(samples)
            middle = mid if middle is None else middle + mid
        guess = self._unet(
            # (batch, channels, frames, h, w)
            twice.reshape(2, count, *twice.shape[1:]).transpose(1, 2),
            time,
            encoder_hidden_states=words,
            down_block_additional_residuals=tuple(down),
            mid_block_additional_residual=middle,
        ).sample
        without, wanted = guess.transpose(1, 2)
        guided: Tensor = without + self.how.guidance * (wanted - without)
        return guided


def windows(count: int, size: int, overlap: int) -> Iterator[slice]:
    """Slices of ``size`` frames that cover all and share at least ``overlap`` with the next."""
    start = 0
    while start + size < count:
        yield slice(start, start + size)
        start += size - overlap
    yield slice(max(count - size, 0), count)


def frame_sets(count: int, size: int, overlap: int, stride: int) -> Iterator[list[int]]:
    """Sets of at most ``size`` frames, each ``stride`` after the one before, that together hold every frame."""
    for first in range(min(stride, count)):
        frames = list(range(first, count, stride))
        for window in windows(len(frames), size, overlap):
            yield frames[window]


def tubelets(touched: npt.NDArray[np.bool_]) -> list[tuple[slice, slice]]:
    """A crop around each avatar; those that meet share one."""
    _, labels = cv2.connectedComponents(touched.astype(np.uint8))
    found = [crop(labels == number) for number in range(1, int(labels.max()) + 1)]
    merged: list[tuple[slice, slice]] = []
    for one in found:
        while (other := next((each for each in merged if _meet(one, each)), None)) is not None:
            merged.remove(other)
            one = _around(one[0], other[0]), _around(one[1], other[1])
        merged.append(one)
    return merged


def _meet(one: tuple[slice, slice], two: tuple[slice, slice]) -> bool:
    return all(a.start < b.stop and b.start < a.stop for a, b in zip(one, two, strict=True))


def _around(one: slice, two: slice) -> slice:
    return slice(min(one.start, two.start), max(one.stop, two.stop))


def crop(touched: npt.NDArray[np.bool_]) -> tuple[slice, slice]:
    """Rows and columns that hold what is touched, with some room."""
    found = []
    for axis in (1, 0):
        there = np.flatnonzero(touched.any(axis=axis))
        room = round(_ROOM * (there[-1] - there[0] + 1)) + 1
        limit = touched.shape[1 - axis]
        found.append(slice(max(int(there[0]) - room, 0), min(int(there[-1]) + room + 1, limit)))
    return found[0], found[1]
