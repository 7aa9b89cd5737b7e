"""A trained model with all that a run says about it, whatever trained it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from lipdp.training import Sequential


@dataclass(frozen=True)
class Trained:
    """A model after its last step.

    Attributes:
        model: With the plan and the ledger of its training.
        history: One row an epoch: epsilon and held-out metrics.
        record: The plan as plain data.
        statement: The guarantee in words.
        peak_memory_bytes: Largest resident memory of the process that trained, or None.
    """

    model: Sequential
    history: pd.DataFrame
    record: dict[str, Any]
    statement: str
    peak_memory_bytes: int | None
