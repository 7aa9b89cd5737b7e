"""What a model has seen of the data before."""

from __future__ import annotations

from lipdp.errors import BudgetExhausted, UnsafeSetting
from lipdp.privacy import PrivacyLedger


def check_history(ledger: PrivacyLedger, unit: str) -> None:
    """Refuses to go on where no epsilon of everything is known.

    Args:
        ledger: Of all accesses so far.
        unit: Whose records the next ones speak of.

    Raises:
        BudgetExhausted: If there were accesses that nobody recorded.
        UnsafeSetting: If the earlier ones speak of other units.
    """
    if ledger.unknown_history:
        raise BudgetExhausted(
            "What these weights have already learned from the data is unknown (they were loaded "
            "without a ledger, or trained without privacy)",
            fix="Start from new weights, or, if all earlier training used public data only, call "
            "model.declare_public_history()",
        )
    if ledger.units - {unit}:
        raise UnsafeSetting(
            "Earlier accesses to the data speak of other units, and no epsilon of both is known",
            received={"earlier": sorted(ledger.units), "now": unit},
            fix="Give groups= to all trainings and statistics of this model, or to none",
        )
