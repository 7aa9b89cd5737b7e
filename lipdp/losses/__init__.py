"""Losses with a proved constant: ``lipschitz(logit_bound, num_outputs)``."""

from lipdp.losses.base import LipschitzLoss
from lipdp.losses.crossentropy import (
    MultilabelBinaryCrossentropy,
    TemperedBinaryCrossentropy,
    TemperedCrossentropy,
)
from lipdp.losses.hinge import (
    HKR,
    BinaryHinge,
    KantorovichRubinstein,
    MulticlassHinge,
    OneVersusAllHinge,
)
from lipdp.losses.regression import CosineLoss, Huber, MeanAbsoluteError, MeanSquaredError
from lipdp.losses.wrappers import ClassWeighted, ClippedLoss, PositionwiseLoss
from lipdp.registry import Registry

#: Every loss of this package by its name in a configuration.
LOSSES = Registry("lipdp.losses", "loss")

__all__ = [
    "LOSSES",
    "BinaryHinge",
    "ClassWeighted",
    "ClippedLoss",
    "CosineLoss",
    "HKR",
    "Huber",
    "KantorovichRubinstein",
    "LipschitzLoss",
    "MeanAbsoluteError",
    "MeanSquaredError",
    "MulticlassHinge",
    "MultilabelBinaryCrossentropy",
    "OneVersusAllHinge",
    "PositionwiseLoss",
    "TemperedBinaryCrossentropy",
    "TemperedCrossentropy",
]
