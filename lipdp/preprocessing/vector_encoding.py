"""Public facts about vectors of numbers, and the encoding that uses nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from lipdp.config import write_toml
from lipdp.errors import InvalidData
from lipdp.preprocessing._scale import unit_scale
from lipdp.preprocessing.facts import Classes, Number, PublicFacts, given
from lipdp.preprocessing.values import as_floats, check_values

Numbers = Annotated[Number | tuple[Number, ...], BeforeValidator(given)]


class VectorEncoding(PublicFacts):
    """What is publicly known about vectors of numbers; each is encoded by that alone.

    Each number is clipped to its range and mapped linearly into [-1, 1], such that ``zero`` becomes
    0 and the farther end of the range 1 or -1; then a constant 1 is appended, and all is multiplied
    by ``1 / sqrt(features + 1)``. So a row has norm at most 1, as an encoded row of a table.

    Attributes:
        classes: Labels or their names, at least two; the position is the class id.
        features: Numbers of a vector.
        low: Lowest possible value, of all features or of each; what lies below is moved to it.
        high: Highest possible value.
        zero: A typical value, inside the range; by default the lowest.

    Raises:
        InvalidConfig: If a key is unknown, missing or blank, or a value is outside its domain.
    """

    kind: Literal["vectors"] = "vectors"
    classes: Classes
    features: Annotated[int, Field(strict=True, ge=1)]
    low: Numbers
    high: Numbers
    zero: Numbers | None = None

    @model_validator(mode="after")
    def _usable(self) -> VectorEncoding:
        for name in ("low", "high", "zero"):
            value = getattr(self, name)
            if isinstance(value, tuple) and len(value) != self.features:
                raise ValueError(f"{name} must be one number, or {self.features} of them")
        low, high, zero = self._ranges
        with np.errstate(over="ignore"):
            if not ((low < high) & np.isfinite(high - low)).all():
                raise ValueError("low must be below high, in every feature")
        if not ((low <= zero) & (zero <= high)).all():
            raise ValueError("zero must lie between low and high, in every feature")
        return self

    @property
    def _ranges(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Lowest, highest and typical values, each of shape () or (features,)."""
        ends = (self.low, self.high, self.low if self.zero is None else self.zero)
        low, high, zero = (np.asarray(value, float) for value in ends)
        return low, high, zero

    def to_toml(self) -> str:
        """TOML that ``load_encoding`` reads back to an equal encoding."""
        return write_toml(self.model_dump())

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of an encoded sample."""
        return (self.num_features,)

    @property
    def num_features(self) -> int:
        """Length of an encoded row, the constant included."""
        return self.features + 1

    @property
    def scale(self) -> float:
        """The public factor of every row."""
        return unit_scale(self.num_features)

    @property
    def min_norm(self) -> float:
        """Lower bound of the norm of every encoded row, from the constant."""
        return self.scale

    @property
    def max_norm(self) -> float:
        """Upper bound of the norm of an encoded row."""
        return 1.0

    @property
    def constants(self) -> Mapping[int, float]:
        """Features that have one public value in every row: the last."""
        return {self.features: self.scale}

    @property
    def unit(self) -> str:
        """In which certified radii are stated."""
        return "L2 distance of encoded rows (an encoded row has norm at most 1)"

    def check(self, values: Any) -> None:
        """Checks raw vectors before any is used.

        Args:
            values: Array or indexable, shape (n, features).

        Raises:
            InvalidData: If the shape is another, or a value is no finite number.
        """
        with self.naming():
            if tuple(values.shape[1:]) != (self.features,):
                raise InvalidData(
                    f"Vectors must have {self.features} numbers each, as in the schema",
                    received=f"shape {tuple(values.shape)}, the first axis counts vectors",
                    fix="Give an array of shape (n, features), or correct the schema",
                )
        check_values(values)

    def encode(self, values: np.ndarray, dtype: np.dtype | str = "float64") -> np.ndarray:
        """Encodes vectors that ``check`` accepted.

        Args:
            values: Raw vectors, shape (n, features).
            dtype: Type of the result.

        Returns:
            Shape (n, num_features); the norm of a row is in [min_norm, 1].
        """
        low, high, zero = self._ranges
        rows = as_floats(values, "float64")
        np.clip(rows, low, high, out=rows)
        rows -= zero
        rows /= np.maximum(high - zero, zero - low)
        np.clip(rows, -1.0, 1.0, out=rows)
        rows *= self.scale
        encoded = np.full((len(rows), self.num_features), self.scale, dtype=dtype)
        encoded[:, :-1] = rows
        return encoded
