"""How a run was trained, in words."""

from __future__ import annotations

from typing import Any

from lipdp.results import RunResult

_NAMES = {"clipless": "clipless", "dp-sgd": "DP-SGD", "none": "without privacy"}
_TITLES = {
    "clipless": "Private training with proved gradient bounds",
    "dp-sgd": "Private training with clipped gradients (DP-SGD)",
    "none": "Training without privacy",
}
_STEPS = {
    "clipless": "Each step takes a batch of rows, sums their gradients, adds Gaussian noise that is"
    " set by a proved bound of what one row, or one user, adds to the sum, and divides by the"
    " expected batch size. The statement says how batches are drawn.",
    "dp-sgd": "Each step takes a batch of rows, clips the gradient of each to a fixed norm, sums"
    " them, adds Gaussian noise that is set by this norm, and divides by the expected batch size."
    " The statement says how batches are drawn.",
    "none": "Each step takes a batch of rows, sums their gradients and divides by the expected"
    " batch size; no noise is added.",
}


def method_name(method: str, without_noise: bool = False) -> str:
    """The method in a word or two."""
    name = _NAMES.get(method, method)
    return f"{name}, no noise" if without_noise and method != "none" else name


def method_title(method: str) -> str:
    """What kind of training it was."""
    return _TITLES.get(method, f"Training by {method}")


def method_steps(method: str) -> str:
    """What a step does, in a sentence."""
    return _STEPS.get(method, "")


def held_out(result: RunResult) -> str:
    """Which rows measured it: "test", or "validation" where the test rows stayed unread."""
    return "validation" if _data(result).get("validation_fraction") is not None else "test"


def protects_users(result: RunResult) -> bool:
    """Whether the unit of privacy is a user with all their rows, rather than a row."""
    return bool(_data(result).get("group"))


def _data(result: RunResult) -> dict[str, Any]:
    found = result.config.get("data")
    return found if isinstance(found, dict) else {}
