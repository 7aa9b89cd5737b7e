"""What the tests of accounting compare with: code that shares nothing with the package."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from benchmarks import independent
from lipdp.privacy.pld import offers_truncation

needs_truncation = pytest.mark.skipif(
    not offers_truncation(), reason="this dp-accounting has no truncated draws"
)


@pytest.fixture(scope="session")
def composed():
    """``composed([(q, z, steps), ...], delta, replaced=False) -> epsilon``."""
    return independent.composed


@pytest.fixture(scope="session")
def excess_of_gaussians():
    """``excess_of_gaussians(first, second, noise, epsilon)`` of two mixtures of normals."""
    return independent.excess_of_gaussians
