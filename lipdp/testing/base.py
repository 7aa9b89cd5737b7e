"""Inputs, cotangents and weights at which bounds tend to fail, and what a harness found."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from keras import ops

from lipdp.errors import BoundViolation


@dataclass(frozen=True)
class Tightness:
    """How close an adversarial search came to each bound of a part.

    Attributes:
        part: Name of the part.
        ratios: Largest measured value over bound, by quantity; below 1 if the search failed to
            attain the bound, 0 where the bound is infinite and nothing was compared.
    """

    part: str
    ratios: Mapping[str, float]

    @property
    def best(self) -> float:
        """The largest of the ratios."""
        return max(self.ratios.values(), default=0.0)


class Comparison:
    """Collects measurements of one part and stops at the first above its bound."""

    def __init__(self, part: str) -> None:
        self.part = part
        self._ratios: dict[str, float] = {}

    def compare(self, quantity: str, measured: float, bound: float) -> None:
        """Compares one measurement with its bound, which includes every slack.

        Raises:
            BoundViolation: If the bound is no number in [0, inf], or below the measurement, or the
                bound is finite and the measurement is not.
        """
        if math.isnan(bound) or bound < 0:
            raise BoundViolation(
                f"{self.part}: the bound of its {quantity} is none", received=bound
            )
        if not math.isinf(bound) and not measured <= bound:
            raise BoundViolation(
                f"{self.part}: its {quantity} is above the bound",
                received={"measured": float(measured), "bound": float(bound)},
                fix="The proof or the code is wrong: correct it before training privately",
            )
        ratio = measured / bound if bound > 0 and not math.isinf(bound) else 0.0
        self._ratios[quantity] = max(float(ratio), self._ratios.get(quantity, 0.0))

    def fail(self, what: str, received: object) -> None:
        """Reports a property that is not a bound.

        Raises:
            BoundViolation: Always.
        """
        raise BoundViolation(f"{self.part}: {what}", received=received)

    def tightness(self) -> Tightness:
        """The ratios so far."""
        return Tightness(self.part, MappingProxyType(dict(self._ratios)))


#: Sums of squares of smaller numbers do not overflow.
_SQUARABLE = 1e140


def norm(array: np.ndarray) -> float:
    """Euclidean norm of a whole tensor, in float64.

    The squares are added exactly, so that a layer that moves entries about does not change it.
    """
    values = np.asarray(array, dtype="float64").ravel()
    if not np.abs(values).max(initial=0.0) < _SQUARABLE:
        return float(np.linalg.norm(values))
    return math.sqrt(math.fsum((values * values).tolist()))


def scaled_to(array: np.ndarray, radius: float) -> np.ndarray:
    """The array scaled to a norm; a zero array stays."""
    length = norm(array)
    return array * (radius / length) if length > 0 else array


def adversarial_points(
    shape: Sequence[int], radius: float, rng: np.random.Generator
) -> list[np.ndarray]:
    """Points of the ball: zero, ties, one-hot, duplicated and sparse vectors, spheres of all sizes.

    Args:
        shape: Of one sample.
        radius: Of the ball.
        rng: Source of the random ones.
    """
    size = int(np.prod(shape))
    directions = [np.ones(size), -np.ones(size), np.eye(size)[0], -np.eye(size)[size // 2]]
    directions += [np.repeat(rng.normal(size=(size + 1) // 2), 2)[:size]]
    directions += [rng.normal(size=size) * rng.integers(0, 2, size=size), np.arange(size) % 2.0]
    directions += [rng.normal(size=size) for _ in range(2)]
    points = [np.zeros(size)] + [scaled_to(d, radius) for d in directions]
    points += [scaled_to(rng.normal(size=size), radius * t) for t in (0.7, 0.3, 0.1, 1e-2, 1e-6)]
    points += [scaled_to(np.ones(size), radius * 1e-3)]
    return [p.reshape(shape) for p in points]


def id_points(shape: Sequence[int], count: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Ids: random, all equal, all different, and those of no row.

    Args:
        shape: Of one sample.
        count: Number of valid ids.
        rng: Source of the random ones.
    """
    size = int(np.prod(shape))
    equal = [np.full(size, i) for i in (0, count - 1, -1, count, 0.5, 1e6)]
    mixed = [rng.integers(-2, count + 2, size=size) for _ in range(3)]
    proper = [rng.integers(0, count, size=size) for _ in range(3)]
    points = [*equal, np.arange(size) % count, *mixed, *proper]
    return [np.asarray(p, "float64").reshape(shape) for p in points]


def hostile_points(shape: Sequence[int]) -> list[np.ndarray]:
    """Rows that no data set should hold: NaN, infinities, and near the largest float."""
    size = int(np.prod(shape))
    mixed = np.zeros(size)
    mixed[0], mixed[-1] = np.inf, np.nan
    rows = [np.full(size, v) for v in (np.nan, np.inf, -np.inf, 3e38, -1e30, 1e19, 1e-38)]
    return [r.reshape(shape) for r in [*rows, mixed]]


def cotangents(size: int, rng: np.random.Generator, *, one_hot: bool = True) -> list[np.ndarray]:
    """Unit vectors of an output space: constant, alternating, one-hot (two) and random."""
    vectors = [np.ones(size), (-1.0) ** np.arange(size)]
    vectors += [np.eye(size)[0], np.eye(size)[-1]] if one_hot else []
    vectors += [rng.normal(size=size) for _ in range(2)]
    return [scaled_to(v, 1.0) for v in vectors]


def adversarial_weights(
    shape: Sequence[int], rng: np.random.Generator, size: float = 1e3
) -> Iterator[tuple[str, np.ndarray]]:
    """Weights before projection, far outside every reasonable ball, by name.

    Args:
        shape: Of the weight.
        rng: Source of the random ones.
        size: Factor that pushes them out.
    """
    columns = shape[-1] if len(shape) > 0 else 1
    rows = int(np.prod(shape)) // columns
    spike = np.zeros(rows * columns)
    spike[rng.integers(rows * columns)] = size
    decay = np.geomspace(1.0, 1e-3, min(rows, columns))
    left = np.linalg.qr(rng.normal(size=(rows, len(decay))))[0]
    right = np.linalg.qr(rng.normal(size=(columns, len(decay))))[0]
    yield "random", size * rng.normal(size=shape)
    yield "constant", np.full(shape, size)
    yield "rank one", size * np.outer(rng.normal(size=rows), rng.normal(size=columns))
    yield "spike", spike
    yield "graded", size * (left * decay) @ right.T
    yield "orthogonal", left @ right.T
    yield "zero", np.zeros(shape)


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
