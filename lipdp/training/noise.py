"""The noise of a step: from generators inside it, or drawn outside for one step at a time.

Noise from the host is brought for one step, which marks it as used: a step on used noise makes NaN.
"""

from __future__ import annotations

import abc
import math
import secrets
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import keras
import numpy as np
from keras import ops

from lipdp.errors import InvalidState
from lipdp.privacy import RoundedGaussian
from lipdp.training.noise_plan import Grid, Mechanism

_GENERATORS = 2
_WORDS = 2


class NoiseSource:
    """Standard Gaussian noise for several variables in one draw.

    One Keras generator holds two 32-bit words, few enough to be searched, so the noise is the sum
    of two independent halves, seeded with 128 bits from the operating system (of which Keras uses
    124 on TensorFlow, which takes each word modulo 2^31 - 2, and 64 on PyTorch, where it adds a
    generator's words up). The generators are not cryptographic. Their state must be among the
    variables of the optimizer, or a traced step would repeat its noise; it is a secret of the same
    rank as the data, and is never saved.

    Args:
        seed: None for the operating system; an integer makes a reproducible run, not private.
    """

    def __init__(self, seed: int | None = None) -> None:
        self._generators = [keras.random.SeedGenerator(seed=0) for _ in range(_GENERATORS)]
        self.reseed(seed)

    @property
    def variables(self) -> list[Any]:
        """The generators' states, to be tracked by the optimizer and never saved."""
        return [generator.state for generator in self._generators]

    def reseed(self, seed: int | None = None) -> None:
        """Draws a new state from the operating system, or the state of a given seed."""
        for words, state in zip(_words(seed), self.variables, strict=True):
            # Backends keep the 32-bit words as uint32, int32 (same bits) or int64.
            state.assign(words.astype(keras.backend.standardize_dtype(state.dtype)))

    def normal(self, shapes: Sequence[tuple[int, ...]], dtype: str) -> list[Any]:
        """Independent standard Gaussian tensors, one a shape."""
        sizes = [math.prod(shape) for shape in shapes]
        draws = [keras.random.normal((sum(sizes),), dtype=dtype, seed=g) for g in self._generators]
        return cut(ops.divide(sum(draws[1:], draws[0]), math.sqrt(_GENERATORS)), shapes)


def cut(flat: Any, shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    """Tensors of some shapes from one that holds their entries one after the other."""
    ends = [int(end) for end in np.cumsum([math.prod(shape) for shape in shapes])]
    return [
        ops.reshape(flat[start:end], shape)
        for start, end, shape in zip([0, *ends], ends, shapes, strict=False)
    ]


def _words(seed: int | None) -> np.ndarray:
    if seed is None:
        raw = secrets.token_bytes(4 * _GENERATORS * _WORDS)
        return np.frombuffer(raw, dtype=np.uint32).reshape(_GENERATORS, _WORDS).copy()
    state = np.random.SeedSequence(seed).generate_state(_GENERATORS * _WORDS, dtype=np.uint32)
    return state.reshape(_GENERATORS, _WORDS)


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


class NoiseState:
    """Adds the mechanism's noise to sums of gradients.

    Its variables must be among the optimizer's, or a traced step would repeat its noise; they are
    secrets of the same rank as the data, and are never saved.
    """

    def __init__(self) -> None:
        # Until `reseed` nothing is secret: processes that agree upon a seed later begin alike.
        self._source = NoiseSource(seed=0)
        # Infinite until a factor is set: a step before that spoils the weights instead of leaking.
        # Not NaN, which is equal to itself in no two processes.
        self.factor = _scalar("noise_factor", math.inf)
        self._fresh = _scalar("noise_is_fresh", 0.0)
        self._buffer: Any = None
        self._shapes: list[tuple[int, ...]] = []

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
        """Makes room for noise from the host, if it is needed and not there; returns it.

        All variables share one buffer: what a copy costs is not its bytes but its call.
        """
        if not mechanism.from_host or self._buffer is not None:
            return []
        kind = _integers(dtype) if mechanism.grids else dtype
        self._shapes = list(shapes)
        zeros = np.zeros(sum(math.prod(shape) for shape in shapes))
        self._buffer = keras.Variable(zeros, dtype=kind, trainable=False, name="host_noise")
        return [self._buffer]

    def set_factor(self, factor: float) -> None:
        """Multiplies all noise that is drawn in the step, from now on; rounded up."""
        rounded = np.float32(factor)
        if rounded < factor:
            rounded = np.nextafter(rounded, np.float32(np.inf))
        self.factor.assign(rounded)

    def load(self, draws: Any, shapes: Sequence[tuple[int, ...]]) -> None:
        """Brings noise for the next step: normals, or whole numbers.

        Args:
            draws: An array, or a tensor of the buffer's dtype. Shape (P,), the entries of one
                variable after those of the other.
            shapes: Of the variables that it was drawn for.

        Raises:
            InvalidState: If these are other shapes than those that room was made for.
        """
        if [*shapes] != self._shapes:
            raise InvalidState(
                "The noise does not match the variables that room was made for",
                received=[*shapes],
                fix="Compile the model again after changing `trainable`",
            )
        if isinstance(draws, np.ndarray):
            # Before a backend makes float32 of it.
            kind = keras.backend.standardize_dtype(self._buffer.dtype)
            draws = draws.astype(kind, copy=False)
        self._buffer.assign(draws)
        # A tensor, which costs less than a number, and a new one: JAX takes it over.
        self._fresh.assign(ops.ones((), self._fresh.dtype))

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
        valid = self._take() if mechanism.from_host else 1.0
        for i, draw in zip(present, draws, strict=True):
            total = ops.convert_to_tensor(sums[i])
            if mechanism.grids:
                noisy[i] = _on_grid(total, draw, mechanism.grids[i], valid)
            else:
                factor = ops.cast(self.factor * valid, total.dtype) * scales[i]
                noisy[i] = total + mechanism.stddevs[i] * factor * draw
        return noisy

    def _draws(self, sums: list[Any], present: list[int], mechanism: Mechanism) -> list[Any]:
        if mechanism.from_host:
            whole = cut(ops.convert_to_tensor(self._buffer), self._shapes)
            return [whole[i] for i in present]
        dtype = keras.backend.standardize_dtype(sums[0].dtype)
        return self._source.normal([tuple(g.shape) for g in sums], dtype)

    def _take(self) -> Any:
        """One for noise that was not used yet, else NaN, which spoils every sum; marks it used."""
        fresh = ops.convert_to_tensor(self._fresh)
        # Before the assignment: a traced read may come as late as its use.
        valid = ops.where(fresh > 0, ops.ones_like(fresh), ops.full_like(fresh, math.nan))
        self._fresh.assign(ops.zeros_like(fresh))
        return valid


def _scalar(name: str, value: float) -> Any:
    return keras.Variable(value, dtype="float32", trainable=False, name=name)


def _integers(dtype: str) -> str:
    """Dtype in which sums on a grid are exact; see ``lipdp.privacy.largest_sum``."""
    return "float64" if dtype == "float64" else "int32"


def _on_grid(total: Any, steps: Any, grid: Grid | None, valid: Any) -> Any:
    """``w (round(clamp(S) / w) + k)``: nothing but the last product, of the noisy sum, rounds.

    ``valid`` is 1, or NaN if the noise was used before.
    """
    valid = ops.cast(valid, total.dtype)
    if grid is None:
        return total * valid
    steps = ops.convert_to_tensor(steps)
    # A gradient that is no number has no grid point; the bounds exclude it.
    limit = ops.full_like(total, grid.limit)
    clamped = ops.where(total >= -limit, total, -limit)
    clamped = ops.where(clamped <= limit, clamped, limit)
    whole = ops.cast(ops.round(clamped / grid.width), steps.dtype)
    return ops.cast(whole + steps, total.dtype) * (grid.width * valid)
