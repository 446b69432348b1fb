"""Units, relations, events, guarantees and the accounting that connects them. Imports no torch."""

from sfumato.privacy._accounting import (
    ACCOUNTANTS,
    delta_of,
    epsilon_of,
    gdp_mu,
    true_positive_bound,
)
from sfumato.privacy._card import Card, CardError, Output, card_path, check_outputs, read_card
from sfumato.privacy._events import (
    ApproximateRelease,
    Bounds,
    Composed,
    Event,
    EventError,
    ExponentialChoice,
    Gaussian,
    Group,
    Laplace,
    NoAccess,
    PoissonSampled,
    RandomizedResponse,
    SelfComposed,
    SharedBatch,
    event_from_json,
)
from sfumato.privacy._guarantee import (
    Guarantee,
    GuaranteeError,
    NoGuarantee,
    format_epsilon,
    promise_from_json,
)
from sfumato.privacy._randomness import Randomness
from sfumato.privacy._terms import AccountingError
from sfumato.privacy._units import Relation, Unit, UnitError, UnitKind, UnitMismatchError

__all__ = [
    "ACCOUNTANTS",
    "AccountingError",
    "ApproximateRelease",
    "Bounds",
    "Card",
    "CardError",
    "Composed",
    "Event",
    "EventError",
    "ExponentialChoice",
    "Gaussian",
    "Group",
    "Guarantee",
    "GuaranteeError",
    "Laplace",
    "NoAccess",
    "NoGuarantee",
    "Output",
    "PoissonSampled",
    "RandomizedResponse",
    "Randomness",
    "Relation",
    "SelfComposed",
    "SharedBatch",
    "Unit",
    "UnitError",
    "UnitKind",
    "UnitMismatchError",
    "card_path",
    "check_outputs",
    "delta_of",
    "epsilon_of",
    "event_from_json",
    "format_epsilon",
    "gdp_mu",
    "promise_from_json",
    "read_card",
    "true_positive_bound",
]
