"""Banks of Morlet wavelets with a low-pass filter, and the proved norm of what they compute."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from lipdp.numerics import gamma, unit_roundoff
from lipdp.projections.norms import scaled_up, spectral_square

_UNIT = unit_roundoff("float64")
_WIDTH, _FREQUENCY = 0.8, 0.75 * math.pi  # of the finest wavelet
_DEVIATIONS = 2.5  # after which filters are cut
_PHASE_ERROR = 80.0 * _UNIT  # of a product of two factors of 32 u each, in real and imaginary part

#: Kernels of a stride, shape (2 r + 1, 2 r + 1, filters), by the logarithm of the stride; the last
#: one is the low-pass filter.
Bank = list[np.ndarray]


def morlet_bank(scales: int, orientations: int) -> Bank:
    """The filters of one level, at unit spacing, not yet scaled to a norm.

    Scale j has wavelets of width ``0.8 2^j`` and frequency ``3 pi / 4 2^-j`` in every orientation,
    the real parts first and then the imaginary parts, and is read with stride ``2^j``; the low-pass
    filter, of width ``0.4 2^J``, is read with stride ``2^J``. A filter is multiplied by its stride,
    which makes up for what reading it so sparsely loses. Wavelets have mean zero.

    Source: J. Bruna and S. Mallat, Invariant Scattering Convolution Networks, PAMI 2013.

    Args:
        scales: Number J of scales, at least 1.
        orientations: Number L of orientations.
    """
    wavelets = [_wavelets(2.0**j, orientations) * 2.0**j for j in range(scales)]
    return [*wavelets, _low_pass(_WIDTH * 2.0 ** (scales - 1)) * 2.0**scales]


def _wavelets(dilation: float, orientations: int) -> np.ndarray:
    """Real and imaginary parts, of unit peak ``sum |psi|^2`` in frequency."""
    width, slant = _WIDTH * dilation, 4.0 / max(orientations, 4)
    angles = np.arange(orientations) * (math.pi / orientations)
    rows, columns = _grid(width / slant)
    along = columns[..., None] * np.cos(angles) + rows[..., None] * np.sin(angles)
    across = rows[..., None] * np.cos(angles) - columns[..., None] * np.sin(angles)
    envelope = np.exp(-(np.square(along) + np.square(across * slant)) / (2.0 * width**2))
    wave = envelope * np.exp(1j * _FREQUENCY / dilation * along)
    wave -= envelope * (np.sum(wave, axis=(0, 1)) / np.sum(envelope, axis=(0, 1)))
    parts = np.concatenate([wave.real, wave.imag], axis=-1)
    spectrum = np.fft.fft2(parts, s=(4 * len(parts),) * 2, axes=(0, 1))
    return parts / math.sqrt(float(np.max(np.sum(np.abs(spectrum) ** 2, axis=-1))))


def _low_pass(width: float) -> np.ndarray:
    rows, columns = _grid(width)
    bump = np.exp(-(np.square(rows) + np.square(columns)) / (2.0 * width**2))[..., None]
    return bump / np.sum(bump)


def _grid(width: float) -> tuple[np.ndarray, np.ndarray]:
    radius = math.ceil(_DEVIATIONS * width)
    rows, columns = np.mgrid[-radius : radius + 1, -radius : radius + 1]
    return rows.astype("float64"), columns.astype("float64")


def scaled_bank(bank: Bank, shape: Sequence[int], dtype: str) -> Bank:
    """The filters in a dtype, over slightly more than the norm of the bank on images of a shape."""
    factor = bank_norm(bank, shape) * (1.0 + 1024.0 * unit_roundoff(dtype))
    return [(kernels / factor).astype(dtype) for kernels in bank]


def without_finest(bank: Bank) -> Bank:
    """The bank without the wavelets of stride 1."""
    return [bank[0][..., :0], *bank[1:]]


def bank_norm(bank: Bank, shape: Sequence[int]) -> float:
    """Upper bound of the norm of ``x -> (filter * x read with its stride, all filters)``.

    The map is taken on images of the given shape, surrounded by zeros, and its outputs at positions
    inside. On a torus of n positions an axis, n at least the side and a filter's radius, it is a
    part of the circular map, which has no smaller norm. With s the largest stride, n a multiple of
    s, the circular map takes the ``s^2`` frequencies that are equal modulo ``n / s`` to themselves:
    reading with stride q adds up, over q, the frequencies that are equal modulo ``n / q``. So its
    norm is the greatest of the matrices with one column for each of the ``s^2`` frequencies and,
    for each filter, ``(s / q)^2`` rows, in each of which ``q^2`` entries are ``filter(f) / q``.
    Filters of stride 1 couple nothing and share rows, of entry ``sqrt(sum |filter(f)|^2)``. This is
    the Littlewood-Paley sum where all strides are 1 (S. Mallat, Group Invariant Scattering, 2012).

    Rounding: sines and cosines of exact fractions of a turn are right to 32 u (see
    ``circular_norm_bound``), sums run over the taps, not by a fast transform; so an entry is off by
    at most ``(80 u + gamma(T + 4)) sum |filter| / q`` in either part.

    Args:
        bank: Kernels.
        shape: Rows and columns of the images.
    """
    stride = 2 ** (len(bank) - 1)
    radius = max(len(kernels) // 2 for kernels in bank)
    torus = [stride * math.ceil((side + radius) / stride) for side in shape]
    spectra = [_spectrum(kernels, torus) / 2.0**j for j, kernels in enumerate(bank)]
    square = max(spectral_square(block) for block in _blocks(spectra, torus, stride))
    return scaled_up(math.sqrt(square) + stride * _entry_error(bank))


def absolute_norm(bank: Bank) -> float:
    """Bound of the norm with every tap replaced by its size: ``||k * x|| <= sum |k| ||x||``."""
    sums = [np.sum(np.abs(kernels), axis=(0, 1), dtype="float64") for kernels in bank]
    return scaled_up(math.sqrt(sum(float(np.sum(np.square(s))) for s in sums)) * (1.0 + 1e-12))


def taps(bank: Bank) -> int:
    """Taps of all filters together."""
    return sum(kernels.size for kernels in bank)


def _entry_error(bank: Bank) -> float:
    """Bound, over ``s``, of the Frobenius norm of all the errors of a block."""
    longest = max(len(kernels) ** 2 for kernels in bank)
    return math.sqrt(2.0) * (_PHASE_ERROR + gamma(longest + 4, _UNIT)) * absolute_norm(bank)


def _spectrum(kernels: np.ndarray, torus: Sequence[int]) -> np.ndarray:
    """Fourier coefficients of each filter, shape (*torus, filters)."""
    offsets = np.arange(len(kernels)) - len(kernels) // 2
    turns = (np.outer(np.arange(n), offsets) % n / n for n in torus)
    rows, columns = (np.exp(-2j * math.pi * turn) for turn in turns)
    wide = kernels.astype("float64")
    return np.einsum("ar,rcf,bc->abf", rows, wide, columns, optimize=True)


def _blocks(
    spectra: Sequence[np.ndarray], torus: Sequence[int], stride: int
) -> Iterator[np.ndarray]:
    """The matrices of the circular map, in real form ``[[R, -S], [S, R]]``, row by row."""
    height, width = (n // stride for n in torus)
    energy = np.sqrt(np.sum(np.abs(spectra[0]) ** 2, axis=-1))
    coupled = [s.reshape(stride, height, stride, width, -1) for s in spectra[1:]]
    diagonal = energy.reshape(stride, height, stride, width)
    for a in range(height):
        for b in range(width):
            rows = [np.diag(diagonal[:, a, :, b].ravel()).astype(complex)]
            rows += [_rows(s[:, a, :, b], 2 ** (j + 1), stride) for j, s in enumerate(coupled)]
            v = np.concatenate(rows)
            yield np.block([[v.real, -v.imag], [v.imag, v.real]])


def _rows(spectrum: np.ndarray, q: int, stride: int) -> np.ndarray:
    """Rows of the filters of stride q, from their values at the frequencies of a block."""
    classes = stride // q
    alias = np.arange(stride) % classes
    found = alias[:, None] * classes + alias[None, :]
    chosen = np.arange(classes**2)[:, None] == found.ravel()[None, :]
    values = spectrum.reshape(stride**2, -1).T
    return (chosen[None] * values[:, None, :]).reshape(-1, stride**2)
