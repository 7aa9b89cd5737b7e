"""What the plan adds to the bounds of one record."""

import math
from dataclasses import replace

import keras
import numpy as np
import pytest

import lipdp
from lipdp.layers import BoundedInput, SpectralDense
from lipdp.losses import MulticlassHinge
from lipdp.privacy import PrivacyLedger
from lipdp.training.noise import NoiseState
from lipdp.training.plan import Request, make_plan

POSITIONS, CHANNELS = 50, 4


def plan_of(dtype):
    model = lipdp.Sequential(
        [
            BoundedInput((POSITIONS, CHANNELS), radius=1.0, dtype=dtype),
            SpectralDense(2, dtype=dtype),
            keras.layers.Flatten(dtype=dtype),
            SpectralDense(2, dtype=dtype),
        ]
    )
    budget = lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5)
    model.compile(keras.optimizers.SGD(0.1), MulticlassHinge(), privacy=budget)
    x, y = np.zeros((40, POSITIONS, CHANNELS)), np.zeros(40, "int64")
    model.fit(x, y, batch_size=20, verbose=0)
    return model.plan


def test_a_float64_sum_runs_over_rows_and_positions():
    plan = plan_of("float64")
    rows = plan.capacity.rows
    # Two sums of n terms, each right to n u times the sum of the rows' norms (Higham, 4.2).
    least = 2.0 * rows * (rows * POSITIONS) * 2.0**-53
    for sensitivity, bound in zip(plan.sensitivities, plan.bounds.parameters, strict=True):
        assert sensitivity / bound - 1.0 >= 0.999 * least
    assert plan.covers_summation
    assert plan.sensitivities == pytest.approx(plan.bounds.parameters, rel=1e-8)


def test_a_float32_sum_is_named_as_not_covered():
    plan = plan_of("float32")
    assert not plan.covers_summation
    assert plan.sensitivities == tuple(plan.bounds.parameters)


@pytest.mark.parametrize("factor", [1.0, 0.7, 1 / 3])
def test_noise_is_large_enough_as_a_float32_step_scales_it(make_model, factor):
    """A standard deviation that is rounded down would cost more than the ledger says."""
    model = make_model(None)
    shapes = [tuple(v.shape) for v in model.trainable_variables]
    for z in np.linspace(0.5, 3.0, 40).tolist():
        budget = lipdp.PrivacyBudget(noise_multiplier=z, delta=1e-5)
        plan = make_plan(model, MulticlassHinge(), budget, PrivacyLedger(), Request(200, 20, 1))
        noise, mechanism = NoiseState(), replace(plan.mechanism, from_host=True)
        noise.reseed(0)
        noise.make_buffers(mechanism, shapes, "float32")
        noise.set_factor(factor)
        noise.load(np.ones(sum(map(math.prod, shapes))), shapes)
        zeros = [np.zeros(shape, "float32") for shape in shapes]
        made = [float(np.ravel(one)[0]) for one in noise.add(zeros, mechanism, [1.0] * len(shapes))]
        spent = math.fsum((d / s) ** 2 for d, s in zip(plan.sensitivities, made, strict=True))
        assert 0.999 < spent * (z * factor) ** 2 <= 1.0
