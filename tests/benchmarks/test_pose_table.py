"""Table ``pose``: augmentation moves joints with pixels, cells keep their promise and are kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch

from benchmarks.pose import models as _pose_models
from benchmarks.pose import run as pose
from benchmarks.pose.fit import SIZE, People, fit, loosened, predict, score, with_mirror
from benchmarks.pose.grid import (
    CLIP_NORMS,
    DELTA,
    DP_METHODS,
    EPSILONS,
    EVERYTHING,
    HEAD,
    LAST_STAGE,
    NORMS,
    SCRATCH,
    Setting,
    Task,
    grid,
    starting_model,
)
from benchmarks.pose.orders import ORDERS, orders
from benchmarks.pose.page import JOINTS
from sfumato.data import LSP, ArrayRecords, mirror_order, staged_people
from sfumato.errors import SfumatoError


def test_joints_move_with_the_pixels_they_mark() -> None:
    rng = np.random.default_rng(0)
    mirrors = 0
    for seed in range(12):
        joints = np.ones((14, 3), np.float32)
        joints[:, :2] = rng.uniform(30, 130, (14, 2))
        marked = LSP.index("left_hip")
        joints[marked, :2] = rng.uniform(70, 90, 2)  # in the middle, so that no crop cuts its mark
        picture = np.zeros((160, 160, 3), np.uint8)
        x, y = joints[marked, :2]
        cv2.circle(picture, (round(float(x)), round(float(y))), 6, (255, 255, 255), -1)
        crop, moved = loosened(picture, joints, np.random.default_rng(seed), 25.0)
        grey = crop.astype(float).mean(2)
        rows, columns = np.nonzero(grey > (grey.min() + grey.max()) / 2)
        found = np.array([columns.mean(), rows.mean()])
        # in a mirror the left hip is the right one
        places = moved[[marked, mirror_order(LSP).index(marked)], :2]
        errors = np.linalg.norm(places - found, axis=1)
        mirrors += int(errors.argmin())
        assert errors.min() < 1.5
    assert 0 < mirrors < 12


def test_the_mirror_image_of_a_right_answer_changes_nothing() -> None:
    """A model that finds joints by the brightness of single pixels is right in the mirror too."""
    height, width = SIZE
    places = torch.from_numpy(np.random.default_rng(3).integers(4, 90, (14, 2)))

    def answer(x: torch.Tensor) -> torch.Tensor:
        flipped = bool(x[0, 0, 0, 0] > x[0, 0, 0, -1])
        at = places[mirror_order(LSP)] if flipped else places
        across = (width - 1 - at[:, 0]) if flipped else at[:, 0]
        bins = [
            torch.arange(2 * n) - 2 * c[:, None] for n, c in ((width, across), (height, at[:, 1]))
        ]
        return torch.cat([-(b.float() ** 2) for b in bins], 1)[None].expand(len(x), -1, -1)

    x = torch.zeros(1, 3, height, width)
    x[..., -1] = 1
    found = predict(with_mirror(answer), x)
    np.testing.assert_allclose(found[0], places.numpy(), atol=1e-4)


def test_score_counts_joints_within_a_fifth_of_the_torso() -> None:
    truth = np.ones((2, 14, 3), np.float32)
    truth[..., :2] = np.arange(28).reshape(14, 2)
    truth[:, LSP.index("left_shoulder"), :2] = (0, 0)
    truth[:, LSP.index("right_hip"), :2] = (
        30,
        40,
    )  # torso 50: 10 pixels count, 5 for the finer one
    found = truth[..., :2].copy()
    found[0, LSP.index("head_top"), 0] += 9.9
    found[1, LSP.index("head_top"), 0] += 10.1
    scores = score(found, truth)
    assert scores["head_top"] == pytest.approx(50)
    assert scores["mean"] == pytest.approx(100 * 27 / 28)
    assert scores["mean_at_0.1"] == pytest.approx(100 * 26 / 28)
    assert scores["knee"] == 100


def test_the_grid_is_the_papers_and_begins_with_the_ends_of_epsilon() -> None:
    settings = grid(3)
    for seed in range(3):
        once = {(s.method, s.epsilon, s.clip_norm) for s in settings if s.seed == seed}
        assert once == {(m, e, c) for m in DP_METHODS for e in EPSILONS for c in CLIP_NORMS}
    assert {s.epsilon for s in settings[: len(settings) // 2]} == {0.2, 0.8}
    assert len({s.key for s in settings}) == len(settings) == 144
    assert Setting("sgd").key != Setting("sgd", rate=0.2).key


def test_orderings_are_differences_of_means() -> None:
    def cell(method: str, mean: float, seed: int) -> dict[str, Any]:
        return {"method": method, "epsilon": 0.8, "clip_norm": 0.1, "seed": seed,
                "pck": {"mean": mean}}  # fmt: skip

    means = {"dp-sgd": (10, 12), "projected": (9, 11), "feature": (20, 20),
             "feature-projective": (21, 21)}  # fmt: skip
    rows = [cell(name, value, i) for name, both in means.items() for i, value in enumerate(both)]
    found = {(row["better"], row["worse"]): row["gap"] for row in orders({"grid": rows})}
    assert list(found) == list(ORDERS)
    assert list(found.values()) == pytest.approx([1, 9, -1])


def test_the_page_says_from_numbers_what_holds_and_what_helps() -> None:
    def cell(method: str, mean: float, **more: Any) -> dict[str, Any]:
        pck = dict.fromkeys(JOINTS, mean)
        return {"method": method, "pck": pck, "trained": 10_000, **more}

    ends = [
        (method, epsilon, c) for method in DP_METHODS for epsilon in (0.2, 0.8) for c in (1.0, 0.01)
    ]
    grid_rows = [
        cell(m, 10.0 + DP_METHODS.index(m) + seed - (m == "projected" and c == 1.0) * 3,
             epsilon=e, clip_norm=c, seed=seed)
        for m, e, c in ends for seed in range(3)
    ]  # fmt: skip
    result: dict[str, Any] = {
        "records": 5, "test": 5, "size": [8, 8], "delta": DELTA, "psi": "p", "psi_keeps": "k",
        "notes": [], "scale": {"staged": 1, "epochs": 25, "batch": 100,
                                 "cycles": [{"epochs": 12, "everything": False}]}, "grid": grid_rows,
        "baselines": [cell("public-only", 99.0)],
        "noise": [{"epsilon": e, "used": 20.0 / e, "tenth": 1, "rdp": 1, "published": 1,
                   "tenth_of_1/N": 1} for e in (0.2, 0.8)],
        "subspace": {"rank": 25, "noise": 0.0025, "staged": 0.5, "own": 0.9, "gradients": 1},
        "helps": [cell("dp-sgd", mean, epsilon=0.2, clip_norm=1.0, change=name)
                  for name, mean in (("as in the grid", 5.0), ("worse", 4.0), ("better", 7.5))],
        "strategies": [cell("dp-sgd", 3.0, epsilon=e, clip_norm=0.01, strategy=EVERYTHING, epochs=1,
                            steps=4) for e in (0.2, 0.8)],
        "second": [cell("before", 2.0), cell("feature", 4.0, epsilon=0.2, clip_norm=1.0)],
        "fine_tuned": [{"epochs": n, "pck": dict.fromkeys(JOINTS, 50.0 + n)}
                       for n in (6, 12)],
        "speed": {"rows": [{"name": name, "size": [8, 6], "trained": 1, "cached_steps": 1, "records": 2,
                            "first_pass": 1, "epoch_with": 1, "epoch_without": 9, "epoch_plain": 0.5,
                            "faster": 8.7, "at_most": most}
                           for name, most in (("head", 15.7), ("last stage", 4.5))]},
    }  # fmt: skip
    text = "\n".join(pose.tables(result).values())
    # three seeds are 10, 11, 12: half an interval is 2.5, of a difference 3.5
    assert "10 of 12 orderings of the paper hold in the mean." in pose.terminal(result)
    assert "| head | 8x6 | 1 | 500.0 ms | 4500.0 ms | 500.0 ms | 250.0 ms | 8.7x | 15.7x |" in text
    gap = "-2.00 ± 3.51 | does not hold, within the interval | 3 |"
    assert f"| projected - dp-sgd | 0.8 | 1 | {gap}" in text
    assert f"| projected - dp-sgd | 0.2 | 1 | {gap}" in text
    assert "| projected | 12.0 (C 0.01) | 12.0 (C 0.01) |" in text
    assert "| better | 7.5 | - | - | - |" in text
    assert "| everything | 10,000 | 1 | dp-sgd | 3.0 | 3.0 |" in text
    assert "| feature | 1 | 4.0 | - | 13.0 ± 2.5 | 13.0 ± 2.5 |" in text
    assert "| 6 | 56.0 |" in text
    assert "| 12 | 62.0 |" in text


@pytest.fixture(scope="module")
def leeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Staged people in LSP's layout."""
    folder = tmp_path_factory.mktemp("lsp")
    people = staged_people(8, seed=9)
    (folder / "images").mkdir()
    for number, x in enumerate(people.x, start=1):
        cv2.imwrite(str(folder / "images" / f"im{number:04d}.jpg"), x[..., ::-1])
    np.save(folder / "joints.npy", people.y[:, 0])
    return folder


def test_cells_promise_what_was_asked_and_are_measured_once(
    leeds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = replace(_pose_models.RECIPES[pose.STRONG], imagenet=False)
    monkeypatch.setitem(_pose_models.RECIPES, pose.STRONG, recipe)
    monkeypatch.setattr(pose, "_QUICK", replace(pose._QUICK, staged=8))
    asked = {"data": str(leeds), "quick": True, "keep": str(tmp_path), "parts": "baselines,grid"}
    result = pose.run(**asked, pictures=str(tmp_path / "pictures"))
    assert (result["records"], result["test"]) == (4, 4)
    assert [row["method"] for row in result["grid"]] == list(DP_METHODS)
    for row in result["grid"]:
        assert 0 < row["promised"] <= row["epsilon"]
        assert row["delta"] == DELTA <= 1 / (10 * 1000)
        assert row["unit"].startswith("features" if "feature" in row["method"] else "record")
        assert row["trained"] == sum(
            p.numel() for p in _pose_models.fresh(pose.STRONG).head.parameters()
        )
    free = {row["method"]: row for row in result["baselines"]}
    assert free["public-only"]["promised"] == 0
    assert free["sgd"]["promised"] == "inf"
    assert {path.name for path in (tmp_path / "pictures").iterdir()} == {
        f"{who}-{what}.png" for who in ("lsp", "staged") for what in ("over-epsilon", "raw-and-psi")
    }
    shown = cv2.imread(str(tmp_path / "pictures" / "lsp-raw-and-psi.png"))
    assert shown.shape[0] == 3 * (22 + 2 * SIZE[0])

    def refuse(*_: object) -> None:
        raise AssertionError("measured again")

    monkeypatch.setattr(pose, "measure", refuse)
    assert pose.run(**asked) == {**result}
    text = "\n".join(pose.tables(result).values())
    assert "public view only (psi)" in text
    assert "(82.6)" in text  # the paper's own number beside ours
    (figure,) = pose.figures(result).values()
    assert "public view only" in figure
    assert len(pose.terminal(result)) > 1


def test_without_data_it_says_so_and_wrong_parts_are_named() -> None:
    result = pose.run()
    assert "data=FOLDER" in result["notes"][0]
    assert pose.tables(result) == {}
    assert "data=FOLDER" in pose.terminal(result)[-1]
    assert pose.figures(result) == {}
    with pytest.raises(SfumatoError, match="fine-tuned"):
        pose.run(parts="everything")


def test_strategies_train_what_they_say() -> None:
    for backbone, norm, deep in (
        (pose.STRONG, torch.nn.BatchNorm2d, "backbone.backbone.deep"),
        (pose.PAPERS, torch.nn.LayerNorm, "backbone.stages.3"),
    ):
        model = _pose_models.fresh(backbone)
        nobody = ArrayRecords(np.zeros((1, 1)), np.zeros(1))
        task = Task(model, backbone, nobody, nobody, nobody, Path())
        late = {id(p) for step in model.steps() if step.name.startswith((deep, "head"))
                for part in step.modules for p in part.parameters()}  # fmt: skip
        places = {id(p): name for name, p in model.named_parameters()}
        late_names = {places[i] for i in late}
        norms = {f"{name}.{p}" for name, m in model.named_modules() if isinstance(m, norm)
                 for p in ("weight", "bias")}  # fmt: skip

        def trained(strategy: str, task: Task = task) -> set[str]:
            found = starting_model(task, strategy).named_parameters()
            return {name for name, p in found if p.requires_grad}

        assert trained(HEAD) == {n for n in places.values() if n.startswith("head.")}
        assert trained(LAST_STAGE) == late_names
        assert trained(NORMS) == late_names | norms
        assert norms - late_names  # or the line before says nothing
        assert trained(EVERYTHING) == set(places.values()) == trained(SCRATCH)


def test_a_cycle_cut_in_two_keeps_its_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    found = staged_people(4, seed=9)
    people = People(list(found.x), found.y[:, 0])
    rates: list[float] = []
    plain = torch.optim.AdamW.step

    def noted(self: torch.optim.AdamW, *_: object) -> object:
        rates.append(self.param_groups[0]["lr"])
        return plain(self)

    monkeypatch.setattr(torch.optim.AdamW, "step", noted)

    def rates_of(span: tuple[float, float]) -> list[float]:
        rates.clear()
        fit(_Small(), people, epochs=20, rate=1e-2, turn=5.0, seed=0, batch=2,
                         span=span, say=lambda _: None)  # fmt: skip
        return list(rates)

    whole = rates_of((0.0, 1.0))
    assert len(whole) == 40
    assert rates_of((0.0, 0.5)) == whole[:20]
    assert rates_of((0.5, 1.0))[1:] == whole[21:]


class _Small(torch.nn.Module):
    """Logits that do not look at the picture."""

    def __init__(self) -> None:
        super().__init__()
        self.logits = torch.nn.Parameter(torch.zeros(14, 2 * sum(SIZE)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.logits.expand(len(x), -1, -1)


def test_training_helpers_leave_the_frozen_part_alone() -> None:
    model = _pose_models.fresh(pose.STRONG)
    _pose_models.train_after(model, 6)
    before = {name: p.clone() for name, p in model.named_parameters()}
    people = staged_people(4, seed=9)
    fit(model, People(list(people.x), people.y[:, 0]), epochs=1, rate=1e-2, turn=5.0,
                     seed=0, batch=2, say=lambda _: None)  # fmt: skip
    frozen = {id(p) for step in model.steps()[:6] for m in step.modules for p in m.parameters()}
    for name, p in model.named_parameters():
        if id(p) in frozen:
            assert torch.equal(p, before[name]), name
    assert not torch.equal(model.head.maps.weight, before["head.maps.weight"])
