"""Shows how to train privately with a loss of your own: state its Lipschitz constant, then test it.

Prints what the harness found against the constant, and the accuracy of a model trained with it.
"""

import keras
import numpy as np
from keras import ops

import lipdp
from lipdp.losses import LipschitzLoss


@keras.saving.register_keras_serializable(package="example")
class SoftErrorRate(LipschitzLoss):
    """``(1 - s tanh z) / 2``, s = 1 for label 1 and -1 for label 0: a smooth count of errors."""

    task = "binary"

    def call(self, y_true, y_pred):
        # Whatever a label or a logit is, NaN included, what is computed with is in its set.
        logit = ops.reshape(y_pred, (-1,))
        logit = ops.where(ops.isfinite(logit), logit, ops.zeros_like(logit))
        label = ops.cast(ops.reshape(y_true, (-1,)), logit.dtype)
        one = ops.ones_like(logit)
        return (1.0 - ops.where(label > 0.5, one, -one) * ops.tanh(logit)) / 2.0

    def lipschitz(self, logit_bound, num_outputs):
        return 0.5  # |d/dz tanh z / 2| = (1 - tanh^2 z) / 2 <= 1 / 2


report = lipdp.testing.check_loss(SoftErrorRate(), num_outputs=1, logit_bound=5.0)
print(f"largest gradient found: {report.best:.4f} of the bound")

rng = np.random.default_rng(0)
x = rng.normal(size=(3000, 10))
y = (x[:, 0] > x[:, 1]).astype("int64")
model = lipdp.Sequential(
    [lipdp.layers.BoundedInput((10,), radius=5.0), lipdp.layers.FrobeniusDense(1)]
)
model.compile(
    keras.optimizers.SGD(0.5, momentum=0.9),
    SoftErrorRate(),
    metrics=["accuracy"],
    privacy=lipdp.PrivacyBudget(epsilon=4.0, delta=1e-5),
)
model.fit(x[:2500], y[:2500], batch_size=500, epochs=5, verbose=0)
accuracy = model.evaluate(x[2500:], y[2500:], verbose=0, return_dict=True)["accuracy"]
print(f"accuracy {accuracy:.3f} at epsilon {model.ledger.epsilon(1e-5):.2f}")
