"""The adversarial methods PASS is compared with, on one shared training loop."""

from sfumato.attributes.baselines._adv import ADV
from sfumato.attributes.baselines._bdq import BDQ
from sfumato.attributes.baselines._game import AdversarialMethod, GameSettings, Turn
from sfumato.attributes.baselines._gap import GAP
from sfumato.attributes.baselines._mass import MaSS
from sfumato.attributes.baselines._msda import MSDA
from sfumato.attributes.baselines._pictures import PictureMethod
from sfumato.attributes.baselines._ppdar import ALF, PPDAR
from sfumato.attributes.baselines._spact import SPAct

BASELINES: dict[str, type[AdversarialMethod]] = {
    method.name: method for method in (ADV, GAP, MSDA, BDQ, PPDAR, MaSS, SPAct)
}

__all__ = [
    "ADV",
    "ALF",
    "BASELINES",
    "BDQ",
    "GAP",
    "MSDA",
    "PPDAR",
    "AdversarialMethod",
    "GameSettings",
    "MaSS",
    "PictureMethod",
    "SPAct",
    "Turn",
]
