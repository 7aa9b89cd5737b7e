"""Values and derivatives of activations as computed, run under each backend."""

import functools
import math
import sys

import keras
import numpy as np
from keras import ops

from lipdp.bounds.probe import GradientProbe, Point
from lipdp.bounds.rules.activations import _CURVES, activation_bounds
from lipdp.bounds.rules.base import Shapes
from lipdp.layers.activations import AbsoluteValue
from lipdp.numerics import unit_roundoff

ONE = Shapes(((1,),), (1,))
GELU_TANH = functools.partial(keras.activations.gelu, approximate=True)
KINKS = [0.0, -0.0, 0.5, 1.0, 2.0, 3.0, 6.0]
SIZES = [10.0**k for k in (-35, -30, -20, -12, -8, -6, -5, -4, 4, 9, 12, 15, 18)]


def grid():
    """All sizes up to 1e18, above which norms count as unbounded, but subnormal ones."""
    points = [*np.linspace(-12.0, 12.0, 4001), *np.geomspace(1e-7, 120.0, 500), *KINKS, *SIZES]
    x = np.asarray([*points, *(-p for p in points)], "float32")
    near = [np.nextafter(x, np.float32(s)) for s in (-1e30, 1e30)]
    x = np.concatenate([x, *near])
    return x[(x == 0.0) | (np.abs(x) > 1e-36)]


def values_and_slopes(function, x):
    point = Point(x.shape, dtype=str(x.dtype))
    point.assign(x)
    probe = GradientProbe(point, lambda _: ops.sum(function(point.value)))
    (slopes,) = probe.probe(np.zeros(1))[1]
    y = ops.convert_to_numpy(function(ops.convert_to_tensor(x)))
    return np.asarray(y, "float64"), slopes.astype("float64")


def assert_within_bounds(function, x):
    """Each entry by itself, at a bound that is as large as the entry."""
    rule = activation_bounds(function, ONE, keras.layers.Activation("linear"))
    values, slopes = values_and_slopes(function, x)
    slack = 1.0 + rule.rounding(unit_roundoff(str(x.dtype)))
    for entry, value, slope in zip(x.tolist(), values, slopes, strict=True):
        assert abs(value) <= rule.forward_bound(abs(entry)) * slack, (function, entry, value)
        assert abs(slope) <= rule.backward_bound(abs(entry), 1.0) * slack, (function, entry, slope)


def check_every_activation():
    for function in [*_CURVES, GELU_TANH]:
        assert_within_bounds(function, grid())


def check_derivatives_that_must_be_finite():
    x = np.asarray([np.nan, np.inf, -np.inf, 3e38, -3e38], "float32")
    steady = [f for f, curve in _CURVES.items() if curve.finite]
    assert len(steady) >= 6
    for function in [*steady, AbsoluteValue()]:
        slopes = values_and_slopes(function, x)[1]
        limit = _CURVES[function].slope if function in _CURVES else 1.0
        assert np.all(np.abs(slopes) <= limit * (1.0 + 1e-6)), (function, slopes)


def check_absolute_value():
    x = np.asarray([-2.0, -0.0, 0.0, 3.0, -1e-30], "float32")
    y, slopes = values_and_slopes(AbsoluteValue(), x)
    np.testing.assert_array_equal(y, np.abs(x))
    assert np.all(np.abs(slopes) == 1.0)


def check_softmax_layers():
    rng = np.random.default_rng(0)
    for name in ("softmax", "log_softmax"):
        for scale in (0.0, 1.0, 30.0, 1e18):
            row = (scale * rng.normal(size=(1, 5))).astype("float32")
            point = Point(row.shape)
            point.assign(row)
            layer = keras.layers.Activation(name)
            rule = activation_bounds(layer.activation, Shapes(((5,),), (5,)), layer)
            probe = GradientProbe(
                point, lambda u, f=layer, p=point: ops.sum(ops.convert_to_tensor(u) * f(p.value))
            )
            rows = [probe.probe(u[None].astype("float32"))[1][0] for u in np.eye(5)]
            jacobian = np.concatenate(rows).astype("float64")
            bound = rule.backward_bound(math.sqrt(5) * scale, 1.0)
            assert np.linalg.norm(jacobian, 2) <= bound * (1.0 + rule.rounding(2.0**-24))


def main():
    for check in (
        check_every_activation,
        check_derivatives_that_must_be_finite,
        check_absolute_value,
        check_softmax_layers,
    ):
        check()


if __name__ == "__main__":
    for name in sys.argv[1:]:
        globals()[name]()
