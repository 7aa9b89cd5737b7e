"""The precision in which a backend really computes."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from keras import backend, ops

from lipdp.errors import UnsafeSetting
from lipdp.losses.wrappers import LossWrapper
from lipdp.numerics import unit_roundoff

#: Squares of these, summed over 2^7 or more entries, stay finite in float64 and in float32.
_LARGEST, _LARGEST_SINGLE = 2.0**500, 2.0**60

_SIZE = 64  # of the probing matrices, large enough for the kernels that libraries tune


def working_unit(layer: Any) -> float:
    """Unit round-off of the products that a layer runs, as probed on this backend and device.

    PyTorch through Keras multiplies float64 matrices in float32, where the float32 unit counts. JAX
    without its 64-bit mode makes float32 tensors of float64 layers, and accelerators may multiply
    float32 in TF32 or bfloat16; both are refused: nothing that was asked for would hold.

    Args:
        layer: A layer or operation of a Keras graph.

    Raises:
        UnsafeSetting: If the dtype has no proved bound, or the backend does not compute in it.
    """
    dtype = str(getattr(layer, "compute_dtype", "unknown"))
    # Convolutions run in libraries, and with settings, of their own.
    by_weights = any(len(v.shape) > 2 for v in getattr(layer, "weights", ()))
    convolves = by_weights or getattr(layer, "convolves", False)
    return _probed_unit(dtype, _convolution if convolves else _product)


def loss_unit(loss: Any) -> float:
    """Unit round-off of a loss, as probed; of one that wraps others, the coarsest of them.

    Raises:
        UnsafeSetting: If the dtype of one has no proved bound, or the backend does not compute in
            it.
    """
    if loss.dtype not in ("float32", "float64"):
        raise UnsafeSetting(
            f"The loss {loss.name!r} computes in a precision without a proved rounding bound",
            received=loss.dtype,
            fix="Make it with dtype='float32' (half and mixed precision are refused)",
        )
    unit = _probed_unit(loss.dtype, _product)
    return max(unit, loss_unit(loss.loss)) if isinstance(loss, LossWrapper) else unit


@lru_cache(maxsize=8)
def _probed_unit(dtype: str, operation: Callable[[Any], Any]) -> float:
    unit = unit_roundoff(dtype)
    if dtype == "float64" and _keeps(2.0**-40, dtype, operation):
        return unit
    if _keeps(2.0**-20, dtype, operation):
        return unit_roundoff("float32")
    raise UnsafeSetting(
        f"The backend {backend.backend()!r} multiplies {dtype} in a coarser format",
        received="TF32, bfloat16 or the like",
        fix="Switch it off, such as by tf.config.experimental.enable_tensor_float_32_execution"
        "(False), jax.config.update('jax_default_matmul_precision', 'highest'), "
        "torch.backends.cudnn.allow_tf32 = False or ONEDNN_DEFAULT_FPMATH_MODE=STRICT",
    )


def _keeps(detail: float, dtype: str, operation: Callable[[Any], Any]) -> bool:
    """Whether a product with a matrix of ones and zeros leaves ``1 + detail`` as it is."""
    value = np.full((_SIZE, _SIZE), 1.0 + detail)
    tensor = ops.convert_to_tensor(value, dtype=dtype)
    if backend.standardize_dtype(tensor.dtype) != dtype:
        raise UnsafeSetting(
            f"The backend {backend.backend()!r} has no {dtype} at present",
            received=backend.standardize_dtype(tensor.dtype),
            fix="Turn 64-bit mode on (JAX_ENABLE_X64=1), or use float32",
        )
    return bool(np.all(ops.convert_to_numpy(operation(tensor)) == 1.0 + detail))


def _product(tensor: Any) -> Any:
    return ops.matmul(tensor, ops.eye(_SIZE, dtype=backend.standardize_dtype(tensor.dtype)))


def _convolution(tensor: Any) -> Any:
    """A 3x3 kernel that copies each channel of an image."""
    kernel = np.zeros((3, 3, _SIZE, _SIZE))
    kernel[1, 1] = np.eye(_SIZE)
    image = ops.broadcast_to(tensor[None, None], (4, 16, _SIZE, _SIZE))
    filters = ops.convert_to_tensor(kernel, dtype=tensor.dtype)
    return ops.conv(image, filters, padding="same", data_format="channels_last")


def usable(bound: float, unit: float) -> float:
    """The bound, or infinity if values of that size or their squares may overflow.

    Args:
        bound: Of a norm.
        unit: Unit round-off of the arithmetic.
    """
    return bound if bound <= (_LARGEST if unit < 2.0**-40 else _LARGEST_SINGLE) else math.inf
