"""Proved upper bounds of norms of matrices and convolutions, in float64 on the host."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from lipdp.errors import InvalidValue
from lipdp.numerics import count, gamma, unit_roundoff

_UNIT = unit_roundoff("float64")
_UNDERFLOW = 1e-290  # far above any sum of products that underflowed


def frobenius_norm_bound(w: Any) -> float:
    """Upper bound of the Euclidean norm of all entries.

    The entries are scaled by a power of two, which is exact, so that nothing overflows. A sum of n
    squares is exact up to ``gamma(n + 1)`` relative, in any order.

    Args:
        w: Array of any shape.

    Returns:
        The bound, 0 for an all-zero or empty array, ``inf`` for one with a non-finite entry.
    """
    v, exponent = normalized(w)
    if exponent is None:
        return degenerate(v)
    return scaled_up(math.sqrt(_square_sum_bound(v.reshape(1, -1))), exponent)


def spectral_norm_bound(w: Any) -> float:
    """Upper bound of the greatest singular value, tight to about ``n gamma(m)``.

    The array is read as a matrix of shape (product of all axes but the last, last axis). Power
    iteration would give a lower bound; here a trial value is proved, see ``spectral_square``.

    Args:
        w: Array of any shape.

    Returns:
        The bound, 0 for an all-zero or empty array, ``inf`` for one with a non-finite entry.
    """
    v, exponent = normalized(w)
    if exponent is None:
        return degenerate(v)
    v = v.reshape(-1, v.shape[-1]) if v.ndim else v.reshape(1, 1)
    return scaled_up(math.sqrt(spectral_square(v)), exponent)


def spectral_square(v: np.ndarray) -> float:
    """Upper bound of ``||V||_2^2``, the greatest over all matrices V of a stack.

    With sides m >= n, a trial value c^2, slightly above the computed greatest eigenvalue of all
    Gram matrices, is proved by a Cholesky factorisation of each computed ``A = c^2 I - V^T V``:

    * ``|fl(V^T V) - V^T V| <= gamma(m) |V|^T |V|``, of 2-norm at most ``gamma(m) ||V||_F^2``;
    * the subtraction is exact up to ``2 u c^2``;
    * if the factorisation ends, its factor R has ``|A - R^T R| <= gamma(n + 1) |R|^T |R|``, and
      ``|| |R|^T |R| ||_2 <= ||R||_F^2 <= trace(A) / (1 - gamma(n + 1))``; as ``R^T R >= 0``, the
      least eigenvalue of A is at least minus ``gamma(n + 1) / (1 - gamma(n + 1)) trace(A)``.

    So ``||V||_2^2`` is at most c^2 plus these terms. Source: N. Higham, Accuracy and Stability of
    Numerical Algorithms (2nd ed.), section 3.5 and Theorem 10.3.

    Args:
        v: Finite array of shape (..., m, n) or (..., n, m), not empty, entries far from overflow.
    """
    v = v if v.shape[-2] >= v.shape[-1] else np.swapaxes(v, -1, -2)
    square = _square_sum_bound(v.reshape(-1, v.shape[-2] * v.shape[-1]))
    return min(square, _proved_square(v, square))


def _proved_square(v: np.ndarray, square: float) -> float:
    inner, side = v.shape[-2:]
    gram = np.swapaxes(v, -1, -2) @ v
    estimate = float(np.max(np.linalg.eigvalsh(gram)))
    for power in range(8):
        trial = estimate * (1.0 + 4.0**power * (inner + side) * _UNIT)
        rest = trial * np.eye(side) - gram
        if _has_cholesky(rest):
            error = gamma(side + 1, _UNIT)
            trace = float(np.max(np.trace(rest, axis1=-2, axis2=-1)))
            error *= trace * (1.0 + gamma(side, _UNIT)) / (1.0 - error)
            return trial * (1.0 + 2.0 * _UNIT) + gamma(inner, _UNIT) * square + error + _UNDERFLOW
    return math.inf


def _has_cholesky(a: np.ndarray) -> bool:
    try:
        factor = np.linalg.cholesky(a)
    except np.linalg.LinAlgError:
        return False
    return bool(np.all(np.isfinite(factor)))


def normalized(w: Any) -> tuple[np.ndarray, int | None]:
    """The array over 2^e, of greatest entry in [1/2, 1), and e; None if it is 0 or not finite."""
    v = np.asarray(w, dtype=np.float64)
    peak = float(np.max(np.abs(v))) if v.size else 0.0
    if peak == 0.0 or not math.isfinite(peak):
        return v, None
    exponent = math.frexp(peak)[1]
    return np.ldexp(v, -exponent), exponent


def degenerate(v: np.ndarray) -> float:
    """Norm of an array that is all zero, or not finite."""
    return 0.0 if bool(np.all(v == 0.0)) else math.inf


def scaled_up(value: float, exponent: int = 0) -> float:
    """``value 2^exponent``, above it even if the value is short of its exact one by 6 u."""
    with np.errstate(over="ignore", under="ignore"):
        return float(np.nextafter(np.ldexp(value * (1.0 + 8.0 * _UNIT), exponent), np.inf))


def _square_sum_bound(rows: np.ndarray) -> float:
    """Greatest sum of the squares of a row."""
    most = float(np.max(np.sum(np.square(rows), axis=-1)))
    return most * (1.0 + 2.0 * gamma(rows.shape[-1] + 1, _UNIT)) + _UNDERFLOW


_PHASE_ERROR = 32.0 * _UNIT
_CHUNK = 2**22  # entries of a stack of matrices: 32 MiB


def circular_norm_bound(
    kernel: Any,
    torus: Sequence[int],
    *,
    strides: int | Sequence[int] = 1,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> float:
    """Upper bound of the spectral norm of a convolution with circular padding.

    A zero-padded convolution is a restriction of the circular one, hence of no greater norm, if the
    torus has at least ``n + max(pad_left, pad_right)`` positions on each axis (``n + (k - 1) d``
    always suffices; valid padding: n). With a stride s their number N is a multiple of it, s M.

    At stride 1 the operator is block-diagonal in the Fourier basis, with the blocks ``K(f) = sum_t
    K[t] exp(-2 pi i f.t d / N)`` at the frequencies f: its norm is ``max_f ||K(f)||_2`` (H. Sedghi,
    V. Gupta, P. Long, The Singular Values of Convolutional Layers, ICLR 2019). ``-f`` gives the
    conjugate.

    Reading every s-th position adds up, over ``sqrt(s)``, the s frequencies that are equal modulo
    M. So the norm is ``max_f ||[K(f + a M)]_a||_2 / sqrt(prod s)``, with the blocks of all a, ``0
    <= a < s`` on each axis, side by side along the input channels. It is computed as the norm of a
    convolution of stride 1. With ``r = s / gcd(s, d)`` and ``q = d / gcd(s, d)``, so that ``r d = s
    q``, window m reads by tap ``r j + i``, ``i < r``, the position ``s m + (r j + i) d = s (m + q
    j) + i d``: by tap j of dilation q the part of x at the positions ``i d + s Z``. The r parts are
    disjoint, since i d takes r values modulo s; as r channels of M positions they hold any values,
    of a norm at most that of x, and of the same where x is 0 elsewhere.

    Rounding: the sums run over the T taps of stride 1, not by a fast transform. The fraction of a
    turn has an integer numerator, so that the angle, below 2 pi, is off by at most ``19 u``; with a
    cosine and sine right to 4 ulp (libraries claim 1) each factor is off by ``e <= 32 u``. The real
    and the imaginary parts of ``K(f)`` are then off by at most ``(e + gamma(T + 1)) A`` entrywise,
    ``A = sum_t |K[t]|``, and ``||A||_F <= sqrt(T) ||K||_F``. The norm of ``R + i S`` is that of the
    real ``[[R, -S], [S, R]]``, which is proved as in ``spectral_norm_bound``.

    Args:
        kernel: Array of shape (*k, C_in / groups, C_out), one axis k for each of the torus.
        torus: Positions on each axis.
        strides: Distance of neighbouring windows, on all axes or on each.
        dilation: Distance of neighbouring taps, likewise.
        groups: Blocks of consecutive input and output channels that do not mix; the norm is the
            greatest of theirs.

    Returns:
        The bound, 0 for an all-zero or empty kernel, ``inf`` for one with a non-finite entry.

    Raises:
        InvalidValue: If ``(k - 1) d + 1`` is larger than the torus on an axis, where taps would
            fall on each other and cancel, a stride does not divide the torus, or the shapes do not
            fit.
    """
    array = np.asarray(kernel, dtype=np.float64)
    sizes = tuple(count("torus", n) for n in torus)
    spacing = _per_axis("strides", strides, len(sizes))
    steps = _per_axis("dilation", dilation, len(sizes))
    _check_shape(array.shape, sizes, steps, groups)
    _check_strides(sizes, spacing)
    v, exponent = normalized(array)
    if exponent is None:
        return degenerate(v)
    v, steps = _phases(v, spacing, steps)
    sizes = tuple(n // s for n, s in zip(sizes, spacing, strict=True))
    turns = _turns(v.shape[: len(sizes)], sizes, steps)
    square = max(spectral_square(blocks) for blocks in _blocks(v, turns, groups))
    error = math.sqrt(2.0) * (_PHASE_ERROR + gamma(turns.shape[1] + 1, _UNIT))
    error *= math.sqrt(turns.shape[1]) * frobenius_norm_bound(v)
    return scaled_up(math.sqrt(square) + error, exponent)


def depthwise_circular_norm_bound(
    kernel: Any,
    torus: Sequence[int],
    *,
    strides: int | Sequence[int] = 1,
    dilation: int | Sequence[int] = 1,
) -> float:
    """``circular_norm_bound`` of a depthwise kernel: the greatest over its channels.

    Args:
        kernel: Array of shape (*k, C, M), M outputs of each of C channels.
        torus: Positions on each axis.
        strides: Distance of neighbouring windows, on all axes or on each.
        dilation: Distance of neighbouring taps, likewise.

    Returns:
        As ``circular_norm_bound``.

    Raises:
        InvalidValue: As ``circular_norm_bound``.
    """
    array = np.asarray(kernel, dtype=np.float64)
    channels = array.shape[-2] if array.ndim > 1 else 1
    grouped = array.reshape(*array.shape[:-2], 1, -1)
    return circular_norm_bound(grouped, torus, strides=strides, dilation=dilation, groups=channels)


def circular_norm_work(
    shape: Sequence[int],
    torus: Sequence[int],
    *,
    strides: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> int:
    """Multiplications, up to a factor of a few, that ``circular_norm_bound`` takes.

    Args:
        shape: Of the kernel.
        torus: Positions on each axis.
        strides: Distance of neighbouring windows on each.
        dilation: Distance of neighbouring taps on each.
        groups: Blocks of channels that do not mix.
    """
    parts = _parts(shape, strides, dilation)
    taps = math.prod(-(-k // r) for k, r in zip(shape[:-2], parts, strict=True))
    inner, outer = shape[-2] * math.prod(parts), shape[-1] // groups
    frequencies = math.prod(torus) // math.prod(strides)
    return frequencies * inner * outer * (min(inner, outer) + taps) * groups


def _per_axis(name: str, value: int | Sequence[int], axes: int) -> tuple[int, ...]:
    values = value if isinstance(value, Sequence) else (value,) * axes
    return tuple(count(name, v) for v in values)


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


def _check_strides(torus: tuple[int, ...], spacing: tuple[int, ...]) -> None:
    if len(spacing) != len(torus) or any(n % s for n, s in zip(torus, spacing, strict=True)):
        raise InvalidValue(
            "The torus does not have a multiple of the stride of positions on each axis",
            received={"torus": torus, "strides": spacing},
            fix="Use the next multiple of the stride",
        )


def _phases(
    v: np.ndarray, spacing: Sequence[int], steps: Sequence[int]
) -> tuple[np.ndarray, tuple[int, ...]]:
    """The kernel of stride 1 on the parts of the input that a strided one reads, and its dilation.

    Along each axis tap ``r j + i`` becomes tap j of part i, or a zero if there is no such tap.
    """
    for axis, parts in enumerate(_parts(v.shape, spacing, steps)):
        v = np.pad(v, [(0, -v.shape[axis] % parts if a == axis else 0) for a in range(v.ndim)])
        v = v.reshape(*v.shape[:axis], -1, parts, *v.shape[axis + 1 :])
        # The parts go in front of the input channels, so that the axes behind keep their number.
        v = np.moveaxis(v, axis + 1, -3)
        v = v.reshape(*v.shape[:-3], -1, v.shape[-1])
    return v, tuple(d // math.gcd(s, d) for s, d in zip(spacing, steps, strict=True))


def _parts(shape: Sequence[int], spacing: Sequence[int], steps: Sequence[int]) -> list[int]:
    """Numbers r of parts of the input along each axis, those without a tap left out."""
    axes = zip(shape[:-2], spacing, steps, strict=True)
    return [min(s // math.gcd(s, d), k) for k, s, d in axes]


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
