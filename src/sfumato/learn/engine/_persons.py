"""Unit person: all records of a sampled owner are one contribution, clipped together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
from torch import Tensor, nn

from sfumato.learn.engine._clipped import micro_batch
from sfumato.learn.engine._grouped import Grouped
from sfumato.learn.engine._per_sample_grads import UnsupportedLayer
from sfumato.learn.engine._probe import RouteChoice, choose, take_the_loop
from sfumato.learn.engine._routes import (
    Loss,
    Rows,
    Sums,
    add_clipped,
    by_book_keeping,
    by_func,
    record_losses,
)
from sfumato.learn.engine._speed import Route, Speed
from sfumato.learn.engine._validate import check_layers, check_precision, trainable

# Persons whose numbers of records differ by more than this are not summed in one pass: the smaller
# ones are filled up with zeros.
_UNEVEN = 2


def mean_gradient(
    model: nn.Module, loss: Loss, rows: Rows, speed: Speed, *, checked: bool = False
) -> Sums:
    """Gradient of the mean loss over records, a few at a time: nothing is clipped."""
    return mean_loss_and_gradient(model, loss, rows, speed, checked=checked)[1]


def mean_loss_and_gradient(
    model: nn.Module, loss: Loss, rows: Rows, speed: Speed, *, checked: bool = False
) -> tuple[float, Sums]:
    """The mean loss over records as well, from the same passes."""
    parameters = trainable(model)
    check_precision(parameters)
    if not checked:
        check_layers(model)
    choice = choose(model, loss, rows, parameters, Route.LOOP)
    size = micro_batch(choice, speed)
    total, mean = [torch.zeros_like(p) for p in parameters.values()], 0.0
    for start in range(0, rows.records, size):
        piece = rows.some(start, min(start + size, rows.records))
        with torch.enable_grad():
            value = record_losses(model, loss, piece).sum() / rows.records
            found = torch.autograd.grad(value, list(parameters.values()), allow_unused=True)
        mean += float(value.detach())
        for whole, part in zip(total, found):
            if part is not None:
                whole += part
    return mean, dict(zip(parameters, total))


def clipped_persons(
    model: nn.Module,
    loss: Loss,
    persons: Iterable[Rows | None],
    clip_norm: float,
    speed: Speed,
    look: Callable[[Rows], None] = lambda rows: None,
) -> tuple[Sums, Tensor]:
    """Sum over persons of the mean gradient over their records, clipped to ``clip_norm``.

    A person's whole gradient is formed before it is clipped, so a person with a thousand records
    moves the sum no further than a person with one. A person whose gradient is not finite adds
    nothing. Several persons share a pass, as many as memory allows; ``look`` sees the records of
    each pass before it. Whoever does not fit into one, or a model that needs the loop, is taken
    person by person.
    """
    parameters = trainable(model)
    check_precision(parameters, speed.mixed_precision)
    check_layers(model)
    sums = {name: torch.zeros_like(p) for name, p in parameters.items()}
    norms = []
    for some in _passes(model, loss, persons, speed):
        if len(some) > 1:
            look(Rows.joined(some))
        found = _in_one_pass(model, loss, some, clip_norm, speed)
        if found is not None:
            for name, total in found[0].items():
                sums[name] += total
            norms.append(found[1].double())
            continue
        for rows in some:
            own = mean_gradient(model, loss, rows, speed)
            norms.append(add_clipped(sums.values(), list(own.values()), clip_norm).reshape(1))
    return sums, torch.cat(norms) if norms else torch.zeros(0)


def _passes(
    model: nn.Module, loss: Loss, persons: Iterable[Rows | None], speed: Speed
) -> Iterator[list[Rows]]:
    """Persons who fit into memory together, and whose numbers of records differ little."""
    some: list[Rows] = []
    room = total = least = 0
    shape: object = None
    for rows in persons:
        if rows is None:
            continue
        count, own = rows.records, rows.shape
        if not room:
            room = micro_batch(_route(model, loss, rows, speed), speed)
        alike = own == shape and count <= _UNEVEN * least and least <= _UNEVEN * count
        if some and not (alike and total + count <= room):
            yield some
            some = []
        if not some:
            total, least, shape = 0, count, own
        some.append(rows)
        total, least = total + count, min(least, count)
    if some:
        yield some


def _in_one_pass(
    model: nn.Module, loss: Loss, some: Sequence[Rows], clip_norm: float, speed: Speed
) -> tuple[Sums, Tensor] | None:
    """None where the route goes person by person, or where this one person is too large."""
    rows = Rows.joined([Rows(one.x, one.y, one.weights / one.records) for one in some])
    together = Grouped([one.records for one in some])
    parameters = trainable(model)
    choice = _route(model, loss, rows, speed)
    if rows.records > micro_batch(choice, speed):
        return None
    try:
        if choice.route is Route.BOOK_KEEPING:
            return by_book_keeping(
                model, loss, rows, clip_norm, parameters, persons=together,
                mixed=speed.mixed_precision,
            )  # fmt: skip
        if choice.route is Route.FUNC:
            return by_func(model, loss, rows, clip_norm, parameters, together)
    except UnsupportedLayer as why:  # it computes otherwise than when it was looked at
        take_the_loop(model, loss, rows, parameters, speed.route, str(why))
    return None


def _route(model: nn.Module, loss: Loss, rows: Rows, speed: Speed) -> RouteChoice:
    return choose(model, loss, rows, trainable(model), speed.route)
