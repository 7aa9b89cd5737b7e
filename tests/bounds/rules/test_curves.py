"""Suprema of slopes, recomputed in float64."""

import math

import numpy as np
import pytest
from scipy.special import erf, expit

from lipdp.bounds.rules import activations
from lipdp.bounds.rules.activations import Curve, Pointwise

SELU_SLOPE = 1.6732632423543772 * 1.0507009873554805


def tanh_gelu(x):
    root = math.sqrt(2.0 / math.pi)
    t = np.tanh(root * (x + 0.044715 * x**3))
    return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * root * (1.0 + 3 * 0.044715 * x * x)


def mish(x):
    t = np.tanh(np.log1p(np.exp(x)))
    return t + x * expit(x) * (1.0 - t * t)


DERIVATIVES = {
    "GELU": lambda x: 0.5 * (1 + erf(x / 2**0.5)) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi),
    "GELU_TANH": tanh_gelu,
    "SILU": lambda x: expit(x) * (1.0 + x * (1.0 - expit(x))),
    "MISH": mish,
    "SELU": lambda x: np.where(x > 0, SELU_SLOPE / 1.6732632423543772, SELU_SLOPE * np.exp(x)),
    "SIGMOID": lambda x: expit(x) * expit(-x),
    "SOFTPLUS": expit,
    "TANH_SHRINK": lambda x: np.tanh(x) ** 2,
    "SQUAREPLUS": lambda x: 0.5 + 0.5 * x / np.sqrt(x * x + 4.0),
    "SPARSE_PLUS": lambda x: np.clip(0.5 * (1 + x), 0.0, 1.0),
    "HARD_SILU": lambda x: np.where(np.abs(x) < 3, (2 * x + 3) / 6, np.where(x > 0, 1.0, 0.0)),
}
PEAKED = ["GELU", "GELU_TANH", "SILU", "MISH"]
#: Bound of |f''| away from jumps of f'; checked against differences below.
CURVATURE = 2.0


def supremum(derivative, low, high, step=1e-2, depth=4):
    """An upper bound of ``max |f'|`` within 1e-8: only the best cells are refined."""
    cells = np.arange(low, high, step)
    for _ in range(depth):
        best = np.abs(derivative(cells)).max()
        reach = CURVATURE * step
        cells = cells[np.abs(derivative(cells)) + reach > best]
        step /= 40.0
        cells = (cells[:, None] + step * np.arange(40)[None, :]).ravel()
    return float(np.abs(derivative(cells)).max() + CURVATURE * step)


@pytest.mark.parametrize("name", PEAKED)
def test_constants_are_suprema_rounded_up(name):
    stated = getattr(activations, name).slope
    # Further out the derivative is 0 or 1, up to 1e-12.
    exact = supremum(DERIVATIVES[name], -40.0, 40.0)
    assert exact <= stated < exact + 1e-5


def test_the_steepest_point_of_selu_is_just_below_0():
    assert SELU_SLOPE <= activations.SELU.slope < SELU_SLOPE + 1e-5


@pytest.mark.parametrize("name", PEAKED)
def test_curvature_is_as_assumed(name):
    x = np.arange(-40.0, 40.0, 1e-3)
    assert np.abs(np.diff(DERIVATIVES[name](x))).max() < 0.5 * CURVATURE * 1e-3


@pytest.mark.parametrize("name", sorted(set(DERIVATIVES) - {"SIGMOID"}))
def test_slopes_up_to_x_are_suprema_over_the_interval(name):
    curve, derivative = getattr(activations, name), DERIVATIVES[name]
    for x in (0.0, 1e-6, 0.1, 0.7, 1.0, 1.3, math.sqrt(2), 1.5, 2.0, 2.3992, 2.3994, 3.0, 9.0):
        exact = np.abs(derivative(np.linspace(-x, x, 20001))).max()
        assert exact <= curve.slope_up_to(x) <= curve.slope
        if curve.local is not None and name != "TANH_SHRINK":
            assert curve.slope_up_to(x) - exact < 1e-3
    assert curve.slope - 1e-5 < curve.slope_up_to(math.inf) <= curve.slope


def test_restricted_slopes_pay_where_inputs_are_small():
    assert Pointwise(activations.GELU, 8).backward_bound(0.1, 1.0) < 0.59
    assert Pointwise(activations.SILU, 8).backward_bound(0.1, 1.0) < 0.56
    assert Pointwise(activations.GELU, 8).backward_bound(1e3, 1.0) > 1.1289


def test_forward_bounds():
    sigmoid = Pointwise(activations.SIGMOID, 16)
    assert sigmoid.forward_bound(2.0) == 2.5
    assert sigmoid.forward_bound(1e3) == 4.0
    assert Pointwise(activations.SOFTPLUS, 16).forward_bound(0.0) >= 4 * math.log(2)
    assert Pointwise(activations.TANH, 16).forward_bound(9.0) == 4.0
    assert Pointwise(activations.TANH, 16).forward_bound(math.inf) == math.inf


def test_nothing_is_stated_of_the_derivative_at_nan_where_it_is_nan():
    assert Pointwise(activations.TANH, 4).backward_bound(math.inf, 1.0) == math.inf
    assert Pointwise(activations.RELU, 4).backward_bound(math.inf, 1.0) == 1.0


def test_celu_has_two_numbers():
    rule = Pointwise(activations.CELU, 4)
    assert (rule.backward_bound(1.0, 1.0), rule.lipschitz(1.0)) == (2.0, 1.0)
    assert Pointwise(Curve(slope=2.0, local=lambda x: 0.5), 4).lipschitz(1.0) < 0.51
