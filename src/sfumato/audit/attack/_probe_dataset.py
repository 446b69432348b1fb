"""``sfumato audit probe``: what attackers read off a protected data set, attribute by attribute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from sfumato.attributes import Task, open_state, read_dataset, read_table
from sfumato.attributes.baselines import BASELINES
from sfumato.audit.attack._bayes import BayesAttacker
from sfumato.audit.attack._probe import Obfuscation, ProbeSettings, probe
from sfumato.audit.measure._measure import MeasureError, Result
from sfumato.audit.measure._nag import mnag, nag
from sfumato.audit.measure._scores import AttributeScores
from sfumato.data import ArrayRecords, Dataset


@runtime_checkable
class KnownChannel(Protocol):
    """A protector that tells P(release | sample): what the exact attacker needs."""

    def substitution(self, x: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Attacked:
    """One attribute: unprotected, by the trained attacker, and by the exact one where there is one."""

    name: str
    role: str
    clear: AttributeScores
    trained: AttributeScores
    exact: AttributeScores | None

    def nag(self, score: AttributeScores) -> float:
        return nag(score.accuracy, guessing=score.guessing, unprotected=self.clear.accuracy)

    @property
    def worst(self) -> AttributeScores:
        """The attacker who is right more often."""
        if self.exact is None:
            return self.trained
        return max(self.exact, self.trained, key=lambda score: score.accuracy)

    def results(self) -> list[Result]:
        facts: dict[str, Any] = {"target": self.name}
        rows = []
        for attacker, score in (("trained attacker", self.trained), ("exact attacker", self.exact)):
            if score is None:
                continue
            for row in score.results(note=attacker, **facts):
                kept = row.about(unprotected=_same(self.clear, row.name))
                rows.append(kept if self.role == "private" else _as_utility(kept))
        return rows


@dataclass(frozen=True)
class ProbeAudit:
    """The attack on every attribute of one protector."""

    method: str
    records: int
    rows: Sequence[Attacked]

    @property
    def results(self) -> list[Result]:
        return [result for row in self.rows for result in row.results()]

    @property
    def worst_private(self) -> float:
        """The highest NAG of a private attribute, by whichever attacker is better."""
        return max(row.nag(row.worst) for row in self.rows if row.role == "private")

    @property
    def mnag(self) -> float:
        """mNAG by the trained attacker."""
        by = {row.name: row.nag(row.trained) for row in self.rows}
        private = [row.name for row in self.rows if row.role == "private"]
        return mnag(
            private={name: by[name] for name in private},
            kept={name: value for name, value in by.items() if name not in private},
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "records": self.records,
            "mnag": self.mnag,
            "worst_private_nag": self.worst_private,
            "attributes": {
                row.name: {
                    "role": row.role,
                    "nag": row.nag(row.trained),
                    "nag_exact": None if row.exact is None else row.nag(row.exact),
                    "trained": row.trained.to_json(),
                    "exact": None if row.exact is None else row.exact.to_json(),
                    "unprotected": row.clear.to_json(),
                }
                for row in self.rows
            },
        }


def probe_dataset(
    folder: Path,
    *,
    state: Path | None = None,
    method: str | None = None,
    private: Sequence[str] = (),
    useful: Sequence[str] = (),
    hidden: Sequence[str] = (),
    settings: ProbeSettings | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> ProbeAudit:
    """Attack the PASS of a ``state`` folder, or a baseline fitted here, on the test part of a data set.

    The attacker learns from the training part, which it may run through the protector as often as
    it likes; it is scored on the test part. ``say`` is told what goes on: it takes minutes.
    """
    data = read_dataset(folder)
    train, test = data.split
    if method is not None:
        say(f"Fitting {method} on {len(train)} records of {data.layout}.")
    protector, task, name = _protector(data, state, method, private, useful)
    names = (*task.names, *hidden)
    say(f"Learning {', '.join(names)} from {len(train)} unprotected records.")
    clear = probe(None, train, test, names, settings=settings).scores
    say(f"Learning the same from what {name} releases for them.")
    trained = probe(protector, train, test, names, settings=settings).scores
    exact = _exact(protector, train, test, names) if isinstance(protector, KnownChannel) else {}
    roles = dict.fromkeys(task.private, "private") | dict.fromkeys(task.useful, "useful")
    rows = [
        Attacked(each, roles.get(each, "hidden"), clear[each], trained[each], exact.get(each))
        for each in names
    ]
    return ProbeAudit(name, len(test), rows)


def _protector(
    data: Dataset,
    state: Path | None,
    method: str | None,
    private: Sequence[str],
    useful: Sequence[str],
) -> tuple[Obfuscation, Task, str]:
    if (state is None) == (method is None):
        raise MeasureError(
            "Expected --state (a folder that sfumato protect --method pass --state made) or "
            f"--method out of {', '.join(BASELINES)}, one of the two."
        )
    if state is not None:
        if private or useful:
            raise MeasureError(
                "Expected the attributes that the --state folder was made with, got others: leave "
                "--private and --useful out, and name further ones by --hidden."
            )
        kept = open_state(state)
        if kept is None:
            raise MeasureError(
                f"Expected a state folder at {str(state)!r}, found none: make it with "
                "sfumato protect DATASET OUT --method pass --state FOLDER."
            )
        return kept.method, kept.method.task, kept.method.name
    if method not in BASELINES:
        raise MeasureError(f"Expected a method out of {', '.join(BASELINES)}, got {method!r}.")
    train, _ = data.split
    fitted = BASELINES[method](private, useful).fit(train)
    return fitted, fitted.task, method


def _exact(
    protector: KnownChannel, train: ArrayRecords, test: ArrayRecords, names: Sequence[str]
) -> dict[str, AttributeScores]:
    known = read_table(train, names)
    tested = read_table(test, names, classes=known.classes)
    rows, test_rows = protector.substitution(known.x), protector.substitution(tested.x)
    return {
        name: BayesAttacker.learn(rows, known.labels[name], known.class_count(name)).score(
            test_rows, tested.labels[name]
        )
        for name in names
    }


def _same(clear: AttributeScores, measure: str) -> float:
    return clear.balanced_accuracy if measure.startswith("balanced") else clear.accuracy


def _as_utility(row: Result) -> Result:
    """What should survive: the same number is good here."""
    return Result(**{**vars(row), "group": "utility", "higher_is_better": True})
