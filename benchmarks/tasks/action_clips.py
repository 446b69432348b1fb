"""Two tasks that trainings are compared on: staged clips, and UTD-MHAD depth clips.

Both have three groups of people who share nobody: public ones whom a backbone learns from, private
ones, and people whom nothing has ever seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from benchmarks.harness.recordings import recordings
from sfumato.data import ArrayRecords, Sampling, UtdMhad, staged, utd_mhad
from sfumato.files import atomic_output
from sfumato.learn import Adam, FeatureMap, LowFrequency, VideoClips, plan_for, train
from sfumato.models import RecordMLP, VideoViT
from sfumato.stage import Staging

PREPARE = VideoClips(frames=8, height=32, width=32)
STAGED, DEPTH = "staged clips", "UTD-MHAD depth"
# UTD-MHAD: whose clips are declared public, whose are private, and who is never seen in training.
PUBLIC_SUBJECTS, PRIVATE_SUBJECTS, TEST_SUBJECTS = {1, 2}, {3, 4, 5, 6}, {7, 8}
ACTORS = 60


@dataclass(frozen=True)
class Task:
    """Three groups of people who share nobody, and what may be shown of the private ones."""

    name: str
    public: ArrayRecords
    private: ArrayRecords
    held_out: ArrayRecords
    psi: FeatureMap
    mask: str
    batch: int
    persons: int
    rate: float

    def model(self) -> nn.Module:
        """Clips of rooms need attention to find the person; a person alone in the middle does not."""
        classes = len(self.public.classes)
        if self.name == DEPTH:
            inputs = 3 * PREPARE.frames * PREPARE.height * PREPARE.width
            return RecordMLP(inputs, (128,), 128, classes)
        clip = (3, PREPARE.frames, PREPARE.height, PREPARE.width)
        return VideoViT(classes, clip=clip, tubelet=(2, 8, 8), width=96, depth=3, heads=3)

    def train_last_layers(self, model: nn.Module) -> None:
        """Freeze all but the last norm (or layer) and the head: the trunk runs once a record."""
        steps = model.steps()  # type: ignore[operator]
        model.requires_grad_(False)
        for step in steps[-2:] if isinstance(model, RecordMLP) else steps[-1:]:
            for part in step.modules:
                part.requires_grad_(True)


@dataclass(frozen=True)
class Size:
    """How much is done: a quick run, or the table."""

    clips: tuple[int, int, int]
    pretraining: int
    steps: int
    projector: int


QUICK = Size((48, 96, 32), 20, 6, 8)
WHOLE = Size((240, 800, 160), 120, 50, 40)


def staged_task(size: Size, folder: Path) -> Task:
    groups = zip(("public", "private", "held-out"), size.clips, (12, ACTORS, 12), (101, 202, 303))
    public, private, held_out = (
        _kept_records(folder, f"staged-{name}-{clips}", _staging(clips, actors, seed))
        for name, clips, actors, seed in groups
    )
    mask = "the rendered person is public, the room is private"
    return Task(STAGED, public, private, held_out, LowFrequency(6, 16.0), mask,
                size.clips[1] // 4, ACTORS, 1e-3)  # fmt: skip


def _staging(clips: int, actors: int, seed: int) -> Staging:
    return Staging(
        clips=clips, actors=actors, rooms=18, frames=16, fps=16.0, width=32, height=32,
        actions=("wave", "sit", "walk", "jump"), habit=0.8, seed=seed,
    )  # fmt: skip


def depth_task(data: str, quick: bool) -> Task:
    found = utd_mhad(recordings(data, "utd_mhad")["utd_mhad"], "depth")
    assert isinstance(found, UtdMhad)
    groups = [
        _depth_clips(found, subjects, 5 if quick else 1)
        for subjects in (PUBLIC_SUBJECTS, PRIVATE_SUBJECTS, TEST_SUBJECTS)
    ]
    mask = "fixed beforehand: the lower half of the picture is public, the upper half private"
    public, private, held_out = groups
    return Task(DEPTH, public, private, held_out, LowFrequency(6, 16.0), mask,
                len(private) // 2, len(PRIVATE_SUBJECTS), 3e-4)  # fmt: skip


def _depth_clips(found: UtdMhad, subjects: set[int], every: int) -> ArrayRecords:
    """Sixteen frames of the middle of the picture, where people stand, at half the size.

    The mask is the same for everyone (R9): the outline of a person, which the loader gives, would
    itself be private.
    """
    chosen = [i for i, (_, subject, _) in enumerate(found.keys) if subject in subjects][::every]
    x, y = [], []
    for index in chosen:
        record = found[index]
        x.append(record.x[Sampling(16).places(len(record.x)), 16:120:2, 44:116:2])
        y.append(record.y)
    clips = np.stack(x)
    mask = np.zeros(clips.shape[:4], dtype=bool)
    mask[:, :, clips.shape[2] // 2 :] = True
    owners = [found.owners[index] for index in chosen]
    return ArrayRecords(clips, y, mask=mask, owners=owners, classes=found.classes)


def tasks(size: Size, folder: Path, data: str | None, quick: bool) -> tuple[list[Task], list[str]]:
    """The tasks that can be had, and what is to be said about the others."""
    found = [staged_task(size, folder)]
    if data is None:
        return found, ["UTD-MHAD was not measured: pass data=FOLDER."]
    return [*found, depth_task(data, quick)], []


def _kept_records(folder: Path, name: str, staging: Staging) -> ArrayRecords:
    """Staged clips, made once."""
    path = folder / f"{name}.npz"
    if not path.is_file():
        made = staged(staging)
        assert made.mask is not None
        owners = [each[0] for each in made.owners or ()]
        with atomic_output(path, force=True) as temporary, open(temporary, "wb") as stream:
            np.savez(stream, x=made.x, y=made.y, mask=made.mask, owners=owners,
                     classes=made.classes)  # fmt: skip
    with np.load(path, allow_pickle=False) as stored:
        return ArrayRecords(
            stored["x"], stored["y"], mask=stored["mask"],
            # every staging has an actor00 of its own
            owners=[f"{name} {owner}" for owner in stored["owners"].tolist()],
            classes=stored["classes"].tolist(),
        )  # fmt: skip


def backbone(task: Task, size: Size, folder: Path) -> nn.Module:
    """Trained on public people alone; kept beside the cells, so that all of them start from it."""
    from safetensors.torch import load_file, save_file

    torch.manual_seed(0)  # the first weights are public
    model = task.model()
    path = folder / f"{task.name.replace(' ', '-')}.safetensors"
    if path.is_file():
        model.load_state_dict(load_file(path))
    else:
        count = len(task.public)
        plan = plan_for("sgd", records=count, batch=min(64, count), steps=size.pretraining)
        train(model, task.public, plan, optimizer=Adam(task.rate), prepare=PREPARE)
        with atomic_output(path, force=True) as temporary:
            save_file(model.state_dict(), temporary)
    return model
