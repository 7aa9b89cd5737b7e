"""Noise drawn outside the compiled step, for one step at a time."""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from keras import ops

from lipdp.privacy import RoundedGaussian
from lipdp.training.mechanism import Mechanism

# Float64 normals that fit into a processor's nearest cache until they are rounded.
_PART = 4096


class HostNoise(abc.ABC):
    """Draws the noise of one step.

    Args:
        shapes: Shape of each trainable variable.
    """

    def __init__(self, shapes: Sequence[tuple[int, ...]]) -> None:
        self.shapes = tuple(shapes)

    @abc.abstractmethod
    def draw(self, mechanism: Mechanism, factor: float) -> Any:
        """A new array or tensor, shape (P,): the entries of one variable after those of the other.

        Args:
            mechanism: Standard deviations and grids.
            factor: What the standard deviations are multiplied by in this step.
        """


class PlainHostNoise(HostNoise):
    """Standard normals of NumPy's generator, seeded with 128 bits of the operating system.

    The noise of the next step is drawn by a thread while this one runs. On several devices each
    adds the same noise to the same sum.

    Args:
        shapes: Shape of each trainable variable.
        dtype: Of the variables; normals are drawn in float64 and rounded to it.
        seed: Makes the noise reproducible, and the run not private.
    """

    def __init__(self, shapes: Sequence[tuple[int, ...]], dtype: str, seed: int | None) -> None:
        super().__init__(shapes)
        self._dtype = dtype
        # The fastest of NumPy's generators for normals.
        bits = np.random.SFC64(None if seed is None else [seed, 2])
        self._generator = np.random.Generator(bits)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="lipdp-noise")
        self._next = self._thread.submit(self._tensor)

    def draw(self, mechanism: Mechanism, factor: float) -> Any:
        """Standard normals, which are handed out once; the step itself scales them."""
        draws = self._next.result()
        self._next = self._thread.submit(self._tensor)
        return draws

    def _tensor(self) -> Any:
        # Here, since no step can run while its noise is brought.
        return ops.convert_to_tensor(self._normals())

    def _normals(self) -> np.ndarray:
        # A new array each time: a backend may use it in place, in a step that still runs.
        draws = np.empty(sum(map(math.prod, self.shapes)), self._dtype)
        part = np.empty(_PART)
        for start in range(0, len(draws), _PART):
            some = part[: len(draws) - start]
            self._generator.standard_normal(out=some)
            draws[start : start + _PART] = some
        return draws


class SecureNoise(HostNoise):
    """Gaussians rounded to the mechanism's grids, exactly, from a cryptographic generator."""

    def __init__(self, shapes: Sequence[tuple[int, ...]]) -> None:
        super().__init__(shapes)
        self._source = RoundedGaussian()

    def draw(self, mechanism: Mechanism, factor: float) -> np.ndarray:
        """Whole numbers of grid widths, with the standard deviation of this step."""
        parts = zip(self.shapes, mechanism.stddevs, mechanism.grids, strict=True)
        return np.concatenate(
            [
                np.zeros(math.prod(shape))
                if grid is None
                else self._source.draw(stddev * factor, grid.width, math.prod(shape))
                for shape, stddev, grid in parts
            ]
        )
