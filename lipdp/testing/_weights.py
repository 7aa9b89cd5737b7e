"""Weights pushed out of their constraint sets and projected back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from keras import ops

from lipdp.testing._points import adversarial_weights


def assign_projected(variable: Any, value: Any) -> None:
    """Assigns a value and applies the constraint, as an optimizer does after its step."""
    tensor = ops.reshape(ops.convert_to_tensor(value, dtype=variable.dtype), variable.shape)
    variable.assign(variable.constraint(tensor) if variable.constraint else tensor)


def weight_settings(variables: Sequence[Any], rng: np.random.Generator) -> Iterator[str]:
    """The present weights, projected, then each kind of extreme ones; yields its name."""
    for variable in variables:
        assign_projected(variable, variable.value)
    yield "initial"
    kinds = [list(adversarial_weights(v.shape, rng)) for v in variables]
    for setting in zip(*kinds, strict=True):
        for variable, (_, value) in zip(variables, setting, strict=True):
            assign_projected(variable, value)
        yield setting[0][0]


def push(variables: Sequence[Any], rng: np.random.Generator) -> None:
    """Gives each variable extreme weights of some kind."""
    for variable in variables:
        kinds = [value for _, value in adversarial_weights(variable.shape, rng)]
        assign_projected(variable, kinds[rng.integers(len(kinds))])


@contextmanager
def put_back(variables: Sequence[Any]) -> Iterator[None]:
    """Restores the values that variables have now, whatever happens."""
    values = copies(variables)
    try:
        yield
    finally:
        restore(variables, values)


def copies(variables: Sequence[Any]) -> list[np.ndarray]:
    """Values as they are now; what the backend returns may be a view of the variable."""
    return [np.array(ops.convert_to_numpy(v.value)) for v in variables]


def restore(variables: Sequence[Any], values: Sequence[np.ndarray]) -> None:
    """Assigns values as they are."""
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
