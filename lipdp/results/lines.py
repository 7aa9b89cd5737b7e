"""What a training says while it runs, as lines of text; none holds an exact training number."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal
from typing import Any

_DECIMALS = Decimal("0.0001")
#: From here on a float has no four decimals, and its text is exact.
_LARGE = 1e15


def opening_line(plan: Mapping[str, Any], epochs: int, steps: int) -> str:
    """How long the training is and how much noise it adds.

    Args:
        plan: The plan of a result.
        epochs: Number of epochs.
        steps: Steps of an epoch.
    """
    noise = plan.get("noise_multiplier")
    known = "" if noise is None else f", noise multiplier {noise:.6g}"
    return f"{counted(epochs, 'epoch')} of {counted(steps, 'step')}{known}"


def epoch_line(number: int, total: int, logs: Mapping[str, float]) -> str:
    """What an epoch reached: epsilon and held-out metrics.

    Args:
        number: Of the epoch, counted from 1.
        total: Number of epochs.
        logs: Values by Keras' names; others are left out. ``certified_radius`` is the radius of
            ``val_certified_accuracy``, where it is known.
    """
    radius = logs.get("certified_radius")
    certified = "certified" if radius is None else f"certified at {radius:g}"
    parts = [
        ("epsilon", "epsilon", decimals_up),
        ("val_accuracy", "held-out accuracy", "{:.4f}".format),
        ("val_certified_accuracy", certified, "{:.4f}".format),
    ]
    said = [f"{label} {written(logs[key])}" for key, label, written in parts if key in logs]
    return f"epoch {number:>{len(str(total))}}/{total}  " + "  ".join(said)


def decimals_up(value: float) -> str:
    """A bound from above with four decimals, rounded up so that it stays one."""
    if not math.isfinite(value) or abs(value) >= _LARGE:
        return str(float(value))
    return str(Decimal(repr(float(value))).quantize(_DECIMALS, ROUND_CEILING))


def digits_up(value: float, digits: int = 6) -> str:
    """Significant digits of a bound from above, rounded up so that it stays one."""
    if not math.isfinite(value) or value <= 0:
        return f"{value:.{digits}g}"
    exact = Decimal(repr(float(value)))  # what a reader of the JSON sees
    step = Decimal(1).scaleb(exact.adjusted() + 1 - digits)
    return f"{float(exact.quantize(step, ROUND_CEILING)):.{digits}g}"


def counted(count: int, word: str) -> str:
    """A number with its noun, as in "1 step" and "2 steps"."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
