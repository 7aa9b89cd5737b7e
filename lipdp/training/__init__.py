"""Private training through Keras' own fit: plan, noise, sampled batches, ledger, models."""

from lipdp.training.batches import PrivateBatches
from lipdp.training.model import Model, Sequential
from lipdp.training.optimizer import PrivateOptimizer
from lipdp.training.plan import TrainingPlan
from lipdp.training.report import statement_of
from lipdp.training.saving import load_model, save_for_release
from lipdp.training.statistics import (
    PrivateKroneckerWhitening,
    PrivateStandardization,
    PrivateWhitening,
)

__all__ = [
    "Model",
    "PrivateBatches",
    "PrivateKroneckerWhitening",
    "PrivateOptimizer",
    "PrivateStandardization",
    "PrivateWhitening",
    "Sequential",
    "TrainingPlan",
    "load_model",
    "save_for_release",
    "statement_of",
]
