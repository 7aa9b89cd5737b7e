"""One part, how it is made, and where it is checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lipdp.testing.base import Tightness
from lipdp.testing.check_layer import check_layer
from lipdp.testing.check_loss import check_loss
from lipdp.testing.check_projection import check_projection


@dataclass(frozen=True)
class LayerPart:
    """A layer at one shape.

    Attributes:
        name: Class name, and what is special.
        make: Builds it, given ``dtype``.
        shape: Of one sample, or a list of shapes.
        radius: Bound of its norm.
        ids: Number of ids if it takes ids.
        least: Smallest best ratio of measured to bound that the search must find.
        rule: States the bounds at each setting of the weights; None if the layer itself does.
    """

    name: str
    make: Callable[..., Any]
    shape: Any
    radius: float
    ids: int | None = None
    least: float = 0.99
    rule: Callable[[Any], Any] | None = None

    @property
    def plain(self) -> bool:
        """Whether nothing about it is special: its name is that of its class."""
        return " " not in self.name

    def check(self, dtype: str = "float32", seed: int = 0) -> Tightness:
        """Runs ``check_layer``."""
        layer = self.make(dtype=dtype)
        return check_layer(layer, self.shape, self.radius, ids=self.ids, rule=self.rule, seed=seed)


@dataclass(frozen=True)
class LossPart:
    """A loss at one number of logits.

    Attributes:
        name: Class name, and what is special.
        loss: The loss.
        outputs: Number of logits (of a position).
        logit_bounds: At which it is checked.
        least: Smallest best ratio that the search must find.
    """

    name: str
    loss: Any
    outputs: int
    logit_bounds: Sequence[float] = (0.5, 3.0, float("inf"))
    least: float = 0.8

    def check(self, logit_bound: float, seed: int = 0) -> Tightness:
        """Runs ``check_loss``."""
        return check_loss(self.loss, self.outputs, logit_bound, seed=seed)


@dataclass(frozen=True)
class ProjectionPart:
    """A projection.

    Attributes:
        name: Class name, and what is special.
        projection: The projection.
        shapes: Of weights that it is checked on; the first is the quick one.
        norm: The norm that it bounds, if not the spectral one.
        least: Smallest best ratio that the search must find.
    """

    name: str
    projection: Any
    shapes: Sequence[tuple[int, ...]] = ((6, 4), (1, 5), (4, 6), (5, 1), (40, 30))
    norm: Callable[[np.ndarray], float] | None = None
    least: float = 0.9

    def check(self, shape: Sequence[int], dtype: str = "float32", seed: int = 0) -> Tightness:
        """Runs ``check_projection``."""
        return check_projection(self.projection, shape, dtype=dtype, norm=self.norm, seed=seed)
