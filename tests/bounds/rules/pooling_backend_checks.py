"""Jacobians of poolings as a compiled training step returns them; run by test_pooling.py."""

import itertools
import sys

import keras
import numpy as np
from keras import ops

from lipdp.bounds.probe import GradientProbe, Point
from lipdp.bounds.rules.base import Shapes
from lipdp.bounds.rules.pooling import RULES
from lipdp.layers.pooling import (
    GlobalL2NormPooling,
    L2NormPooling2D,
    L2NormPooling3D,
    ScaledAveragePooling2D,
)
from lipdp.numerics import unit_roundoff

SAMPLE = (4, 3, 2)
VOLUME = (2, 3, 4, 2)


def jacobians(layer, inputs):
    """Rows by automatic differentiation, one copy of the sample for each output."""
    outputs = int(np.prod(layer(ops.zeros((1, *inputs[0].shape))).shape))
    point = Point((outputs, *inputs[0].shape))

    def paired(cotangents):
        return ops.sum(
            ops.reshape(layer(point.value), (outputs, outputs)) * ops.cast(cotangents, "float32")
        )

    probe = GradientProbe(point, paired)
    for x in inputs:
        point.assign(np.repeat(x[None], outputs, axis=0))
        gradient = probe.probe(np.eye(outputs, dtype="float32"))[1][0]
        yield gradient.astype("float64").reshape(outputs, -1)


def points(sample):
    rng = np.random.default_rng(0)
    spike = np.zeros(sample)
    spike[tuple(n // 2 for n in sample)] = 1.0
    shapes = [np.zeros(sample), np.ones(sample), -np.ones(sample), spike]
    shapes += [np.full(sample, -0.0), rng.integers(0, 2, sample), rng.normal(size=sample)]
    return [x.astype("float32") for x in [*shapes, 1e-20 * shapes[-1], 2.0**55 * shapes[-1]]]


def check(layer, least, sample=SAMPLE):
    """Every Jacobian and output within its bound, the largest Jacobian near it."""
    inputs = points(sample)
    tensor = ops.convert_to_tensor(inputs[0][None])
    shapes = Shapes((sample,), tuple(layer(tensor).shape[1:]))
    rule = RULES[type(layer)](layer, shapes) if type(layer) in RULES else layer
    slack = 1.0 + rule.rounding(unit_roundoff("float32"))
    norms = [np.linalg.norm(matrix, 2) for matrix in jacobians(layer, inputs)]
    bound = rule.backward_bound(1.0, 1.0)
    assert max(norms) <= bound * slack, (layer.get_config(), norms, bound)
    assert max(norms) >= least * bound, (layer.get_config(), norms, bound)
    for x in inputs:
        output = ops.convert_to_numpy(layer(ops.convert_to_tensor(x[None]))).astype("float64")
        assert np.linalg.norm(output) <= rule.forward_bound(np.linalg.norm(x)) * slack


def geometries():
    for size, stride, padding in itertools.product((2, 3, (3, 2)), (1, 2), ("valid", "same")):
        yield {"pool_size": size, "strides": stride, "padding": padding}


def check_keras_poolings():
    for arguments in geometries():
        check(keras.layers.MaxPooling2D(**arguments), 0.5)
        check(keras.layers.AveragePooling2D(**arguments), 1.0 - 1e-5)
    # How TensorFlow breaks ties of volumes depends on the kernel.
    check(keras.layers.MaxPooling3D(2, padding="same"), 0.3, VOLUME)
    check(keras.layers.AveragePooling3D(2, padding="same"), 1.0 - 1e-5, VOLUME)
    check(keras.layers.GlobalMaxPooling2D(), 1.0 - 1e-5)
    check(keras.layers.GlobalAveragePooling2D(), 1.0 - 1e-5)


def check_own_poolings():
    for arguments in geometries():
        check(L2NormPooling2D(**arguments), 0.5)
        check(ScaledAveragePooling2D(**arguments), 1.0 - 1e-5)
    check(L2NormPooling3D(2, padding="same"), 1.0 - 1e-5, VOLUME)
    check(GlobalL2NormPooling(), 1.0 - 1e-5)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        globals()[name]()
