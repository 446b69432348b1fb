"""The encoder that erases private classes: no line tells them, useful ones stay, files keep it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from attribute_data import speech_like

from sfumato.attributes import AttributesError, DonorSet, Pass, PassTraining, read_table
from sfumato.attributes._encoders import ErasedMLP, build_encoder


def linear_accuracy(seen: torch.Tensor, codes: torch.Tensor) -> float:
    """Least squares on one-hot classes, scored on its own records: as good as a line gets."""
    target = torch.nn.functional.one_hot(codes).double()
    features = torch.cat([seen.double(), torch.ones(len(seen), 1)], 1)
    weights = torch.linalg.lstsq(features, target, driver="gelsd").solution
    return float(((features @ weights).argmax(1) == codes).double().mean())


@pytest.fixture
def prepared() -> tuple[ErasedMLP, torch.Tensor, dict[str, torch.Tensor]]:
    table = read_table(speech_like(600), ("sex", "person", "word"))
    encoder = ErasedMLP(tuple(table.x.shape[1:]), 16, general=4, emphasis=2.0)
    encoder.prepare(table.x, [table.labels["sex"]], [table.labels["word"]])
    return encoder.eval(), table.x, dict(table.labels)


def test_no_line_tells_the_private_class_and_the_useful_one_stays(
    prepared: tuple[ErasedMLP, torch.Tensor, dict[str, torch.Tensor]],
) -> None:
    encoder, x, labels = prepared
    plain = linear_accuracy(x.flatten(1), labels["sex"])
    embedded = encoder(x).detach()
    most_frequent = float(torch.bincount(labels["sex"]).max() / len(x))
    assert plain > most_frequent + 0.1
    assert linear_accuracy(embedded, labels["sex"]) <= most_frequent + 0.01
    women, men = (embedded[labels["sex"] == code].mean(0) for code in (0, 1))
    assert torch.allclose(women, men, atol=1e-3)
    assert linear_accuracy(embedded, labels["word"]) > 0.9 * linear_accuracy(
        x.flatten(1), labels["word"]
    )


def test_start_is_emphasised_guesses_then_white_components(
    prepared: tuple[ErasedMLP, torch.Tensor, dict[str, torch.Tensor]],
) -> None:
    encoder, x, labels = prepared
    embedded = encoder(x).detach()
    words = len(torch.unique(labels["word"]))
    assert embedded[:, :words].square().mean(0).sqrt() == pytest.approx([2.0] * words, rel=0.02)
    rest = embedded[:, words : words + 4]
    assert torch.allclose(rest.T @ rest / len(rest), torch.eye(4), atol=0.05)
    assert embedded[:, words + 4 :].abs().max() == 0


def test_erasing_needs_room_for_every_class() -> None:
    table = read_table(speech_like(100), ("sex", "word"))
    encoder = build_encoder("erased-mlp", tuple(table.x.shape[1:]), 5, general=4)
    with pytest.raises(AttributesError, match="at least 8 dimensions"):
        encoder.prepare(table.x, [table.labels["sex"]], [table.labels["word"]])


def test_pass_with_it_trains_saves_and_loads(tmp_path: Path) -> None:
    records = speech_like(300)
    donors = DonorSet.sample(records, 40, declared="synthetic", seed=0)
    method = Pass(
        ["sex"],
        ["word"],
        donors,
        tau=0.05,
        dimension=16,
        encoder="erased-mlp",
        encoder_settings={"general": 4, "width": 32},
        training=PassTraining(steps=5, batch=300, bank_rate=1.0),
    ).fit(records)
    method.save(tmp_path / "pass.safetensors")
    again = Pass.load(tmp_path / "pass.safetensors", donors)
    assert torch.equal(method.substitution(records), again.substitution(records))
