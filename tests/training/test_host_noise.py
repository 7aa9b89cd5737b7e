"""Noise drawn outside the compiled step."""

import numpy as np
import pytest

from lipdp.training.noise import _PART, PlainHostNoise
from lipdp.training.noise_plan import Mechanism

MECHANISM = Mechanism((1.0, 1.0), 1, from_host=True)


@pytest.mark.parametrize("more", [-1, 0, 1, 2 * _PART + 5])
def test_parts_are_the_draws_of_one_generator(more):
    """No entry is left out or comes twice where one part ends and the next begins."""
    shapes = [(2, 3), (_PART - 6 + more,)]
    noise = PlainHostNoise(shapes, "float32", seed=3)
    generator = np.random.Generator(np.random.SFC64([3, 2]))
    for _ in range(3):
        expected = generator.standard_normal(_PART + more).astype("float32")
        np.testing.assert_array_equal(noise.draw(MECHANISM, 1.0), expected)


def test_each_step_has_an_array_of_its_own():
    noise = PlainHostNoise([(5000,)], "float64", seed=None)
    first, second, third = (noise.draw(MECHANISM, 1.0) for _ in range(3))
    for one, other in [(first, second), (first, third), (second, third)]:
        # 75 million pairs of float64 numbers, equal with probability below 2^-52 each: 2e-8.
        assert not np.intersect1d(one, other).size
    # A tensor may lie in the memory of the array that it was made of; its copy would not tell.
    assert not np.shares_memory(noise._normals(), noise._normals())
