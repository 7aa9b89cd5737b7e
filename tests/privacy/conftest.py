"""An independent numerical composition: no code of the library or of dp-accounting."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, special


def _log_mixture(q, loss):
    return np.logaddexp(np.log1p(-q), np.log(q) + loss) if q < 1 else loss


def _inverse(q, z, loss):
    """x with log(1 - q + q exp((2x - 1) / 2z^2)) = loss, and -inf below the least loss."""
    with np.errstate(divide="ignore", invalid="ignore"):
        inner = np.log(np.expm1(loss) / q + 1.0)
    return np.where(np.isnan(inner), -np.inf, inner * z * z + 0.5)


def _masses(q, z, remove, grid, count):
    """Nearest-point masses of one step's loss on count points, and the mean that they miss."""
    edges = (np.arange(count + 1) - count // 2 - 0.5) * grid
    x = _inverse(q, z, edges if remove else -edges)
    if remove:
        cdf = (1 - q) * special.ndtr(x / z) + q * special.ndtr((x - 1) / z)
    else:
        cdf = special.ndtr(-x / z)
    masses = np.diff(cdf)
    points = (np.arange(count) - count // 2) * grid
    noise = np.linspace(-12, 12, 200001)
    density = np.exp(-(noise**2) / 2) / np.sqrt(2 * np.pi) * (noise[1] - noise[0])
    loss = _log_mixture(q, (2 * noise * z - 1) / (2 * z * z))
    if remove:
        moved = _log_mixture(q, (2 * (noise * z + 1) - 1) / (2 * z * z))
        mean = density @ ((1 - q) * loss + q * moved)
    else:
        mean = -density @ loss
    return masses, mean - masses @ points


def _direction(phases, delta, remove, grid, count):
    spectrum, shift = np.ones(count // 2 + 1, dtype=complex), 0.0
    for q, z, steps in phases:
        masses, missed = _masses(q, z, remove, grid, count)
        spectrum *= np.fft.rfft(np.fft.ifftshift(masses)) ** steps
        shift += steps * missed
    total = np.fft.fftshift(np.fft.irfft(spectrum, count))
    loss = (np.arange(count) - count // 2) * grid + shift

    def excess(epsilon):
        return float(np.maximum(0.0, -np.expm1(epsilon - loss)) @ total) - delta

    return 0.0 if excess(0.0) <= 0 else optimize.brentq(excess, 0.0, loss[-1])


@pytest.fixture(scope="session")
def composed():
    """``composed([(q, z, steps), ...], delta) -> epsilon`` under add/remove."""

    def compute(phases, delta, grid=1e-4, count=2**19):
        return max(_direction(phases, delta, remove, grid, count) for remove in (True, False))

    return compute
