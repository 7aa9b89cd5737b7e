import math

import pytest
from keras import ops

from lipdp.errors import BoundViolation
from lipdp.losses import BinaryHinge, KantorovichRubinstein, LipschitzLoss, TemperedCrossentropy
from lipdp.testing import check_loss


class Half(TemperedCrossentropy):
    def lipschitz(self, logit_bound, num_outputs):
        return 0.5 * super().lipschitz(logit_bound, num_outputs)

    def rounding(self, logit_bound, num_outputs, unit):
        return 1e-6


class OtherLogitsAtZero(TemperedCrossentropy):
    """The value at K = 10, tau R = 4 if all logits but two were 0: 1 % too small."""

    def lipschitz(self, logit_bound, num_outputs):
        return 1.3124

    def rounding(self, logit_bound, num_outputs, unit):
        return 1e-6


class Plain(LipschitzLoss):
    """Cross-entropy as Keras writes it, which trusts its labels."""

    def call(self, y_true, y_pred):
        labels = ops.one_hot(ops.cast(y_true, "int32"), y_pred.shape[-1])
        if len(y_true.shape) == 2 and y_true.shape[-1] == y_pred.shape[-1]:
            labels = y_true
        return -ops.sum(ops.reshape(labels, ops.shape(y_pred)) * ops.log_softmax(y_pred), axis=-1)

    def lipschitz(self, logit_bound, num_outputs):
        return math.sqrt(2)


class BatchWeighted(KantorovichRubinstein):
    """Class weights from the labels of the batch."""

    def call(self, y_true, y_pred):
        labels = ops.reshape(ops.cast(y_true, y_pred.dtype), (-1,))
        return super().call(y_true, y_pred) * ops.clip(ops.mean(labels), 0.1, 1.0)


class BatchNormalized(BinaryHinge):
    def call(self, y_true, y_pred):
        return super().call(y_true, y_pred) / (1.0 + ops.mean(ops.abs(ops.stop_gradient(y_pred))))


class ProductMask(LipschitzLoss):
    """Removes bad samples by a product: 0 times NaN is NaN."""

    def call(self, y_true, y_pred):
        labels = ops.reshape(ops.cast(y_true, y_pred.dtype), (-1,))
        finite = ops.cast(ops.isfinite(labels), y_pred.dtype)
        return finite * ops.clip(labels, -1.0, 1.0) * y_pred[:, 0]

    def lipschitz(self, logit_bound, num_outputs):
        return 1.0


@pytest.mark.parametrize(
    ("loss", "outputs", "bound", "message"),
    [
        (Half(1.0), 10, 2.0, "above the bound"),
        (Half(1.0), 10, math.inf, "above the bound"),
        (OtherLogitsAtZero(1.0), 10, 4.0, "above the bound"),
        (Plain(), 3, math.inf, "above the bound"),
        (ProductMask(), 1, math.inf, "above the bound"),
        (BatchWeighted(), 1, 2.0, "depends on other samples"),
        (BatchNormalized(), 1, 2.0, "depends on other samples|nan"),
    ],
)
def test_broken_losses_are_caught(loss, outputs, bound, message):
    with pytest.raises(BoundViolation, match=message):
        check_loss(loss, outputs, bound)


def test_the_search_attains_the_supremum():
    assert check_loss(TemperedCrossentropy(1.0), 10, 4.0).best > 0.99
    assert check_loss(TemperedCrossentropy(1.0), 2, 1.0).best > 0.99999
