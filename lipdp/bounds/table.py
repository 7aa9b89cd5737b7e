"""The result of the engine: one bound a trainable variable, and how it came about."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True)
class BoundRow:
    """One variable of one layer, or a layer without variables.

    Attributes:
        layer: Name of the layer.
        variable: Name of the variable, or "" for none.
        output_bound: Bound X of the norm of the layer's output.
        lipschitz: Bound of the spectral norm of the layer's Jacobian, in training.
        bound: Bound D of the norm of one sample's gradient, or 0 without a variable.
    """

    layer: str
    variable: str
    output_bound: float
    lipschitz: float
    bound: float


@dataclass(frozen=True)
class GradientBounds:
    """Proved bounds of one sample's gradient, rounding included.

    Attributes:
        parameters: Bound of ``||dl/dv||`` for each v of ``model.trainable_variables``, in order.
        logit_bound: Bound of the norm of one sample's logits.
        loss_lipschitz: Bound of ``||dl/dz||``.
        unit: Coarsest unit round-off among the layers.
        entries: Entries of the largest tensor of one sample: no gradient entry sums more terms.
        rows: How they came about, layer by layer.
    """

    parameters: list[float]
    logit_bound: float
    loss_lipschitz: float
    unit: float
    entries: int
    rows: tuple[BoundRow, ...]

    @property
    def total(self) -> float:
        """Bound of the norm of the whole gradient, ``sqrt(sum D^2)``."""
        return math.sqrt(math.fsum(d * d for d in self.parameters))

    def to_frame(self) -> pd.DataFrame:
        """Table with columns layer, variable, output_bound, lipschitz, bound."""
        columns = ["layer", "variable", "output_bound", "lipschitz", "bound"]
        return pd.DataFrame(
            [[getattr(row, c) for c in columns] for row in self.rows], columns=columns
        )

    def __str__(self) -> str:
        return self.to_frame().to_string(index=False)
