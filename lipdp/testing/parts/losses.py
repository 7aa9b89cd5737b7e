"""The losses of this package."""

from __future__ import annotations

import math

from lipdp import losses as ls
from lipdp.testing.parts.base import LossPart

_FINITE = (0.5, 3.0)

LOSSES = (
    LossPart("TemperedCrossentropy", ls.TemperedCrossentropy(inverse_temperature=4.0), 5),
    LossPart("TemperedCrossentropy of 2", ls.TemperedCrossentropy(inverse_temperature=1.0), 2),
    LossPart("TemperedBinaryCrossentropy", ls.TemperedBinaryCrossentropy(4.0), 1),
    LossPart("MultilabelBinaryCrossentropy", ls.MultilabelBinaryCrossentropy(4.0), 3),
    LossPart("MulticlassHinge", ls.MulticlassHinge(margin=0.3), 4),
    LossPart("OneVersusAllHinge", ls.OneVersusAllHinge(margin=0.3), 4),
    LossPart("BinaryHinge", ls.BinaryHinge(margin=0.3), 1),
    LossPart("KantorovichRubinstein", ls.KantorovichRubinstein(), 1),
    LossPart("KantorovichRubinstein of 3", ls.KantorovichRubinstein(), 3),
    LossPart("HKR", ls.HKR(alpha=3.0, margin=0.5), 1),
    LossPart("HKR of 3", ls.HKR(alpha=3.0, margin=0.5), 3),
    LossPart("CosineLoss", ls.CosineLoss(min_norm=0.5), 3),
    LossPart("MeanAbsoluteError", ls.MeanAbsoluteError(), 3),
    LossPart("MeanSquaredError", ls.MeanSquaredError(target_bound=2.0), 3, _FINITE),
    LossPart("Huber", ls.Huber(delta=1.5), 3),
    LossPart("Huber in a ball", ls.Huber(delta=9.0, target_bound=2.0), 3),
    LossPart("ClassWeighted", ls.ClassWeighted(ls.MulticlassHinge(0.3), (1.0, 0.5, 2.0)), 3),
    LossPart("ClippedLoss", ls.ClippedLoss(ls.MulticlassHinge(margin=0.3), max_norm=0.5), 4),
    LossPart("PositionwiseLoss", ls.PositionwiseLoss(ls.MulticlassHinge(0.3), positions=2), 3),
    LossPart(
        "PositionwiseLoss summed",
        ls.PositionwiseLoss(ls.TemperedCrossentropy(4.0), positions=3, over_positions="sum"),
        3,
        (3.0, math.inf),
    ),
)
