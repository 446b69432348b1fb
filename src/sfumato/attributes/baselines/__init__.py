"""The adversarial methods PASS is compared with, on one shared training loop."""

from sfumato.attributes.baselines._game import AdversarialMethod, GameSettings, Turn
from sfumato.attributes.baselines._objectives import ADV, ALF, BDQ, GAP, MSDA, PPDAR, MaSS, SPAct

BASELINES: dict[str, type[AdversarialMethod]] = {
    method.name: method for method in (ADV, GAP, MSDA, BDQ, PPDAR, MaSS, SPAct)
}

__all__ = ["ADV", "ALF", "BASELINES", "BDQ", "GAP", "MSDA", "PPDAR", "AdversarialMethod",
           "GameSettings", "MaSS", "SPAct", "Turn"]  # fmt: skip
