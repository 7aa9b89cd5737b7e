"""Gaussian noise from generators seeded by the operating system."""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

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
