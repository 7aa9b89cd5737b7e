"""Noise drawn outside the compiled step, for one step at a time."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from lipdp.privacy import RoundedGaussian
from lipdp.training.mechanism import Mechanism


class HostNoise(abc.ABC):
    """Draws the noise of one step.

    Args:
        shapes: Shape of each trainable variable.
    """

    def __init__(self, shapes: Sequence[tuple[int, ...]]) -> None:
        self._shapes = tuple(shapes)

    @abc.abstractmethod
    def draw(self, mechanism: Mechanism, factor: float) -> list[np.ndarray]:
        """One array a variable.

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
        self._next = self._thread.submit(self._normals)

    def draw(self, mechanism: Mechanism, factor: float) -> list[np.ndarray]:
        """Standard normals, which are handed out once; the step itself scales them."""
        draws = self._next.result()
        self._next = self._thread.submit(self._normals)
        return draws

    def _normals(self) -> list[np.ndarray]:
        draws = (self._generator.standard_normal(shape) for shape in self._shapes)
        return [draw.astype(self._dtype, copy=False) for draw in draws]


class SecureNoise(HostNoise):
    """Gaussians rounded to the mechanism's grids, exactly, from a cryptographic generator."""

    def __init__(self, shapes: Sequence[tuple[int, ...]]) -> None:
        super().__init__(shapes)
        self._source = RoundedGaussian()

    def draw(self, mechanism: Mechanism, factor: float) -> list[np.ndarray]:
        """Whole numbers of grid widths, with the standard deviation of this step."""
        parts = zip(self._shapes, mechanism.stddevs, mechanism.grids, strict=True)
        return [
            np.zeros(shape)
            if grid is None
            else self._source.draw(
                stddev * factor, grid.width, int(np.prod(shape, dtype=np.int64))
            ).reshape(shape)
            for shape, stddev, grid in parts
        ]
