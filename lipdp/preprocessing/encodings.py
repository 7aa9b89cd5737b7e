"""Public facts about images, vectors and features, and the encodings that use nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from lipdp.config import parse_toml, read_toml, write_toml
from lipdp.errors import InvalidConfig, InvalidData
from lipdp.preprocessing.facts import Classes, FilledNumber, Number, PublicFacts, about, given
from lipdp.preprocessing.schema import Schema
from lipdp.preprocessing.values import as_floats, check_values, unit_scale


def _check_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    if len(shape) != 3:
        raise ValueError("write shape = [height, width, channels], such as [28, 28, 1]")
    return shape


Size = Annotated[int, Field(strict=True, ge=1)]
Shape = Annotated[tuple[Size, ...], AfterValidator(_check_shape)]


class ImageEncoding(PublicFacts):
    """What is publicly known about images of one size; each is encoded by that alone.

    An image becomes the row of its values, clipped to ``[low, high]``, scaled to [0, 1], and
    flattened: height, width, channels. Nothing is learned from images, so encoding costs no
    privacy.

    Attributes:
        classes: Labels or their names, at least two; the position is the class id.
        shape: Height, width and channels.
        low: Lowest possible value, such as 0.
        high: Highest possible value, such as 255.

    Raises:
        InvalidConfig: If a key is unknown, missing or blank, or a value is outside its domain.
    """

    kind: Literal["images"] = "images"
    classes: Classes
    shape: Shape
    low: FilledNumber
    high: FilledNumber

    @model_validator(mode="after")
    def _usable(self) -> ImageEncoding:
        if not 0.0 < self.high - self.low < math.inf:
            raise ValueError(f"low must be below high, not {self.low:g} and {self.high:g}")
        return self

    def to_toml(self) -> str:
        """TOML that ``load_encoding`` reads back to an equal encoding."""
        return write_toml(self.model_dump())

    @property
    def num_features(self) -> int:
        """Length of an encoded row."""
        return math.prod(self.shape)

    @property
    def max_norm(self) -> float:
        """Upper bound of the norm of an encoded row."""
        return math.nextafter(math.sqrt(self.num_features), math.inf)

    @property
    def constants(self) -> Mapping[int, float]:
        """Features that have one public value in every row: none."""
        return {}

    @property
    def unit(self) -> str:
        """In which certified radii are stated."""
        return "L2 distance of images whose pixels are scaled to [0, 1]"

    def check(self, values: Any) -> None:
        """Checks raw images before any is used.

        Args:
            values: Array or indexable, shape (n, height, width, channels); one channel may be left
                out, and images may be flattened.

        Raises:
            InvalidData: If the shape is another, or a value is no finite number.
        """
        height, width, channels = self.shape
        fits = [self.shape, (self.num_features,), *([(height, width)] if channels == 1 else [])]
        with self.naming():
            if tuple(values.shape[1:]) not in fits:
                raise InvalidData(
                    f"Images must have the shape {tuple(self.shape)}, as in the schema",
                    received=f"shape {tuple(values.shape)}, the first axis counts images",
                    fix="Resize the images, or correct the shape",
                )
        check_values(values)

    def encode(self, values: np.ndarray, dtype: np.dtype | str = "float64") -> np.ndarray:
        """Encodes images that ``check`` accepted.

        Args:
            values: Raw images, n of them.
            dtype: Type of the result.

        Returns:
            Shape (n, num_features), entries in [0, 1].
        """
        rows = as_floats(values, dtype)
        np.clip(rows, self.low, self.high, out=rows)
        rows -= self.low
        rows /= self.high - self.low
        return np.clip(rows, 0.0, 1.0, out=rows)


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


@dataclass(frozen=True)
class FeatureEncoding:
    """The encoding of rows, and what follows from it about features that are made of them.

    Attributes:
        encoding: Of the rows.
        shape: Of the features of one row, before they are flattened.
        max_norm: Upper bound of the norm of a row's features.
        unit: In which certified radii are stated.
    """

    encoding: Encoding | FeatureEncoding
    shape: tuple[int, ...]
    max_norm: float
    unit: str

    @property
    def classes(self) -> tuple[str, ...]:
        """Labels or their names; the position is the class id."""
        return tuple(self.encoding.classes)

    @property
    def num_features(self) -> int:
        """Length of a row of features."""
        return math.prod(self.shape)

    @property
    def constants(self) -> Mapping[int, float]:
        """No feature is known to be constant."""
        return {}

    def to_toml(self) -> str:
        """The encoding of the rows, which is what a released model takes."""
        return self.encoding.to_toml()


Encoding = Schema | ImageEncoding | VectorEncoding
#: Of rows as they are, or of features that are made of them.
AnyEncoding = Encoding | FeatureEncoding


def load_encoding(path: str | Path) -> Encoding:
    """Reads the public facts about a table, about images or about vectors.

    Raises:
        InvalidConfig: If the file cannot be read or is not a whole schema.
    """
    tables = read_toml(Path(path))
    with about(f"Schema {path}"):
        return _encoding(tables).read_from(path)


def encoding_from_toml(text: str) -> Encoding:
    """The same from text.

    Raises:
        InvalidConfig: If it is not TOML or not a whole schema.
    """
    return _encoding(parse_toml(text, "the schema"))


def _encoding(tables: Mapping[str, Any]) -> Encoding:
    match tables.get("kind", "table"):
        case "images":
            return ImageEncoding(**tables)
        case "vectors":
            return VectorEncoding(**tables)
        case "table":
            return Schema(**tables)
    raise InvalidConfig(
        "There is no such kind of schema",
        received=tables["kind"],
        fix='Use kind = "images" or "vectors", or leave it out for a table',
    )
