"""How PASS is trained: settings, and the loop that turns records into a substitution rule."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from sfumato.attributes._donors import match_matrix
from sfumato.attributes._loss import (
    EntropyBank,
    LossTerms,
    UsefulBatch,
    class_rows,
    loss_and_gradient,
)
from sfumato.attributes._tasks import AttributesError, AttributeTable, Task
from sfumato.settings import Count

# Entries of the gradient whose probability is below this are dropped when rows are nearly one-hot;
# each is proportional to its probability, so what is lost is below rounding of the rest.
_NEGLIGIBLE = 1e-7
_SPARSE_BELOW = 0.03
_EVERY = 16


@dataclass(frozen=True)
class PassTraining:
    """Settings of the optimisation. None of them changes what is promised.

    ``start_temperature`` and ``start_mu`` begin with soft rows, so that every sample sees many
    donors, and reach the real temperature and mu after ``anneal`` of the steps; rows that start
    near one-hot have no gradient left to hide anything with. ``bank_rate=1`` is the published
    estimate of the entropy over one batch. ``donor_start`` places the donors at first:
    ``encoder`` at the encoder's own embedding of the donor, ``anchored`` also there, except that
    a donor outside the most frequent private class takes the place of a random record inside it
    that shares most of its useful classes; ``random`` as published.
    """

    steps: Annotated[int, Field(ge=1, le=10**5)] | None = None
    epochs: Count | None = None
    batch: Count = 1000
    learning_rate: Annotated[float, Field(gt=0, le=1000)] = 1e-3
    weight_decay: float = 1e-4
    warmup: int = 20
    bank_rate: float = 0.05
    start_temperature: float | None = 0.02
    start_mu: float = 1.0
    anneal: float = 0.6
    donor_start: Literal["anchored", "encoder", "random"] = "anchored"
    noise: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.epochs is None):
            object.__setattr__(self, "steps", 300 if self.steps is None else self.steps)
            object.__setattr__(self, "epochs", None)
        if not 0 < self.bank_rate <= 1:
            raise AttributesError(f"Expected 0 < bank_rate <= 1, got {self.bank_rate!r}.")
        for name in ("batch", "learning_rate"):
            if getattr(self, name) <= 0:
                raise AttributesError(f"Expected {name} > 0, got {getattr(self, name)!r}.")

    def total_steps(self, records: int) -> int:
        if self.steps is not None:
            return self.steps
        assert self.epochs is not None
        return self.epochs * max(1, records // min(self.batch, records))

    @classmethod
    def published(cls, kind: Literal["audio", "motion", "faces"]) -> PassTraining:
        """Table 6 of the paper: AdamW, weight decay 1e-4, cosine; no annealing, batch estimate.

        The paper gives no batch size; 1000 is ours.
        """
        rate, epochs = {"audio": (1e-3, 2000), "motion": (1e-3, 200), "faces": (1e-4, 50)}[kind]
        return cls(
            epochs=epochs,
            learning_rate=rate,
            bank_rate=1.0,
            start_temperature=None,
            start_mu=1.0,
            warmup=0,
            donor_start="random",
        )


@dataclass
class Fitted:
    """Encoder and donor table after training, with the course of the loss."""

    encoder: nn.Module
    table: Tensor
    history: list[tuple[int, LossTerms]] = field(default_factory=list)


def train_substitution(
    encoder: nn.Module,
    table: AttributeTable,
    donors: AttributeTable,
    task: Task,
    training: PassTraining,
    *,
    temperature: float,
    lambda_: float,
    mu: float,
    report: Callable[[int, LossTerms], None] | None = None,
) -> Fitted:
    """Minimise the loss over the encoder and a free embedding for every donor."""
    generator = torch.Generator().manual_seed(training.seed)
    steps = training.total_steps(len(table))
    batch = min(training.batch, len(table))
    encoder.train()
    donor_table = nn.Parameter(_start(encoder, table, donors, task, training, generator))
    optimizer = torch.optim.AdamW(
        [*encoder.parameters(), donor_table],
        lr=training.learning_rate,
        weight_decay=training.weight_decay,
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: _rate(step, steps, training.warmup)
    )
    first = training.start_temperature or temperature
    banks = _full_banks(encoder, donor_table, table, task, first, training.bank_rate)
    matches = [(donors.labels[name], table.class_count(name)) for name in task.useful]
    fitted = Fitted(encoder, donor_table.detach())
    for step, rows in enumerate(_batches(len(table), batch, steps, generator)):
        progress = min(1.0, step / max(1.0, training.anneal * steps))
        tau = temperature * (first / temperature) ** (1 - progress)
        now_mu = mu * (training.start_mu + (1 - training.start_mu) * progress)
        x = table.x[rows]
        if training.noise > 0:
            spread = training.noise * x.std()
            x = x + spread * torch.randn(x.shape, generator=generator)
        embedded = functional.normalize(encoder(x), dim=1)
        placed = functional.normalize(donor_table, dim=1)
        log_p = torch.log_softmax(embedded.detach() @ placed.detach().T / tau, 1)
        found, gradient = loss_and_gradient(
            log_p,
            [(table.labels[name][rows], bank) for name, bank in zip(task.private, banks)],
            [
                UsefulBatch(count, match_matrix(table.labels[name][rows], codes))
                for name, (codes, count) in zip(task.useful, matches)
            ],
            lambda_=lambda_,
            mu=now_mu,
        )
        optimizer.zero_grad()
        torch.autograd.backward([embedded, placed], pull_back(gradient / tau, embedded, placed))
        optimizer.step()
        schedule.step()
        fitted.history.append((step, found))
        if report is not None:
            report(step, found)
    encoder.eval()
    return replace(fitted, table=donor_table.detach().clone())


def embed(encoder: nn.Module, x: Tensor, rows: int = 2048) -> Tensor:
    """Unit embeddings of many samples, without gradient."""
    with torch.no_grad():
        parts = [functional.normalize(encoder(part), dim=1) for part in torch.split(x, rows)]
    return torch.cat(parts)


def pull_back(gradient: Tensor, embedded: Tensor, placed: Tensor) -> list[Tensor]:
    """Gradients of both factors of the cosine matrix; sparse once the rows are nearly one-hot."""
    a, b = embedded.detach(), placed.detach()
    # some rows tell how sparse all are; reading every entry twice would cost as much as a product
    some = gradient[::_EVERY].abs()
    negligible = _NEGLIGIBLE * float(some.max())
    if int((some > negligible).sum()) > _SPARSE_BELOW * some.numel():
        return [gradient @ b, gradient.T @ a]
    thinned = gradient * (gradient.abs() > negligible)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return [thinned.to_sparse_csr() @ b, thinned.T.contiguous().to_sparse_csr() @ a]


def _start(
    encoder: nn.Module,
    table: AttributeTable,
    donors: AttributeTable,
    task: Task,
    training: PassTraining,
    generator: torch.Generator,
) -> Tensor:
    if training.donor_start == "random":
        shape = embed(encoder, donors.x[:1]).shape[1]
        random = torch.randn(len(donors), shape, generator=generator)
        return functional.normalize(random, dim=1)
    places = donors.x
    if training.donor_start == "anchored" and set(task.private) <= set(donors.labels):
        anchors = _anchors(table, donors, task, generator)
        places = torch.where(
            (anchors >= 0).view(-1, *[1] * (donors.x.dim() - 1)),
            table.x[anchors.clamp(min=0)],
            donors.x,
        )
    return embed(encoder, places)


def _anchors(
    table: AttributeTable, donors: AttributeTable, task: Task, generator: torch.Generator
) -> Tensor:
    """For each donor the record whose place it takes, or -1 for its own.

    When every donor starts at a record of one private class, that class already covers all donors
    and the others, who find nobody of their own near them, spread over several: most of the
    private information is gone before the first step, and little else.
    """
    cells = torch.stack([table.labels[name] for name in task.private], 1)
    kinds, inverse, counts = torch.unique(cells, dim=0, return_inverse=True, return_counts=True)
    frequent = kinds[counts.argmax()]
    inside = torch.nonzero(inverse == counts.argmax()).flatten()
    useful = torch.stack([table.labels[name][inside] for name in task.useful], 1)
    anchors = torch.full((len(donors),), -1, dtype=torch.int64)
    for index in range(len(donors)):
        own = torch.stack([donors.labels[name][index] for name in task.private])
        if torch.equal(own, frequent):
            continue
        wanted = torch.stack([donors.labels[name][index] for name in task.useful])
        # a useful class may not occur inside, as a woman's name among men: then the most alike
        shared = (useful == wanted).sum(1)
        alike = inside[shared == shared.max()]
        anchors[index] = alike[int(torch.randint(len(alike), (1,), generator=generator))]
    return anchors


def _full_banks(
    encoder: nn.Module,
    donor_table: Tensor,
    table: AttributeTable,
    task: Task,
    temperature: float,
    rate: float,
) -> list[EntropyBank]:
    placed = functional.normalize(donor_table.detach(), dim=1)
    sums = {name: torch.zeros(table.class_count(name), len(placed)) for name in task.private}
    counts = {
        name: torch.bincount(table.labels[name], minlength=table.class_count(name)).float()
        for name in task.private
    }
    for rows in torch.split(torch.arange(len(table)), 2048):
        p = torch.softmax(embed(encoder, table.x[rows]) @ placed.T / temperature, 1)
        for name in task.private:
            mean, count = class_rows(p, table.labels[name][rows], table.class_count(name))
            sums[name] += mean * count[:, None]
    return [
        EntropyBank(
            sums[name] / counts[name].clamp(min=1)[:, None], counts[name] / len(table), rate
        )
        for name in task.private
    ]


def _batches(records: int, batch: int, steps: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Shuffled passes over the data; the rest of a pass that fills no batch is left out."""
    order, position = torch.randperm(records, generator=generator), 0
    for _ in range(steps):
        if position + batch > records:
            order, position = torch.randperm(records, generator=generator), 0
        yield order[position : position + batch]
        position += batch


def _rate(step: int, steps: int, warmup: int) -> float:
    rise = min(1.0, (step + 1) / warmup) if warmup > 0 else 1.0
    return rise * 0.5 * (1 + math.cos(math.pi * step / steps))
