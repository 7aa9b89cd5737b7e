"""What is publicly known about rows of features."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from lipdp.preprocessing.load import Encoding


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


#: Of rows as they are, or of features that are made of them.
AnyEncoding = Encoding | FeatureEncoding
