"""Five papers' settings: what each claims, and what its mechanism as published really gives.

The noise is recomputed the way the paper computed it (Renyi orders of common libraries, or its own
formula); the truth is then accounted from the event. Figures that are only known from below carry
``at_least`` and are no guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sfumato.privacy._events import Bounds, Event, Gaussian, Group, SharedBatch
from sfumato.privacy._guarantee import Guarantee, NoGuarantee, format_epsilon
from sfumato.privacy._units import Relation, Unit
from sfumato.privacy.accounting._accountant import epsilon_of
from sfumato.privacy.accounting._calibration import _search, dpsgd_event, dpsgd_schedule
from sfumato.privacy.accounting._rdp import GOOGLE_ORDERS, epsilon_by_rdp
from sfumato.privacy.accounting._terms import AccountingError, terms_of


@dataclass(frozen=True)
class Truth:
    """One true statement about a published setting.

    ``promise`` is the guarantee that does hold; ``at_least`` a proven lower bound on epsilon where no
    upper bound is known. Both name unit, relation, delta and accountant.
    """

    what: str
    unit: Unit
    relation: Relation
    delta: float
    accountant: str
    promise: Guarantee | NoGuarantee | None = None
    at_least: float | None = None

    @property
    def epsilon(self) -> float:
        if isinstance(self.promise, Guarantee):
            return self.promise.epsilon
        return math.inf if self.at_least is None else self.at_least

    @property
    def stated(self) -> str:
        """Upper bounds are rounded up, lower bounds down, so that neither says too much."""
        if self.at_least is None:
            return format_epsilon(self.epsilon) if math.isfinite(self.epsilon) else "no guarantee"
        scale = 10.0 ** (2 - math.floor(math.log10(self.at_least)))
        return f"at least {math.floor(self.at_least * scale) / scale:.6g}"


@dataclass(frozen=True)
class PublishedSetting:
    """A paper's experiment as it describes it, and the epsilons it prints."""

    name: str
    paper: str
    claim: str
    claimed: tuple[float, ...]
    delta: float
    describe: Callable[[PublishedSetting, float], Iterator[Truth]]
    records: int = 0
    batch: int = 0
    epochs: int = 0
    records_per_person: int = 0

    def noise_multiplier(self, epsilon: float) -> float:
        """The noise the paper used for its claim."""
        if self.name == "video-dprp":
            return dprp_noise(epsilon, self.delta)
        return published_rdp_noise(epsilon, self.delta, *self.schedule)

    @property
    def schedule(self) -> tuple[float, int]:
        return dpsgd_schedule(batch=self.batch, records=self.records, epochs=self.epochs)


def truths(name: str) -> Iterator[tuple[PublishedSetting, float, Truth]]:
    """Every true statement for every claimed epsilon of the setting ``name`` (or of ``all``)."""
    if name != "all" and name not in PUBLISHED:
        raise AccountingError(
            f"Expected a published setting out of {', '.join(PUBLISHED)} or all, got {name!r}."
        )
    for setting in PUBLISHED.values():
        if name in {"all", setting.name}:
            for claimed in setting.claimed:
                for truth in setting.describe(setting, claimed):
                    yield setting, claimed, truth


def published_rdp_noise(epsilon: float, delta: float, sampling_rate: float, steps: int) -> float:
    """The multiplier that add-remove Renyi accounting with the usual library orders asks for."""

    def evaluate(noise: float) -> float:
        terms = terms_of(dpsgd_event(noise, sampling_rate, steps), Relation.ADD_REMOVE)
        return epsilon_by_rdp(terms, delta, GOOGLE_ORDERS)

    return _search(evaluate, epsilon, 1.0)


def dprp_noise(epsilon: float, delta: float, *, share: float = 0.8, k: int = 3072) -> float:
    """sigma_1 of Video-DPRP: its Theorem 3 with theta = 255/sqrt(k) and 80 % of the budget."""
    epsilon, delta = share * epsilon, share * delta
    tail = math.log(2 / delta)
    row = math.sqrt((k + 2 * math.sqrt(k * tail) + 2 * tail) / k)
    gauss = math.sqrt(2 * (math.log(1 / (2 * delta)) + epsilon)) / epsilon
    return 255 / math.sqrt(k) * row * gauss


def _dpsgd_truths(setting: PublishedSetting, claimed: float, unit: Unit) -> Iterator[Truth]:
    noise = setting.noise_multiplier(claimed)
    q, steps = setting.schedule
    shared = SharedBatch(q, Gaussian(noise), steps)
    independent = dpsgd_event(noise, q, steps)

    def holds(what: str, event: Event, who: Unit, relation: Relation) -> Truth:
        promise = Guarantee(
            mechanism=f"{setting.paper}, noise multiplier {noise:.4g}",
            unit=who,
            relation=relation,
            delta=setting.delta,
            event=event,
            accountant="pld",
            public=unit.public,
        )
        return Truth(what, who, relation, setting.delta, "pld", promise)

    for relation in (Relation.ZERO_OUT, Relation.REPLACE):
        yield holds("as published: the public stream shows the batch", shared, unit, relation)
    for relation in (Relation.ZERO_OUT, Relation.REPLACE):
        yield holds("if the public batch were independent", independent, unit, relation)
    if setting.name.startswith("maskdp"):
        # Lemma C: the pair ((1-q) N(0) + q N(2C), N(0)) is attained, so this bounds from below
        realised = epsilon_of(dpsgd_event(noise / 2, q, steps), setting.delta, Relation.ADD_REMOVE)
        yield Truth(
            "independent, but divided by the realised batch size",
            unit,
            Relation.REPLACE,
            setting.delta,
            "pld",
            at_least=realised,
        )
    if setting.records_per_person:
        m = setting.records_per_person
        yield holds(
            f"independent, for a person with {m} records",
            Group(independent, m),
            Unit.person(m),
            Relation.ZERO_OUT,
        )


def _maskdp(setting: PublishedSetting, claimed: float) -> Iterator[Truth]:
    return _dpsgd_truths(setting, claimed, Unit.masked_tokens())


def _pose(setting: PublishedSetting, claimed: float) -> Iterator[Truth]:
    return _dpsgd_truths(setting, claimed, Unit.features("Gaussian blur 25x25"))


def _dprp(setting: PublishedSetting, claimed: float) -> Iterator[Truth]:
    noise = setting.noise_multiplier(claimed)
    pixels = 320 * 240
    for unit, count, frames in (
        (Unit.pixels(1, frames=1), 1, 1),
        (Unit.pixels(16, frames=1), 16, 1),
        (Unit.frame(), pixels, 1),
        (Unit.clip(), pixels, 180),
    ):
        moved = 255 * math.sqrt(3 * count * frames)
        event = Gaussian(noise / moved, Bounds.DIFFERENCE)
        # the norm of the projected change is taken as that of the change: data chosen after the
        # public basis can do worse, so this is a lower bound
        value = epsilon_of(event, setting.delta, Relation.REPLACE, "analytic-gaussian")
        yield Truth(
            "as published: noise for 1/sqrt(k) of one value",
            unit,
            Relation.REPLACE,
            setting.delta,
            "analytic-gaussian",
            at_least=value,
        )


def _pass(setting: PublishedSetting, claimed: float) -> Iterator[Truth]:
    promise = NoGuarantee(
        mechanism=setting.paper,
        reason=(
            "Its Theorem B.1 is about an attacker's averaged guess, not about the release; the release "
            "at tau = 0.01 is bounded only by a log-ratio of 4/tau = 400, donors are published "
            "verbatim, and the training set is unprotected."
        ),
    )
    yield Truth(
        "as published: no guarantee",
        Unit.record(),
        Relation.REPLACE,
        setting.delta,
        "none",
        promise,
    )


_SETTINGS = (
    PublishedSetting(
        "maskdp-ntu",
        "MaskDP on NTU",
        "epsilon for exchanging the private tokens of one clip",
        (0.1, 0.25, 0.5, 0.75, 1.0, 5.0),
        1e-6,
        _maskdp,
        records=40_000,
        batch=128,
        epochs=150,
        records_per_person=2000,
    ),
    PublishedSetting(
        "maskdp-ucf",
        "MaskDP on UCF101",
        "epsilon for exchanging the private tokens of one clip",
        (0.5, 1.0, 5.0),
        1e-5,
        _maskdp,
        records=9537,
        batch=128,
        epochs=300,
        records_per_person=7,
    ),
    PublishedSetting(
        "maskdp-tsh",
        "MaskDP on Toyota Smarthome (10 000 records assumed)",
        "epsilon for exchanging the private tokens of one clip",
        (0.1, 0.25, 0.5, 0.75, 1.0, 5.0),
        1e-5,
        _maskdp,
        records=10_000,
        batch=128,
        epochs=150,
    ),
    PublishedSetting(
        "pose-mpii",
        "Feature-private pose on MPII (batch 64 assumed)",
        "epsilon for exchanging one picture",
        (0.2, 0.4, 0.6, 0.8),
        4e-5,
        _pose,
        records=22_246,
        batch=64,
        epochs=25,
        records_per_person=3,
    ),
    PublishedSetting(
        "video-dprp",
        "Video-DPRP",
        "epsilon for exchanging one frame",
        (2.0, 5.0, 8.0),
        1e-4,
        _dprp,
    ),
    PublishedSetting(
        "pass",
        "PASS",
        "(0, sqrt(2 gamma))-privacy of private attributes",
        (0.0,),
        0.0,
        _pass,
    ),
)
PUBLISHED: dict[str, PublishedSetting] = {setting.name: setting for setting in _SETTINGS}
