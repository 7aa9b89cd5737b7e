"""Renyi divergences against the exact sum, with many digits."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest

from lipdp.privacy import Phase
from lipdp.privacy.rdp import divergences, orders


def exact(rate, noise, order):
    """``log sum_j C(a, j) (1 - q)^(a - j) q^j e^(j (j - 1) / 2 z^2) / (a - 1)``."""
    with localcontext(prec=60):
        q, z = Decimal(rate), Decimal(noise)
        total = sum(
            math.comb(order, j) * (1 - q) ** (order - j) * q**j * (j * (j - 1) / (2 * z * z)).exp()
            for j in range(order + 1)
        )
        return total.ln() / (order - 1)


@pytest.mark.parametrize("rate", [1e-5, 1e-3, 0.1])
@pytest.mark.parametrize("noise", [1.0, 10.0, 100.0])
def test_divergences_are_rounded_up(rate, noise):
    """Near 0 the sum is close to 1, and its rounding more than the divergence."""
    found = divergences([Phase(rate, noise, 1)])
    whole = [(a, d) for a, d in zip(orders(), found, strict=True) if a % 1 == 0 and a <= 128]
    assert len(whole) > 60
    for order, divergence in whole:
        true = exact(rate, noise, int(order))
        assert Decimal(float(divergence)) >= true
        assert np.isclose(divergence, float(true), rtol=1e-9, atol=1e-9)
