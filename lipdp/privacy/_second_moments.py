"""Second moments as vectors of their free entries, and what is done with noisy ones."""

from __future__ import annotations

import math

import numpy as np

#: Variances below this part of R^2 / d, the most that d features can have on average, are taken to
#: be this: a feature that hardly moves is not blown up.
_LEAST_VARIANCE = 1e-4


def triangle(matrix: np.ndarray) -> np.ndarray:
    """Upper triangle of a symmetric matrix, off-diagonal entries times ``sqrt(2)``.

    Its Euclidean norm is the Frobenius norm of the matrix.
    """
    return matrix[np.triu_indices(len(matrix))] * _weights(len(matrix))


def symmetric(entries: np.ndarray, size: int) -> np.ndarray:
    """Inverse of ``triangle``."""
    matrix = np.zeros((size, size))
    matrix[np.triu_indices(size)] = entries / _weights(size)
    return matrix + np.triu(matrix, 1).T


def spectral_level(stddev: float, size: int) -> float:
    """About the spectral norm of ``symmetric`` of Gaussian noise: ``stddev sqrt(2 d)``."""
    return stddev * math.sqrt(2.0 * size)


def least_variance(radius: float, size: int) -> float:
    """The floor of each of d variances of rows in a ball, a public number."""
    return _LEAST_VARIANCE * radius * radius / size


def power(values: np.ndarray, vectors: np.ndarray, exponent: float) -> np.ndarray:
    """The symmetric matrix with these positive eigenvalues, to a power."""
    matrix = (vectors * values**exponent) @ vectors.T
    return (matrix + matrix.T) / 2.0


def _weights(size: int) -> np.ndarray:
    i, j = np.triu_indices(size)
    return np.where(i == j, 1.0, math.sqrt(2.0))
