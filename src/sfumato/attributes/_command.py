"""What ``sfumato protect DATASET OUT --method pass`` does: fit, draw, and release donors' files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from sfumato.attributes._donors import Declared, DonorSet
from sfumato.attributes._encoders import ENCODERS
from sfumato.attributes._layouts import read_dataset
from sfumato.attributes._ldp import PassLDP
from sfumato.attributes._memo import DrawMemory, Scope
from sfumato.attributes._pass import Pass
from sfumato.attributes._release import release
from sfumato.attributes._state import State, open_state, save_state
from sfumato.attributes._tasks import AttributesError, Task, read_table, require_two_classes
from sfumato.attributes._training import Training
from sfumato.data import ArrayRecords, Dataset, Subset, chosen_rows
from sfumato.files import refuse_overwrite, refuse_replacing
from sfumato.jobs import level_times
from sfumato.media import atomic_folder
from sfumato.privacy import (
    Card,
    Guarantee,
    NoGuarantee,
    Output,
    Randomness,
    card_path,
    versions_of,
)
from sfumato.settings import Settings, checked, parameters_of, schema_from

ATTRIBUTE_METHODS = ("pass", "pass-ldp")
_PROTOTYPES = 2  # donors a class for the proven variant: few, or the best one is hardly ever drawn
_USUAL_DONORS = 4096
# what may be typed for the method, its training, and both
_METHOD_SETTINGS = ("lambda_", "mu", "tau", "dimension", "draws_per_person")
_TRAINING_SETTINGS = ("steps", "batch", "learning_rate")
_METHODS = {"pass": Pass, "pass-ldp": PassLDP}

Spend = Callable[[Guarantee | NoGuarantee], AbstractContextManager[object]]


@dataclass(frozen=True, kw_only=True)
class AttributeOrder:
    """One call of the command. ``settings`` are those of the method, of training, ``remember``."""

    source: Path
    target: Path
    method: Literal["pass", "pass-ldp"]
    private: Sequence[str]
    useful: Sequence[str]
    donors_are: str | None
    donors: int | None = None
    donors_from: Path | None = None
    fit_on: Path | None = None
    state: Path | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    force: bool = False

    def __post_init__(self) -> None:
        Task(self.private, self.useful)
        if self.donors_are not in get_args(Declared):
            raise AttributesError(
                f"Expected --donors-are public, consenting or synthetic, got {self.donors_are!r}: "
                "donors' pixels and samples are published as they are, so say why they may be."
            )
        if self.method == "pass-ldp" and "epsilon" not in self.settings:
            raise AttributesError("Expected --epsilon for pass-ldp: it is what is proven.")
        if self.method == "pass" and "epsilon" in self.settings:
            raise AttributesError(
                "Expected no --epsilon for pass: nothing is proven about it; take pass-ldp."
            )
        found = checked(
            _schema(self.method), self.settings, f"the method {self.method}", AttributesError
        )
        object.__setattr__(self, "settings", found)
        if self.state is not None and self.target.resolve() in (
            self.state.resolve(),
            *self.state.resolve().parents,
        ):
            raise AttributesError(
                "Expected the --state folder outside the release, got it inside: it holds the "
                "memory of draws, which must not be released."
            )

    @property
    def stated(self) -> dict[str, Any]:
        """What decides the fitted method: a state folder is good for these alone."""
        return {
            "method": self.method,
            "private": list(self.private),
            "useful": list(self.useful),
            "donors": self.donors,
            "declared": self.donors_are,
            **dict(self.settings),
        }


@dataclass(frozen=True)
class AttributeReport:
    """What came of an order, for a person (lines) and for a machine (payload)."""

    payload: dict[str, Any]
    lines: list[str]


@cache
def _schema(method: str) -> type[Settings]:
    """The settings that may be typed, with the types and bounds of their receivers."""
    receiver, training = parameters_of(_METHODS[method]), parameters_of(Training)
    named = (*_METHOD_SETTINGS, "epsilon", "encoder", "remember")
    typed = {name: receiver[name] for name in named if name in receiver}
    # only Python code can pass a network or a memory of draws
    typed["encoder"] = (Literal[tuple(ENCODERS)], typed["encoder"][1])
    typed["remember"] = (Scope, typed["remember"][1])
    return schema_from(method, typed | {name: training[name] for name in _TRAINING_SETTINGS})


def dry_run(order: AttributeOrder) -> AttributeReport:
    """What would be done; reads nothing."""
    lines = [
        f"Method {order.method}: every record is replaced by a donor's, drawn to hide "
        f"{', '.join(order.private)} and to keep {', '.join(order.useful)}. "
        "Nothing was read or written.",
        f"Donors are declared {order.donors_are}; their pixels or samples are published as they are.",
        "pass proves nothing; sfumato audit probe measures what leaks."
        if order.method == "pass"
        else f"pass-ldp proves epsilon {order.settings['epsilon']} a draw, for people who are "
        "neither donors nor in the data it is fitted on (--fit-on).",
    ]
    return AttributeReport({"dry_run": True, **order.stated}, lines)


def carry_out(
    order: AttributeOrder, spend: Spend | None, say: Callable[[str], None]
) -> AttributeReport:
    """Fit (or take the fitted method from ``state``), draw once, and write all or nothing."""
    for path in (order.target, *_cards(order.target)):
        refuse_overwrite(path, force=order.force)
    for original in (order.source, order.donors_from, order.fit_on, order.state):
        if original is not None:
            refuse_replacing(original, order.target)
    data = read_dataset(order.source)
    donor_data = data if order.donors_from is None else read_dataset(order.donors_from)
    randomness = Randomness(order.seed)
    kept = None if order.state is None else open_state(order.state, order.stated, randomness)
    state = kept or _fitted(order, data, donor_data, randomness, say)
    _refuse_strangers(state, donor_data)
    method, promise = state.method, state.method.promise_for(data.records)
    with atomic_folder(order.target, force=order.force) as fresh, (spend or _free)(promise):
        promise = release(method, data.records, fresh)
        written = _write_files(fresh, donor_data, state.donor_rows)
        # the order of writing would be an order of the people
        level_times(fresh)
        if order.state is not None:
            # before anybody can see the release: a forgotten draw would be made again
            save_state(order.state, state, order.stated)
        card = Card(
            method=order.method,
            done=_done(order, data, method),
            promise=promise,
            outputs=(replace(Output.of(fresh), name=order.target.name),),
            settings=_card_settings(order, method),
            versions=versions_of("torch"),
        )
        card.write(order.target, force=order.force)
    lines = [
        f"Wrote {len(data.records)} records ({written} as files) to {order.target} and its card.",
        str(promise),
    ]
    if order.state is None and method.memory.scope != "never":
        lines.append(
            "Draws were not kept: another release of these people would add to this one; "
            "name a --state folder to keep them."
        )
    payload = {
        "output": order.target.name,
        "records": len(data.records),
        "files": written,
        "donors": len(method.donors),
        "promise": promise.to_json(),
    }
    return AttributeReport(payload, lines)


def _refuse_strangers(state: State, donor_data: Dataset) -> None:
    """Row numbers of another data set would publish people who are no donors."""
    donors, rows = state.method.donors, list(state.donor_rows)
    known = donor_data.records.x
    if max(rows) < len(known) and known.shape[1:] == donors[0].x.shape:
        stated = np.stack([donors[index].x for index in range(len(donors))])
        if np.allclose(known[rows], stated, rtol=1e-3, atol=1e-3):
            return
    raise AttributesError(
        "Expected the data set that the donors of the --state folder come from, got another one: "
        "name it by --donors-from."
    )


def _fitted(
    order: AttributeOrder,
    data: Dataset,
    donor_data: Dataset,
    randomness: Randomness,
    say: Callable[[str], None],
) -> State:
    fit_data = data if order.fit_on is None else read_dataset(order.fit_on)
    train = chosen_rows(fit_data.records, fit_data.train)
    names = (*order.private, *order.useful)
    require_two_classes(read_table(train, names), names)
    # donors of another data set may be any of its people; of the fitted one, its training people
    pool = fit_data if order.donors_from is None else donor_data
    rows = list(pool.train) if pool is fit_data else list(range(len(pool.records)))
    if order.donors_from is None and order.fit_on is not None:
        raise AttributesError(
            "Expected --donors-from with --fit-on: say whose recordings may be published."
        )
    donors, chosen = _donors(order, chosen_rows(pool.records, rows), rows)
    say(f"Fitting on {len(train)} records of {fit_data.layout}, {len(donors)} donors.")
    method = _method(order, donors, randomness)
    method.fit(train, announce=say)
    return State(method, chosen)


def _donors(
    order: AttributeOrder, pool: ArrayRecords, rows: Sequence[int]
) -> tuple[DonorSet, list[int]]:
    """The donors and their rows in the data set they come from."""
    declared: Any = order.donors_are
    if order.method == "pass-ldp" and order.donors is None:
        found = DonorSet.prototypes(pool, order.useful[0], _PROTOTYPES, declared=declared)
    else:
        count = min(_USUAL_DONORS, len(pool)) if order.donors is None else order.donors
        found = DonorSet.sample(pool, count, declared=declared, seed=order.seed or 0)
    assert isinstance(found.records, Subset)
    return found, [rows[index] for index in found.records.indices]


def _method(order: AttributeOrder, donors: DonorSet, randomness: Randomness) -> Pass:
    own = (*_METHOD_SETTINGS, "encoder")
    wanted = {name: value for name, value in order.settings.items() if name in own}
    training = {name: value for name, value in order.settings.items() if name in _TRAINING_SETTINGS}
    remember: Scope | DrawMemory = order.settings.get("remember", "sample")
    common: dict[str, Any] = {"remember": remember, "randomness": randomness, **wanted}
    if order.method == "pass-ldp":
        return PassLDP(
            order.private,
            order.useful,
            donors,
            epsilon=order.settings["epsilon"],
            training=Training(start_temperature=None, **training),
            **common,
        )
    return Pass(order.private, order.useful, donors, training=Training(**training), **common)


def _write_files(folder: Path, donors: Dataset, rows: Sequence[int]) -> int:
    """Each row's donor as a file under the row's number; none where data are packed.

    A donor's pixels or samples are written once, anew, and copied to the other rows: what a file
    holds depends on the donor alone, and never on the record that drew it.
    """
    if donors.write_file is None:
        return 0
    with np.load(folder / "records.npz", allow_pickle=False) as stored:
        drawn = stored["donor"]
    target = folder / "files"
    target.mkdir()
    for donor in np.unique(drawn):
        first, *others = (target / f"{number:06d}" for number in np.flatnonzero(drawn == donor))
        made = donors.write_file(rows[int(donor)], first)
        for other in others:
            other.with_suffix(made.suffix).write_bytes(made.read_bytes())
    return len(drawn)


def _done(order: AttributeOrder, data: Dataset, method: Pass) -> str:
    return (
        f"{len(data.records)} records were replaced by those of {len(method.donors)} donors, drawn to "
        f"hide {', '.join(order.private)} and to keep {', '.join(order.useful)}; the order is "
        "shuffled and the attributes are the donors'. Donors' pixels or samples are published as "
        "they are; where they are files, these were written anew, without metadata."
    )


def _card_settings(order: AttributeOrder, method: Pass) -> dict[str, Any]:
    return {
        **order.stated,
        "donors": len(method.donors),
        "remember": method.memory.scope,
        "lambda": method.lambda_,
        "mu": method.mu,
        "tau": method.tau,
    }


def _cards(target: Path) -> tuple[Path, Path]:
    return card_path(target), card_path(target).with_suffix(".md")


def _free(promise: Guarantee | NoGuarantee) -> AbstractContextManager[object]:
    return nullcontext()
