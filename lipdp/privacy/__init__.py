"""Privacy: the budget, batches, noise, and what they cost. Needs no Keras."""

from __future__ import annotations

from typing import Any

from lipdp._moved import name_that_moved
from lipdp.privacy.access import STREAM, TRAINING, Access
from lipdp.privacy.accountants import (
    ACCOUNTANTS,
    ADJACENCIES,
    Accountant,
    Accounted,
    account,
    epsilon,
    epsilon_curve,
    epsilon_of,
    truncation_price,
)
from lipdp.privacy.allocation import ALLOCATIONS, allocate, effective_multiplier, factor_at
from lipdp.privacy.budget import PrivacyBudget
from lipdp.privacy.calibration import (
    calibrate,
    calibrate_noise_multiplier,
    first_steps,
    max_steps,
)
from lipdp.privacy.entries import Terms
from lipdp.privacy.ledger import PrivacyLedger
from lipdp.privacy.phase import POISSON, Draw, Phase
from lipdp.privacy.sampling import (
    SAMPLERS,
    Capacity,
    FixedSizeSampler,
    FullBatchSampler,
    PoissonSampler,
    Sampler,
    ShuffledSampler,
    TruncatedPoissonSampler,
    capacity,
    find_sampler,
    overflow_probability,
)
from lipdp.privacy.secure_noise import RoundedGaussian, grid_of, largest_sum, rounded_sensitivity
from lipdp.privacy.selection import composed, draw_number_of_runs, merged, repeat_and_select
from lipdp.privacy.statement import NOT_COVERED, PrivacyStatement, accountant_library

__all__ = [
    "ACCOUNTANTS",
    "ADJACENCIES",
    "ALLOCATIONS",
    "NOT_COVERED",
    "POISSON",
    "SAMPLERS",
    "STREAM",
    "TRAINING",
    "Terms",
    "Access",
    "Accountant",
    "Accounted",
    "Capacity",
    "Draw",
    "FixedSizeSampler",
    "FullBatchSampler",
    "Phase",
    "PoissonSampler",
    "PrivacyBudget",
    "PrivacyLedger",
    "PrivacyStatement",
    "RoundedGaussian",
    "Sampler",
    "ShuffledSampler",
    "TruncatedPoissonSampler",
    "account",
    "accountant_library",
    "allocate",
    "calibrate",
    "calibrate_noise_multiplier",
    "capacity",
    "composed",
    "draw_number_of_runs",
    "effective_multiplier",
    "epsilon",
    "epsilon_curve",
    "epsilon_of",
    "factor_at",
    "find_sampler",
    "first_steps",
    "grid_of",
    "largest_sum",
    "max_steps",
    "merged",
    "overflow_probability",
    "repeat_and_select",
    "rounded_sensitivity",
    "truncation_price",
]

_MOVED = {
    name: "lipdp.statistics"
    for name in (
        "private_counts",
        "private_kronecker_whitening",
        "private_mean_and_scale",
        "private_mean_and_whitening",
    )
}


def __getattr__(name: str) -> Any:
    return name_that_moved(__name__, name, _MOVED)
