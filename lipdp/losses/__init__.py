"""Losses with a proved constant: ``lipschitz(logit_bound, num_outputs)``."""

from lipdp.losses.base import LipschitzLoss
from lipdp.losses.binary_hinge import BinaryHinge
from lipdp.losses.class_weighted import ClassWeighted
from lipdp.losses.clipped_loss import ClippedLoss
from lipdp.losses.cosine_loss import CosineLoss
from lipdp.losses.hkr import HKR
from lipdp.losses.huber import Huber
from lipdp.losses.kantorovich_rubinstein import KantorovichRubinstein
from lipdp.losses.mean_absolute_error import MeanAbsoluteError
from lipdp.losses.mean_squared_error import MeanSquaredError
from lipdp.losses.multiclass_hinge import MulticlassHinge
from lipdp.losses.multilabel_binary_crossentropy import MultilabelBinaryCrossentropy
from lipdp.losses.one_versus_all_hinge import OneVersusAllHinge
from lipdp.losses.positionwise_loss import PositionwiseLoss
from lipdp.losses.tempered_binary_crossentropy import TemperedBinaryCrossentropy
from lipdp.losses.tempered_crossentropy import TemperedCrossentropy
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
