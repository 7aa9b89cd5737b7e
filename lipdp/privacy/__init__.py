"""Privacy: the budget, batches, noise, and what they cost. Needs no Keras."""

from __future__ import annotations

from lipdp.privacy.accountants import (
    ACCOUNTANTS,
    ADJACENCIES,
    Accountant,
    Accounted,
    account,
    epsilon,
    epsilon_curve,
    epsilon_of,
)
from lipdp.privacy.allocation import ALLOCATIONS, allocate, effective_multiplier
from lipdp.privacy.budget import PrivacyBudget
from lipdp.privacy.calibration import calibrate_noise_multiplier, max_steps
from lipdp.privacy.capacity import Capacity, capacity, overflow_probability
from lipdp.privacy.ledger import PrivacyLedger
from lipdp.privacy.phase import Phase
from lipdp.privacy.sampler import PoissonSampler
from lipdp.privacy.statement import NOT_COVERED, PrivacyStatement, accountant_library

__all__ = [
    "ACCOUNTANTS",
    "ADJACENCIES",
    "ALLOCATIONS",
    "NOT_COVERED",
    "Accountant",
    "Accounted",
    "Capacity",
    "Phase",
    "PoissonSampler",
    "PrivacyBudget",
    "PrivacyLedger",
    "PrivacyStatement",
    "account",
    "accountant_library",
    "allocate",
    "calibrate_noise_multiplier",
    "capacity",
    "effective_multiplier",
    "epsilon",
    "epsilon_curve",
    "epsilon_of",
    "max_steps",
    "overflow_probability",
]
