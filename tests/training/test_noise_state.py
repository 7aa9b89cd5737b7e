"""Noise from the host belongs to the variables that room was made for."""

import numpy as np
import pytest

from lipdp.errors import InvalidState
from lipdp.training.noise import NoiseState
from lipdp.training.noise_plan import Mechanism

SHAPES = [(2, 3), (4,)]


def state():
    made = NoiseState()
    made.reseed(None)
    made.make_buffers(Mechanism((1.0, 1.0), 1, from_host=True), SHAPES, "float32")
    return made


def test_each_variable_gets_its_own_part():
    noise, sums = state(), [np.zeros(s, "float32") for s in SHAPES]
    noise.load(np.arange(10.0), SHAPES)
    noisy = noise.add(sums, Mechanism((2.0, 3.0), 1, from_host=True), [1.0, 1.0])
    np.testing.assert_array_equal(np.asarray(noisy[0]), 2.0 * np.arange(6.0).reshape(2, 3))
    np.testing.assert_array_equal(np.asarray(noisy[1]), 3.0 * np.arange(6.0, 10.0))


@pytest.mark.parametrize("factor", [1.0, 0.7, 1 / 3, 0.1])
def test_the_factor_of_a_schedule_is_rounded_up(factor):
    noise = state()
    noise.set_factor(factor)
    assert factor <= float(np.asarray(noise.factor)) <= factor * (1.0 + 2.0**-22)


@pytest.mark.parametrize("shapes", [[(4,), (2, 3)], [(3, 2), (4,)], [(10,)]])
def test_other_shapes_of_the_same_size_are_refused(shapes):
    with pytest.raises(InvalidState, match="does not match"):
        state().load(np.zeros(10), shapes)
