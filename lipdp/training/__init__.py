"""Private training through Keras' own fit: plan, noise, sampled batches, ledger, models."""

from __future__ import annotations

from typing import Any

from lipdp._moved import name_that_moved
from lipdp.training.batches import PrivateBatches
from lipdp.training.model import Model, Sequential
from lipdp.training.optimizer import PrivateOptimizer
from lipdp.training.plan import TrainingPlan
from lipdp.training.report import statement_of
from lipdp.training.saving import load_model, save_for_release

__all__ = [
    "Model",
    "PrivateBatches",
    "PrivateOptimizer",
    "Sequential",
    "TrainingPlan",
    "load_model",
    "save_for_release",
    "statement_of",
]

_MOVED = {
    name: "lipdp.statistics"
    for name in ("PrivateKroneckerWhitening", "PrivateStandardization", "PrivateWhitening")
}


def __getattr__(name: str) -> Any:
    return name_that_moved(__name__, name, _MOVED)
