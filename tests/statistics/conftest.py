"""What every layer made of private statistics must keep."""

import math

import numpy as np
import pytest

import lipdp


@pytest.fixture
def check_units():
    """``check_units(model, x, matrix)``: a linear head behind ``x @ matrix`` in a ball of 2."""
    return _check_units


def _check_units(model, x, matrix):
    # The gradient bound behind the ball does not depend on the statistics.
    (bound,) = model.gradient_bounds().parameters
    assert bound == pytest.approx(math.sqrt(2.0), rel=1e-3)
    exact = np.linalg.norm(matrix, 2) / 2.0
    assert exact * (1 - 1e-5) <= model.lipschitz_constant() <= exact * (1 + 1e-3)
    # No step of the certified length against the margin changes a class.
    found = lipdp.certify(model, x)
    kernel = np.asarray(model.layers[-1].kernel)
    whole = matrix @ (kernel[:, 1] - kernel[:, 0])
    sign = np.where(found.predictions == 1, -1.0, 1.0)[:, None]
    moved = x + 0.999 * sign * found.radii[:, None] * whole / np.linalg.norm(whole)
    assert (found.radii > 0).mean() > 0.5
    assert (lipdp.certify(model, moved.astype(x.dtype)).predictions == found.predictions).all()
