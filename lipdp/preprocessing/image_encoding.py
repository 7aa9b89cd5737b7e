"""Public facts about images, and the encoding that uses nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from lipdp.config import write_toml
from lipdp.errors import InvalidData
from lipdp.preprocessing.facts import Classes, FilledNumber, PublicFacts
from lipdp.preprocessing.values import as_floats, check_values


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
