"""When certified accuracy means something."""

import keras
import pytest

from lipdp import losses
from lipdp.training.metrics import certified_metric, sums_over_rows

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


def test_sums_are_told_from_means():
    """Twice the same rows give twice the value, or the same."""
    kinds = keras.metrics
    sums = [kinds.Sum(), kinds.TruePositives(), kinds.TrueNegatives()]
    sums += [kinds.FalsePositives(), kinds.FalseNegatives()]
    means = [kinds.Mean(), kinds.BinaryAccuracy(), kinds.AUC(), kinds.Recall(), kinds.F1Score()]
    assert len(sums_over_rows({"a": sums, "b": [*means, None, "accuracy"]})) == len(sums)
    assert sums_over_rows(["true_positives", "TruePositives", "sum", "auc"]) == [
        "TruePositives",
        "TruePositives",
        "Sum",
    ]
    rows = [[1.0], [0.0], [1.0], [0.0]], [[0.9], [0.8], [0.2], [0.1]]
    of_values = (kinds.Sum, kinds.Mean)
    for metric in (*sums, *means):
        values = []
        for times in (1, 2):
            metric.reset_state()
            for _ in range(times):
                metric.update_state(*(rows[:1] if type(metric) in of_values else rows))
            values.append(float(keras.ops.sum(metric.result())))
        assert values[1] == pytest.approx(values[0] * (2 if metric in sums else 1)), metric.name
