"""The noise of a step: from generators inside it, or drawn outside for one step at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from lipdp.training.mechanism import Grid, Mechanism
from lipdp.training.noise import NoiseSource


class NoiseState:
    """Adds the mechanism's noise to sums of gradients.

    Its variables must be among the optimizer's, or a traced step would repeat its noise; they are
    secrets of the same rank as the data, and are never saved.
    """

    def __init__(self) -> None:
        self._source = NoiseSource()
        # NaN until a factor is set: a step before that spoils the weights instead of leaking.
        self.factor = _scalar("noise_factor", math.nan)
        self._fresh = _scalar("noise_is_fresh", 0.0)
        self._buffers: list[Any] = []

    @property
    def variables(self) -> list[Any]:
        """States to be tracked by the optimizer from the beginning."""
        return [*self._source.variables, self.factor, self._fresh]

    @property
    def generators(self) -> list[Any]:
        """The generators' states."""
        return self._source.variables

    def reseed(self, seed: int | None) -> None:
        """Draws a new state from the operating system, or the state of a given seed."""
        self._source.reseed(seed)
        self.factor.assign(1.0)
        self._fresh.assign(0.0)

    def make_buffers(
        self, mechanism: Mechanism, shapes: Sequence[tuple[int, ...]], dtype: str
    ) -> list[Any]:
        """Makes room for noise from the host, if it is needed and not there; returns it."""
        if not mechanism.from_host or self._buffers:
            return []
        kind = _integers(dtype) if mechanism.grids else dtype
        self._buffers = [
            keras.Variable(
                np.zeros(shape), dtype=kind, trainable=False, name=f"host_noise_{number}"
            )
            for number, shape in enumerate(shapes)
        ]
        return self._buffers

    def set_factor(self, factor: float) -> None:
        """Multiplies all noise that is drawn in the step, from now on; rounded up."""
        rounded = np.float32(factor)
        if rounded < factor:
            rounded = np.nextafter(rounded, np.float32(np.inf))
        self.factor.assign(rounded)

    def load(self, draws: Sequence[np.ndarray]) -> None:
        """Brings noise for the next step, one array a variable: normals, or whole numbers."""
        for buffer, draw in zip(self._buffers, draws, strict=True):
            buffer.assign(draw.astype(keras.backend.standardize_dtype(buffer.dtype)))
        self._fresh.assign(1.0)

    def add(self, sums: Sequence[Any], mechanism: Mechanism, scales: Sequence[Any]) -> list[Any]:
        """The sums with noise; None stays None.

        Args:
            sums: Summed gradients, one a variable, or None.
            mechanism: Standard deviations and grids.
            scales: What each standard deviation is multiplied by.
        """
        noisy: list[Any] = list(sums)
        present = [i for i, g in enumerate(sums) if g is not None]
        draws = self._draws([sums[i] for i in present], present, mechanism)
        for i, draw in zip(present, draws, strict=True):
            total = ops.convert_to_tensor(sums[i])
            if mechanism.grids:
                noisy[i] = _on_grid(total, draw, mechanism.grids[i])
            else:
                factor = ops.cast(self.factor, total.dtype) * scales[i]
                noisy[i] = total + mechanism.stddevs[i] * factor * draw
        return self._spoil_if_stale(noisy) if mechanism.from_host else noisy

    def _draws(self, sums: list[Any], present: list[int], mechanism: Mechanism) -> list[Any]:
        if mechanism.from_host:
            return [self._buffers[i] for i in present]
        dtype = keras.backend.standardize_dtype(sums[0].dtype)
        return self._source.normal([tuple(g.shape) for g in sums], dtype)

    def _spoil_if_stale(self, noisy: list[Any]) -> list[Any]:
        """Noise that was used before must not be used again."""
        fresh = ops.convert_to_tensor(self._fresh)
        # On PyTorch a Python number in `where` shortens float64.
        used = [
            g if g is None else ops.where(fresh > 0, g, ops.full_like(g, math.nan)) for g in noisy
        ]
        self._fresh.assign(ops.zeros_like(fresh))
        return used


def _scalar(name: str, value: float) -> Any:
    return keras.Variable(value, dtype="float32", trainable=False, name=name)


def _integers(dtype: str) -> str:
    """Dtype in which sums on a grid are exact; see ``lipdp.privacy.largest_sum``."""
    return "float64" if dtype == "float64" else "int32"


def _on_grid(total: Any, steps: Any, grid: Grid | None) -> Any:
    """``w (round(clamp(S) / w) + k)``: nothing but the last product, of the noisy sum, rounds."""
    if grid is None:
        return total
    steps = ops.convert_to_tensor(steps)
    # A gradient that is no number has no grid point; the bounds exclude it.
    limit = ops.full_like(total, grid.limit)
    clamped = ops.where(total >= -limit, total, -limit)
    clamped = ops.where(clamped <= limit, clamped, limit)
    whole = ops.cast(ops.round(clamped / grid.width), steps.dtype)
    return ops.cast(whole + steps, total.dtype) * grid.width
