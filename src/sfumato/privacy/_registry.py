"""A card in the YAML of the OpenDP deployments registry, as a draft for its authors to complete."""

from __future__ import annotations

from typing import Any

import yaml

from sfumato.privacy._card import Card
from sfumato.privacy._card_page import checklist
from sfumato.privacy._card_text import CardError
from sfumato.privacy._guarantee import Guarantee


def registry_entry(
    card: Card, *, name: str, curator: str, intended_use: str, region: str = "Global"
) -> str:
    """The registry entry of one deployment. Only a release with a Guarantee can be registered."""
    promise = card.promise
    if not isinstance(promise, Guarantee):
        raise CardError("Only a release with a guarantee can be registered; this one has none.")
    if not promise.is_private:
        raise CardError("A seeded run is not private and cannot be registered.")
    answers = checklist(card)
    is_model = any(output.name.endswith(".safetensors") for output in card.outputs)
    kind = "Machine learning model" if is_model else "Dataset"
    entry: dict[str, Any] = {
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "product": {
                "name": name,
                "data_curators": [curator],
                "intended_use": intended_use,
                "data_product_type": kind,
                "data_product_region": region,
                "description": card.done,
                "publication_date": card.created,
            },
            "dp_flavor": {
                "name": "Pure DP" if promise.delta == 0 else "Approximate DP",
                "input_metric": promise.relation.value,
                "data_domain": promise.unit.sentence,
                "unprotected_quantities": answers["Public by assumption"],
            },
            "privacy_loss": {
                "privacy_unit": str(promise.unit),
                "privacy_unit_description": f"{promise.unit.sentence}; {promise.relation.sentence}",
                "privacy_parameters": {"epsilon": promise.epsilon, "delta": promise.delta},
                "privacy_parameters_description": str(promise),
            },
            "model": {
                "model_name": card.model_of_trust.capitalize(),
                "actors": answers["Setting (who is trusted)"],
                "release_type": "One release",
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": answers["Post-processing"],
                "composition": f"{promise.accountant} over {promise.event.name}",
            },
            "implementation": {
                "pre_processing_eda_hyperparameter_tuning": card.tuning,
                "mechanisms": f"{answers['Mechanism']}; sfumato {card.versions['sfumato']}",
                "justification": answers["Assumptions the code does not enforce"],
            },
        },
    }
    return yaml.safe_dump(entry, sort_keys=False, allow_unicode=True, width=100)
