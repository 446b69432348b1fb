"""Attacks on releases and models."""

from sfumato.audit.attack._probe_dataset import probe_dataset

__all__ = ["probe_dataset"]
