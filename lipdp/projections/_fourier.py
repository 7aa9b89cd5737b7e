"""Proved norms of convolutions with circular padding, in float64 on the host."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from lipdp.errors import InvalidValue
from lipdp.projections._checks import count
from lipdp.projections._norms import (
    degenerate,
    frobenius_norm_bound,
    normalized,
    scaled_up,
    spectral_square,
)
from lipdp.rounding import gamma, unit_roundoff

_UNIT = unit_roundoff("float64")
_PHASE_ERROR = 32.0 * _UNIT
_CHUNK = 2**22  # entries of a stack of matrices: 32 MiB


def circular_norm_bound(
    kernel: Any, torus: Sequence[int], *, dilation: int | Sequence[int] = 1, groups: int = 1
) -> float:
    """Upper bound of the spectral norm of a convolution of stride 1 with circular padding.

    A zero-padded convolution is a restriction of the circular one, hence of no greater norm, if the
    torus has at least ``n + max(pad_left, pad_right)`` positions on each axis (``n + (k - 1) d``
    always suffices; valid padding: n). Strides only drop rows.

    In the Fourier basis the operator is block-diagonal, with the blocks ``K(f) = sum_t K[t] exp(-2
    pi i f.t d / n)`` at the frequencies f: its norm is ``max_f ||K(f)||_2`` (H. Sedghi, V. Gupta,
    P. Long, The Singular Values of Convolutional Layers, ICLR 2019). ``-f`` gives the conjugate.

    Rounding: the sums run over the T taps, not by a fast transform. The fraction of a turn has an
    integer numerator, so that the angle, below 2 pi, is off by at most ``19 u``; with a cosine and
    sine right to 4 ulp (libraries claim 1) each factor is off by ``e <= 32 u``. The real and the
    imaginary parts of ``K(f)`` are then off by at most ``(e + gamma(T + 1)) A`` entrywise, ``A =
    sum_t |K[t]|``, and ``||A||_F <= sqrt(T) ||K||_F``. The norm of ``R + i S`` is that of the real
    ``[[R, -S], [S, R]]``, which is proved as in ``spectral_norm_bound``.

    Args:
        kernel: Array of shape (*k, C_in / groups, C_out), one axis k for each of the torus.
        torus: Positions on each axis.
        dilation: Distance of neighbouring taps, on all axes or on each.
        groups: Blocks of consecutive input and output channels that do not mix; the norm is the
            greatest of theirs.

    Returns:
        The bound, 0 for an all-zero or empty kernel, ``inf`` for one with a non-finite entry.

    Raises:
        InvalidValue: If ``(k - 1) d + 1`` is larger than the torus on an axis, where taps would
            fall on each other and cancel, or the shapes do not fit.
    """
    array = np.asarray(kernel, dtype=np.float64)
    sizes = tuple(count("torus", n) for n in torus)
    steps = _steps(dilation, len(sizes))
    _check_shape(array.shape, sizes, steps, groups)
    v, exponent = normalized(array)
    if exponent is None:
        return degenerate(v)
    turns = _turns(v.shape[: len(sizes)], sizes, steps)
    square = max(spectral_square(blocks) for blocks in _blocks(v, turns, groups))
    error = math.sqrt(2.0) * (_PHASE_ERROR + gamma(turns.shape[1] + 1, _UNIT))
    error *= math.sqrt(turns.shape[1]) * frobenius_norm_bound(v)
    return scaled_up(math.sqrt(square) + error, exponent)


def depthwise_circular_norm_bound(
    kernel: Any, torus: Sequence[int], *, dilation: int | Sequence[int] = 1
) -> float:
    """``circular_norm_bound`` of a depthwise kernel: the greatest over its channels.

    Args:
        kernel: Array of shape (*k, C, M), M outputs of each of C channels.
        torus: Positions on each axis.
        dilation: Distance of neighbouring taps, on all axes or on each.

    Returns:
        As ``circular_norm_bound``.

    Raises:
        InvalidValue: As ``circular_norm_bound``.
    """
    array = np.asarray(kernel, dtype=np.float64)
    channels = array.shape[-2] if array.ndim > 1 else 1
    grouped = array.reshape(*array.shape[:-2], 1, -1)
    return circular_norm_bound(grouped, torus, dilation=dilation, groups=channels)


def _steps(dilation: int | Sequence[int], axes: int) -> tuple[int, ...]:
    steps = dilation if isinstance(dilation, Sequence) else (dilation,) * axes
    return tuple(count("dilation", d) for d in steps)


def _check_shape(
    shape: tuple[int, ...], torus: tuple[int, ...], steps: tuple[int, ...], groups: int
) -> None:
    if not len(torus) == len(steps) == len(shape) - 2 or not torus:
        raise InvalidValue(
            "The kernel does not have one axis for each of the torus, and two of channels",
            received={"kernel": shape, "torus": torus, "dilation": steps},
        )
    if shape[-1] % count("groups", groups):
        raise InvalidValue(
            "The output channels do not split into the groups", received=(shape[-1], groups)
        )
    if any((k - 1) * d + 1 > n for k, n, d in zip(shape[:-2], torus, steps, strict=True)):
        raise InvalidValue(
            "The dilated kernel does not fit the torus, where its taps would cancel",
            received={"kernel": shape[:-2], "torus": torus, "dilation": steps},
            fix="Use a torus of at least (k - 1) * dilation + 1 positions on each axis",
        )


def _turns(taps: Sequence[int], torus: Sequence[int], steps: Sequence[int]) -> np.ndarray:
    """Fractions of a turn, below 1, of shape (frequencies up to conjugation, taps)."""
    common = math.lcm(*torus)
    numerators: np.ndarray = np.zeros((1, 1), dtype=np.int64)
    for axis, (k, n, d) in enumerate(zip(taps, torus, steps, strict=True)):
        frequencies = n // 2 + 1 if axis == len(torus) - 1 else n
        one = (np.outer(np.arange(frequencies), np.arange(k) * d) % n) * (common // n)
        # Rows and columns as in kron: earlier axes are the slower ones.
        slow, fast = np.kron(numerators, np.ones_like(one)), np.kron(np.ones_like(numerators), one)
        numerators = slow + fast
    return (numerators % common) / common


def _blocks(v: np.ndarray, turns: np.ndarray, groups: int) -> Iterator[np.ndarray]:
    """Real forms of the Fourier coefficients of all groups, shape (n, 2 C_in / g, 2 C_out / g)."""
    taps, (fan_in, fan_out) = turns.shape[1], v.shape[-2:]
    grouped = v.reshape(taps, fan_in, groups, fan_out // groups)
    flat = grouped.transpose(0, 2, 1, 3).reshape(taps, -1)
    rows = max(1, _CHUNK // (4 * flat.shape[1]))
    for start in range(0, len(turns), rows):
        angles = 2.0 * math.pi * turns[start : start + rows]
        shape = (-1, fan_in, fan_out // groups)
        real, imaginary = ((f(angles) @ flat).reshape(shape) for f in (np.cos, np.sin))
        yield np.block([[real, -imaginary], [imaginary, real]])
