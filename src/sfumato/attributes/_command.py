"""What ``sfumato protect DATASET OUT --method pass`` does: fit, draw, and release donors' files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np

from sfumato.attributes._donors import Declared, DonorSet
from sfumato.attributes._layouts import read_dataset
from sfumato.attributes._pass import TYPED_TRAINING, Pass, pass_method
from sfumato.attributes._release import release
from sfumato.attributes._state import PassState, open_state, save_state
from sfumato.attributes._tasks import AttributesError, Task, read_table, require_two_classes
from sfumato.attributes._training import PassTraining
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
    counted_under,
    versions_of,
)
from sfumato.protect import CommandResult
from sfumato.settings import checked

Spend = Callable[[Guarantee | NoGuarantee], AbstractContextManager[object]]


@dataclass(frozen=True, kw_only=True)
class AttributeRequest:
    """One call of the command. ``settings`` are those of the method, of training, ``remember``."""

    source: Path
    target: Path
    method: str
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
        schema = pass_method(self.method).settings_schema()
        proven = "epsilon" in schema.model_fields
        if proven and "epsilon" not in self.settings:
            raise AttributesError(f"Expected --epsilon for {self.method}: it is what is proven.")
        if not proven and "epsilon" in self.settings:
            raise AttributesError(
                f"Expected no --epsilon for {self.method}: nothing is proven about it; take pass-ldp."
            )
        found = checked(schema, self.settings, f"the method {self.method}", AttributesError)
        both = [name for name in ("encoder", "steps", "learning_rate") if name in found]
        if found.get("published") is not None and both:
            raise AttributesError(
                f"Expected published or {both[0]}, got both: the paper's settings say it already."
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


def dry_run(request: AttributeRequest) -> CommandResult:
    """What would be done; reads nothing."""
    lines = [
        f"Method {request.method}: every record is replaced by a donor's, drawn to hide "
        f"{', '.join(request.private)} and to keep {', '.join(request.useful)}. "
        "Nothing was read or written.",
        f"Donors are declared {request.donors_are}; their pixels or samples are published as they are.",
        pass_method(request.method).expectation(request.settings),
    ]
    return CommandResult({"dry_run": True, **request.stated}, lines)


def run(
    request: AttributeRequest, spend: Spend | None, say: Callable[[str], None]
) -> CommandResult:
    """Fit (or take the fitted method from ``state``), draw once, and write all or nothing."""
    for path in (request.target, *_cards(request.target)):
        refuse_overwrite(path, force=request.force)
    for original in (request.source, request.donors_from, request.fit_on, request.state):
        if original is not None:
            refuse_replacing(original, request.target)
    data = read_dataset(request.source)
    donor_data = data if request.donors_from is None else read_dataset(request.donors_from)
    randomness = Randomness(request.seed)
    kept = None if request.state is None else open_state(request.state, request.stated, randomness)
    state = kept or _fitted(request, data, donor_data, randomness, say)
    _refuse_unknown_people(state, donor_data)
    method, promise = state.method, state.method.promise_for(data.records)
    with (
        atomic_folder(request.target, force=request.force) as fresh,
        (spend or _free)(promise) as held,
    ):
        promise = release(method, data.records, fresh)
        written = _write_files(fresh, donor_data, state.donor_rows)
        # the order of writing would be an order of the people
        level_times(fresh)
        if request.state is not None:
            # before anybody can see the release: a forgotten draw would be made again
            save_state(request.state, state, request.stated)
        card = Card(
            method=request.method,
            done=_done(request, data, method),
            promise=promise,
            outputs=(replace(Output.of(fresh), name=request.target.name),),
            settings=_card_settings(request, method) | counted_under(held),
            versions=versions_of("torch"),
        )
        card.write(request.target, force=request.force)
    lines = [
        f"Wrote {len(data.records)} records ({written} as files) to {request.target} and its card.",
    ]
    if request.state is None and method.memory.scope != "never":
        lines.append(
            "Draws were not kept: another release of these people would add to this one; "
            "name a --state folder to keep them."
        )
    payload = {
        "output": request.target.name,
        "records": len(data.records),
        "files": written,
        "donors": len(method.donors),
        "promise": promise.to_json(),
    }
    return CommandResult(payload, lines)


def _refuse_unknown_people(state: PassState, donor_data: Dataset) -> None:
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
    request: AttributeRequest,
    data: Dataset,
    donor_data: Dataset,
    randomness: Randomness,
    say: Callable[[str], None],
) -> PassState:
    fit_data = data if request.fit_on is None else read_dataset(request.fit_on)
    train = chosen_rows(fit_data.records, fit_data.train)
    names = (*request.private, *request.useful)
    require_two_classes(read_table(train, names), names)
    # donors of another data set may be any of its people; of the fitted one, its training people
    pool = fit_data if request.donors_from is None else donor_data
    rows = list(pool.train) if pool is fit_data else list(range(len(pool.records)))
    if request.donors_from is None and request.fit_on is not None:
        raise AttributesError(
            "Expected --donors-from with --fit-on: say whose recordings may be published."
        )
    donors, chosen = _donors(request, chosen_rows(pool.records, rows), rows, len(train))
    say(f"Fitting on {len(train)} records of {fit_data.layout}, {len(donors)} donors.")
    method = _method(request, donors, randomness)
    method.fit(train, announce=say)
    return PassState(method, chosen)


def _donors(
    request: AttributeRequest, pool: ArrayRecords, rows: Sequence[int], most: int
) -> tuple[DonorSet, list[int]]:
    """The donors, at most as many as records are fitted on, and their rows in their data set."""
    declared: Any = request.donors_are
    seed = request.seed or 0
    if request.donors is None:
        kind = pass_method(request.method)
        found = kind.usual_donors(pool, request.useful, declared, seed, most)
    else:
        found = DonorSet.sample(pool, request.donors, declared=declared, seed=seed)
    assert isinstance(found.records, Subset)
    return found, [rows[index] for index in found.records.indices]


def _method(request: AttributeRequest, donors: DonorSet, randomness: Randomness) -> Pass:
    kind, settings = pass_method(request.method), dict(request.settings)
    typed = {name: settings.pop(name) for name in TYPED_TRAINING if name in settings}
    paper = settings.pop("published", None)
    if paper is not None:
        method = kind.published(
            paper, request.private, request.useful, donors, randomness=randomness, **settings
        )
        method.training = replace(method.training, **typed)
        return method
    return kind(
        request.private,
        request.useful,
        donors,
        training=PassTraining(**(dict(kind.training_defaults) | typed)),
        randomness=randomness,
        **settings,
    )


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


def _done(request: AttributeRequest, data: Dataset, method: Pass) -> str:
    return (
        f"{len(data.records)} records were replaced by those of {len(method.donors)} donors, drawn to "
        f"hide {', '.join(request.private)} and to keep {', '.join(request.useful)}; the order is "
        "shuffled and the attributes are the donors'. Donors' pixels or samples are published as "
        "they are; where they are files, these were written anew, without metadata."
    )


def _card_settings(request: AttributeRequest, method: Pass) -> dict[str, Any]:
    return {
        **request.stated,
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
