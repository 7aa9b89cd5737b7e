"""The precision in which a backend really computes."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from keras import backend, ops

from lipdp.errors import UnsafeSetting
from lipdp.rounding import unit_roundoff

#: Squares of these, summed over 2^7 or more entries, stay finite in float64 and in float32.
_LARGEST, _LARGEST_SINGLE = 2.0**500, 2.0**60


@lru_cache(maxsize=4)
def working_unit(dtype: str) -> float:
    """Unit round-off of matrix products that a layer of this dtype runs.

    PyTorch through Keras multiplies float64 matrices in float32, where the float32 unit counts. JAX
    without its 64-bit mode makes float32 tensors of float64 layers, which is refused: nothing that
    was asked for in float64 would hold.

    Args:
        dtype: The compute dtype of a layer.

    Raises:
        UnsafeSetting: If the dtype has no proved bound, or the backend has no such dtype.
    """
    unit = unit_roundoff(dtype)
    if dtype == "float32":
        return unit
    fine = 1.0 + 2.0**-40
    tensor = ops.convert_to_tensor(np.full((2, 2), fine), dtype=dtype)
    if backend.standardize_dtype(tensor.dtype) != dtype:
        raise UnsafeSetting(
            f"The backend {backend.backend()!r} has no {dtype} at present",
            received=backend.standardize_dtype(tensor.dtype),
            fix="Turn 64-bit mode on (JAX_ENABLE_X64=1), or use float32",
        )
    product = ops.convert_to_numpy(ops.matmul(tensor, ops.eye(2, dtype=dtype)))
    exact = bool((product == fine).all())
    return unit if exact else unit_roundoff("float32")


def usable(bound: float, unit: float) -> float:
    """The bound, or infinity if values of that size or their squares may overflow.

    Args:
        bound: Of a norm.
        unit: Unit round-off of the arithmetic.
    """
    return bound if bound <= (_LARGEST if unit < 2.0**-40 else _LARGEST_SINGLE) else math.inf
