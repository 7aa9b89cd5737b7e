"""What a training says while it runs, as lines of text; none holds an exact training number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SHOWN = {
    "epsilon": "epsilon",
    "val_accuracy": "validation accuracy",
    "val_certified_accuracy": "certified",
}


def opening_line(plan: Mapping[str, Any], epochs: int, steps: int) -> str:
    """How long the training is and how much noise it adds.

    Args:
        plan: The plan of a result.
        epochs: Number of epochs.
        steps: Steps of an epoch.
    """
    noise = plan.get("noise_multiplier")
    known = "" if noise is None else f", noise multiplier {noise:.6g}"
    return f"{epochs} epochs of {steps} steps{known}"


def epoch_line(number: int, total: int, logs: Mapping[str, float]) -> str:
    """What an epoch reached: epsilon and held-out metrics.

    Args:
        number: Of the epoch, counted from 1.
        total: Number of epochs.
        logs: Values by Keras' names; others are left out.
    """
    parts = [f"{label} {logs[key]:.4f}" for key, label in _SHOWN.items() if key in logs]
    return f"epoch {number:>{len(str(total))}}/{total}  " + "  ".join(parts)
