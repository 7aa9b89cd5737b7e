"""When certified accuracy means something."""

import pytest

from lipdp import losses
from lipdp.training.metrics import certified_metric

HINGE = losses.MulticlassHinge()


@pytest.mark.parametrize(
    ("loss", "outputs", "radius"),
    [
        (losses.MeanAbsoluteError(), 3, 0.1),
        (losses.MultilabelBinaryCrossentropy(), 3, 0.1),
        (losses.PositionwiseLoss(HINGE, 4), 3, 0.1),
        (HINGE, 3, None),
        (HINGE, None, 0.1),
    ],
)
def test_none_where_a_record_has_not_one_class(loss, outputs, radius):
    assert certified_metric(outputs, loss, radius) is None


@pytest.mark.parametrize("loss", [HINGE, losses.TemperedBinaryCrossentropy()])
def test_one_class_a_record(loss):
    assert certified_metric(3, loss, 0.1) is not None
