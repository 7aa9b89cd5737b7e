"""Needs nothing but Keras and this package; run under each backend by test_scattering2d.py."""

import sys

import keras
import numpy as np
from keras import ops

from lipdp.layers.features import Scattering2D
from lipdp.testing import check_layer


def check_scattering():
    layer = Scattering2D(2, 4)
    x = np.random.default_rng(0).normal(size=(5, 12, 9, 2)).astype("float32")
    x[0] = 0.0
    y = ops.convert_to_numpy(layer(x))
    assert not np.any(y[0])
    steady = Scattering2D(2, 4, dtype="float64")
    if keras.backend.backend() != "jax":
        exact = ops.convert_to_numpy(steady(x.astype("float64")))
        assert exact.dtype == np.float64
        np.testing.assert_allclose(y, exact, atol=1e-3)
    np.testing.assert_allclose(np.linalg.norm(y), EXPECTED, rtol=1e-4)
    check_layer(Scattering2D(1, 2), (4, 4, 1), 2.0)


EXPECTED = 15.50061  # the norm of the output in float64, whatever the backend


if __name__ == "__main__":
    for name in sys.argv[1:]:
        globals()[name]()
