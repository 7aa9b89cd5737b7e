import numpy as np
import pytest
from keras import ops

from lipdp.errors import BoundViolation
from lipdp.projections.base import Projection
from lipdp.testing import check_projection


class Frobenius(Projection):
    """Honest: shrinks into the unit Frobenius ball, without overflow."""

    factor = 1.0 - 1e-5

    @property
    def norm_bound(self):
        return 1.0

    def bound_of(self, w):
        return float(np.linalg.norm(np.asarray(w, "float64")))

    def __call__(self, w):
        scale = ops.maximum(ops.max(ops.abs(w)), 1.0)
        small = w / scale
        norm = ops.sqrt(ops.sum(ops.square(small)))
        return small / ops.maximum(norm, 1.0 / scale) * self.factor


class NoRoomForRounding(Frobenius):
    factor = 1.0 + 1e-6


class NotANumber(Frobenius):
    """Subtracts infinities from each other on huge weights."""

    def __call__(self, w):
        return super().__call__(w + 0.0 * ops.sum(ops.square(w)))


class ChangesDtype(Frobenius):
    def __call__(self, w):
        return ops.cast(super().__call__(w), "float16")


class NotANumberClaim(Frobenius):
    def bound_of(self, w):
        return float("nan")


class PowerIteration(Projection):
    """Divides by the lower bound that a few power iterations give, and believes it."""

    @property
    def norm_bound(self):
        return 1.0

    @staticmethod
    def estimate(w):
        w = np.asarray(w, "float64")
        v = np.ones(w.shape[1]) / np.sqrt(w.shape[1])
        for _ in range(3):
            v = w.T @ (w @ v)
            v /= max(np.linalg.norm(v), 1e-300)
        return float(np.linalg.norm(w @ v))

    def bound_of(self, w):
        return min(self.estimate(w), 1.0)

    def __call__(self, w):
        array = ops.convert_to_numpy(w)
        return ops.convert_to_tensor(array / np.float32(max(self.estimate(array) * 1.0001, 1.0)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(5,), (6, 4), (4, 6), (3, 3, 2, 5), (1, 1)])
def test_an_honest_projection_passes(shape, dtype):
    found = check_projection(Frobenius(), shape, dtype=dtype)
    assert found.ratios["norm"] > 0.999
    assert found.ratios["true norm"] > 0.999


@pytest.mark.parametrize(
    ("projection", "message"),
    [
        (PowerIteration(), "true norm"),
        (NoRoomForRounding(), "norm is above"),
        (NotANumber(), "finite"),
        (ChangesDtype(), "dtype"),
        (NotANumberClaim(), "above the bound"),
    ],
)
def test_broken_projections_are_caught(projection, message):
    with pytest.raises(BoundViolation, match=message):
        check_projection(projection, (8, 6))


class Transposed(Frobenius):
    """Claims the norm of a matrix of another flattening."""

    def bound_of(self, w):
        return float(np.linalg.norm(w.reshape(2, -1).astype("float64"), 2))


def test_the_matrix_that_is_meant_can_be_given():
    check_projection(Transposed(), (2, 3, 4), matrix=lambda w: w.reshape(2, -1))
    with pytest.raises(BoundViolation):
        check_projection(Transposed(), (2, 3, 4), matrix=lambda w: w.reshape(-1, 1))
