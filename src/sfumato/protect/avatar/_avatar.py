"""The avatar method: a synthetic person in the place of every real one that is found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, PlainValidator

from sfumato.body import Light, SkinnedBody, cast_of, smpl_cast
from sfumato.media import Frame, VideoInfo
from sfumato.people import EVERY, LOOKAHEAD, TEXT, everybody, held_back, threads
from sfumato.privacy import NoGuarantee
from sfumato.protect._method import Method, Promise, ProtectError, Shape
from sfumato.protect.avatar._chosen_by_hand import ChosenByHand, chosen_by_hand
from sfumato.protect.avatar._imported import NEEDED, ImportedFinder, ImportedInpainting
from sfumato.protect.avatar._inpaint import SceneEraser
from sfumato.protect.avatar._layers import LayerWriter, layer_paths
from sfumato.protect.avatar._replace import (
    ComposedFrame,
    Eraser,
    Refine,
    Replacement,
    Rules,
    covered,
)
from sfumato.protect.avatar._residual_face_check import ResidualFaceCheck
from sfumato.protect.avatar._scene import AHEAD, Finder, Scene
from sfumato.protect.avatar._tools import ToolSource
from sfumato.protect.avatar._wardrobe import Wardrobe, room_light
from sfumato.protect.hide._by_hand import Boxes, ByHand, CoveredBox, Moment
from sfumato.protect.hide._region import Watcher
from sfumato.settings import Seconds, Seed, Text, plug_in

if TYPE_CHECKING:
    from sfumato.protect.avatar._diffusion import Refinement

NOT_COVERED = (
    "pose, gait and the way of moving, which the avatar keeps on purpose (a biometric)",
    "size, lengths of limbs and position of the person",
    "shadows and reflections of the person",
    "voice and other sound, if it is kept",
    "things that tell who it is: the room, objects held, other people's reactions",
    "a person whom every detector missed in a frame and its neighbours",
    TEXT,
)


PUBLIC = (
    "pixels of the public mask are functions of body, pose, camera and a fixed light; "
    "masked differential privacy on them is conditional on pose and mask being public"
)
PUBLIC_WHEN_REFINED = (
    "pixels of the public mask are not the renderer's alone: a diffusion model repainted them, from the "
    "avatars over a constant colour, their depth, skeleton and face, its weights, a prompt and noise; no "
    "pixel of the recording enters it, and masked differential privacy is conditional on the avatar "
    "pixels, that is on pose and mask being public"
)
UNCHECKED = "no second detector checked the output: second_look was switched off"
REMEMBERED = "real people whom the diffusion model remembers from its own training"


_MEMORY = 128 << 20  # bytes that the frames of one window may take
_TAIL = 4  # a rest shorter than a quarter of a window is added to the window before


def in_windows(frames: Iterator[Frame], most: int) -> Iterator[list[Frame]]:
    """Frames in lists of ``most``, fewer when they are large; no list but the only one is short."""
    given = list(islice(frames, 1))
    if not given:
        return
    count = window_size(given[0], most)
    rest = max(count // _TAIL, 1)
    given += islice(frames, count - 1)
    while given:
        following = list(islice(frames, rest))
        if len(following) < rest:  # the end: too little for a window of its own
            yield given + following
            return
        yield given
        given = following + list(islice(frames, count - len(following)))


def window_size(frame: Frame, most: int) -> int:
    """How many frames like this one are held in memory, at most ``most``."""
    return max(min(most, _MEMORY // frame.image.nbytes), 1)


class Avatar(Method):
    """Replaces every person who is found by a rendered virtual one, drawn by chance for each recording.

    Guarantee: none. Whoever knows how a person moves may recognise the motion. What does hold: the
    pixels of the public mask are written by the renderer alone, so they depend on the recording
    through pose and camera only; they are what MaskDP may read as public.

    | edge case | what happens |
    | --- | --- |
    | a person found but not posed | erased, a grey silhouette stands in; or the run fails (``missed``) |
    | a face of the recording in the output | covered there, or the run fails (``missed``) |
    | a person lost for some frames | still erased ``hold`` frames around, the avatar goes on |
    | nobody found | the recording is released unchanged, and the remarks say so beforehand |
    | longer than ``window`` frames, or large | worked on in windows; who replaces whom is kept |
    """

    name: ClassVar[str] = "avatar"
    summary: ClassVar[str] = "every person who was found, replaced by a rendered virtual person"
    provides: ClassVar[str] = "no guarantee; an exact mask of pixels that the renderer alone wrote"
    draws_people: ClassVar[bool] = True
    watchers: list[Watcher]

    def __init__(
        self,
        *,
        body: Literal["anny", "procedural", "smplx"] = "anny",
        model: Text | None = None,
        light: Literal["room", "fixed"] = "room",
        missed: Literal["blank", "fail"] = "blank",
        hold: Annotated[int, Field(ge=0, le=250)] = 1,
        grow: Annotated[float, Field(ge=0, le=1)] = 0.02,
        feather: Annotated[float, Field(ge=0, le=1)] = 0.006,
        smooth: Annotated[float, Field(ge=0, le=10)] = 0.04,
        proportions: Literal["person", "avatar"] = "person",
        window: Annotated[int, Field(ge=1, le=10_000)] = 240,
        poses: Text | None = None,
        masks: Text | None = None,
        inpainting: Text | None = None,
        second_look: bool = True,
        tool_timeout: Seconds = 3600.0,
        refine: Mapping[str, Any] | None = None,
        finder: Annotated[Finder, PlainValidator(plug_in)] | None = None,
        start: Moment | None = None,
        end: Moment | None = None,
        cover: Boxes = (),
        seed: Seed | None = None,
    ) -> None:
        super().__init__(seed=seed)
        if (body == "smplx") != (model is not None):
            raise ProtectError(
                "Expected body=smplx and model=FILE together: the .npz of a SMPL-H or SMPL-X model, "
                "from its licensor."
            )
        self._kind, self._model, self._lit = body, model, light
        self._rules = Rules(missed, hold, grow, feather, smooth, proportions)
        self._window = window
        if finder is not None and (poses is not None or masks is not None):
            raise ProtectError("Expected a finder or poses and masks of other tools, got both.")
        if not second_look and (poses is None) != (masks is None):
            raise ProtectError(
                "Expected poses and masks of other tools together without a second_look of our own: "
                "a person needs both."
            )
        part = partial(ToolSource.of, timeout=tool_timeout)
        self._parts = {
            name: part(text, NEEDED if name == "inpainting" else ("input", "output"))
            for name, text in (("poses", poses), ("masks", masks), ("inpainting", inpainting))
            if text is not None
        }
        self._second_look = second_look
        self._refinement = None if refine is None else _refinement(refine)
        self._finder = finder
        self._by_hand = ByHand(start=start, end=end, cover=tuple(map(CoveredBox.of, cover)))
        self._bodies: tuple[SkinnedBody, ...] | None = None
        self._layers: LayerWriter | None = None
        self._face_check = ResidualFaceCheck() if second_look else None
        self._searched_by: Finder | None = None
        self._drew = False
        self.watchers = []

    @classmethod
    def without_effect(cls, given: Mapping[str, Any]) -> tuple[frozenset[str], str]:
        if any(given.get(name) for name in ("poses", "masks", "inpainting")):
            return frozenset(), ""
        return frozenset({"tool_timeout"}), "without another tool"

    @property
    def lookahead(self) -> int:
        more = self._window // _TAIL
        if not self._parts and (self._finder is None or hasattr(self._finder, "windows")):
            # the bundled finder follows people beyond the end of a window
            more = max(more, AHEAD + held_back(LOOKAHEAD, EVERY, threads()))
        return self._window + more

    @property
    def uses_side_files(self) -> bool:
        return bool(self._parts)

    @property
    def settings(self) -> dict[str, Any]:
        finder = self._finder.name if self._finder else "people"
        if "poses" in self._parts or "masks" in self._parts:
            finder = "imported and people" if self._second_look else "imported"
        tools = {name: part.label for name, part in self._parts.items()}
        return {
            **({} if self._refinement is None else {"refine": self._refinement.settings}),
            "body": self._kind, "light": self._lit, "window": self._window, "finder": finder, **tools,
            **asdict(self._rules), **self._by_hand.settings,
        }  # fmt: skip

    @property
    def packages(self) -> tuple[str, ...]:
        drawn = ("embreex",) if self._drew else ()
        refined = () if self._refinement is None else ("torch", "diffusers", "transformers")
        return ("opencv-python-headless", *drawn, *refined)

    @property
    def temporary_files(self) -> tuple[str, ...]:
        if not any(part.words for part in self._parts.values()):
            return ()
        return (
            "frames for other tools, in a folder for the owner only that is removed at the end",
        )

    @property
    def detectors_used(self) -> tuple[tuple[str, str], ...]:
        tools = tuple((f"{name} of another tool", "its own device") for name in self._parts)
        own = getattr(self._searched_by, "detectors_used", ())
        return (
            *tools,
            *own,
            *(() if self._face_check is None else self._face_check.detectors_used),
        )

    def promise(self, shape: Shape) -> Promise:
        return NoGuarantee(
            mechanism="avatar",
            reason=(
                "Every person that was found is erased and replaced by a virtual one, or by a grey shape "
                "where no pose fits, but nothing bounds what motion, surroundings or a missed frame give away."
            ),
            assumptions=(
                PUBLIC_WHEN_REFINED if self._refinement else PUBLIC,
                *(() if self._second_look else (UNCHECKED,)),
            ),
            not_covered=(
                *self._by_hand.not_covered,
                *NOT_COVERED,
                *((REMEMBERED,) if self._refinement else ()),
            ),
            randomness=self.randomness.label,
        )

    @property
    def on_purpose(self) -> tuple[str, ...]:
        return self._by_hand.sentences

    def remarks(self, shape: Shape) -> list[str]:
        return [
            "The avatar keeps pose and gait on purpose; shadows, text and the room are not covered.",
            "A recording in which nobody is found is released as it is: look at the output.",
        ]

    def transform(self, frames: Iterator[Frame], shape: Shape) -> Iterator[Frame]:
        for frame, made in self.composed(frames):
            if self._layers is not None:
                self._layers.write(made.public, made.layer)
            yield Frame(made.image, frame.pts, frame.time)

    @contextmanager
    def write_sidecars(self, video: Path, info: VideoInfo) -> Iterator[None]:
        """While this lasts, mask and public layer of what is streamed are written beside ``video``."""
        with LayerWriter(video, info) as layers:
            self._layers = layers
            try:
                yield
            finally:
                self._layers = None

    def sidecars(self, video: Path) -> tuple[Path, ...]:
        """The files that belong to a released video."""
        return layer_paths(video)

    def composed(self, frames: Iterator[Frame]) -> Iterator[tuple[Frame, ComposedFrame]]:
        """Every frame of the recording, with its people replaced."""
        self._drew = False
        self._wardrobe = Wardrobe(self.bodies, self.randomness.generator())
        self._tint: npt.NDArray[np.float32] | None = None
        finder, eraser, refiner = self.finder, self.eraser, self._refiner()
        self._searched_by = finder
        decided, first = self._by_hand.begin(), 0
        for given, scene in self._scenes(frames, finder):
            by_hand = chosen_by_hand(decided, given)
            found = by_hand.added_to(scene)
            for watch in self.watchers:
                for number, (frame, mask) in enumerate(zip(given, found.masks), first):
                    watch(frame, everybody(mask, number), mask)
            yield from self._replaced(given, found, by_hand, eraser, refiner)
            first += len(given)
            del given, scene, found, by_hand  # the next window is looked for without this one
        decided.finish()
        for part in (finder, eraser):
            # what reads files of other tools refuses those that speak of more frames
            if (ended := getattr(part, "ended", None)) is not None:
                ended()

    def _scenes(
        self, frames: Iterator[Frame], finder: Finder
    ) -> Iterator[tuple[list[Frame], Scene]]:
        """The recording in windows, each with its people."""
        follow = getattr(finder, "windows", None)
        if follow is None:
            for given in in_windows(frames, self._window):
                yield given, finder.find([frame.image for frame in given])
            return
        start = list(islice(frames, 1))
        if start:
            yield from follow(chain(start, frames), window_size(start[0], self._window))

    def _replaced(
        self,
        given: Sequence[Frame],
        found: Scene,
        by_hand: ChosenByHand,
        eraser: Eraser,
        refiner: Refine | None,
    ) -> Iterator[tuple[Frame, ComposedFrame]]:
        images = [frame.image for frame in given]
        span = float(given[-1].time - given[0].time)
        rate = (len(given) - 1) / span if span > 0 else 25.0
        self._drew |= bool(found.tracks)
        if self._tint is None and self._lit == "room":
            self._tint = room_light(images, found.masks)
        work = Replacement(
            images, found, self._wardrobe.dressed(found.tracks), self._rules, Light(),
            rate=rate, eraser=eraser, refiner=refiner, tint=self._tint,
        )  # fmt: skip
        made = enumerate(work)
        if self._face_check is None:
            for t, each in made:
                yield given[t], by_hand.applied(t, each, images[t])
            return
        looked = (
            (each, self._face_check.on_frame(images[t], each.image, each.public) & inside)
            for (t, each), inside in zip(made, by_hand.inside, strict=True)
        )
        for t, (each, left) in enumerate(_with_neighbours(looked, self._rules.hold)):
            if left.any():
                if self._rules.missed == "fail":
                    raise ProtectError(
                        f"A face of the recording was found in the output, at {given[t].time} seconds: "
                        "nothing was released. Use missed=blank to grey such places out."
                    )
                each = covered(each, left, self._rules)
            yield given[t], by_hand.applied(t, each, images[t])

    def _refiner(self) -> Refine | None:
        if self._refinement is None:
            return None
        from sfumato.protect.avatar._diffusion import Refiner

        return Refiner(self._refinement, self.randomness.generator())

    @property
    def bodies(self) -> tuple[SkinnedBody, ...]:
        """The cast, opened when first needed."""
        if self._bodies is None:
            self._bodies = (
                smpl_cast(self._model)
                if self._kind == "smplx" and self._model is not None
                else cast_of("procedural" if self._kind == "procedural" else "anny")
            )
        return self._bodies

    @property
    def finder(self) -> Finder:
        """Finds people; by default with the bundled detectors, which run beside other tools too."""
        if self._finder is not None:
            return self._finder
        poses, masks = self._parts.get("poses"), self._parts.get("masks")
        if poses is None and masks is None:
            self._finder = _bundled()
            return self._finder
        # made anew for every run: it reads on in its files where the last window ended
        return ImportedFinder(poses, masks, own=_bundled() if self._second_look else None)

    @property
    def eraser(self) -> Eraser:
        """Fills the place of people."""
        part = self._parts.get("inpainting")
        return SceneEraser() if part is None else ImportedInpainting(part)


def _refinement(given: Mapping[str, Any]) -> Refinement:
    # torch is not needed for avatars otherwise
    from sfumato.protect.avatar._diffusion import Refinement

    return Refinement.of(given)


def _with_neighbours(
    looked: Iterator[tuple[ComposedFrame, npt.NDArray[np.bool_]]], hold: int
) -> Iterator[tuple[ComposedFrame, npt.NDArray[np.bool_]]]:
    """Each frame with what was seen on it and on up to ``hold`` frames before and after."""
    waiting: list[tuple[ComposedFrame, npt.NDArray[np.bool_]]] = []
    given = 0
    for item in chain(looked, [None] * hold):
        if item is not None:
            waiting.append(item)
        if (item is None or len(waiting) > given + hold) and given < len(waiting):
            near = [seen for _, seen in waiting[max(0, given - hold) : given + hold + 1]]
            yield waiting[given][0], np.asarray(np.any(near, axis=0))
            given += 1
        if given > hold:
            waiting, given = waiting[given - hold :], hold


def _bundled() -> Finder:
    from sfumato.protect.avatar._finder import PeopleFinder

    return PeopleFinder()
