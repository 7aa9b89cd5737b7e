import keras
import numpy as np
import pytest

from lipdp.audit import audit_gradients
from lipdp.errors import BoundViolation
from lipdp.layers import BoundedInput, NonExpansiveLayer, SpectralDense
from lipdp.losses import MulticlassHinge


def rows():
    x = np.random.default_rng(0).normal(size=(20, 4)).astype("float32")
    return x, np.arange(20) % 3


def test_bounds_hold_and_the_hinge_attains_them():
    model = keras.Sequential([BoundedInput((4,), radius=1.0), SpectralDense(3)])
    audit = audit_gradients(model, MulticlassHinge(margin=5.0), *rows())
    assert audit.rows == 20
    assert 0.95 < audit.tightness <= 1.0


def test_a_lying_layer_is_caught():
    class Loud(NonExpansiveLayer):
        def call(self, inputs):
            return 3.0 * inputs

    model = keras.Sequential([BoundedInput((4,), radius=1.0), Loud(), SpectralDense(3)])
    with pytest.raises(BoundViolation, match="row 0"):
        audit_gradients(model, MulticlassHinge(margin=5.0), *rows())
