"""Rows that come one after the other and cannot be drawn at random."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import keras
import numpy as np

from lipdp.errors import InvalidData, InvalidState
from lipdp.training.batches import EpochBatches, Slots, outline_of

_FIX = 'Compile with PrivacyBudget(..., sampling="shuffled", adjacency="zero-out"), or pass arrays'


class RowStream:
    """A source of rows ``(x, y)`` that can be read again from the start, such as a ``tf.data``.

    It is read once to count the rows and to check the labels.

    Args:
        source: Iterable of pairs of one input and its target, or of batches of them, finite; each
            row comes at most once a pass, in whatever order, and depends on one record.
        sampling: The budget's sampling.
        check_shape: Raises for the shape of a row that the model has no bound for; it sees every
            row of every pass.
        check_labels: Raises for labels that the loss has no bound for.

    Attributes:
        like: Empty arrays of the shapes and types of a row and its target; None without rows.

    Raises:
        InvalidData: If the sampling needs rows at random, the source can be read only once, is
            endless, or its elements are no pairs.
    """

    def __init__(
        self,
        source: Iterable[Any],
        sampling: str,
        check_shape: Callable[[Sequence[int]], None],
        check_labels: Callable[[np.ndarray], None],
    ) -> None:
        if sampling != "shuffled":
            raise InvalidData(
                "A stream has no rows at random, so that its batches cannot be sampled and nothing"
                " is amplified",
                received=sampling,
                fix=_FIX,
            )
        if iter(source) is source:
            raise InvalidData(
                "A generator can be read only once",
                received=type(source).__name__,
                fix="Pass an object that starts anew with each iteration",
            )
        _check_finite(source)
        self._source, self._check_shape = source, check_shape
        self._count = 0
        self.like: tuple[np.ndarray, np.ndarray] | None = None
        for row, target in self.rows():
            check_labels(np.asarray(target)[None])
            self.like = self.like or (np.empty_like(row), np.empty_like(target))
            self._count += 1

    def __len__(self) -> int:
        return self._count

    def rows(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """One pass over the rows; a batch is taken apart."""
        for element in self._source:
            if not isinstance(element, tuple) or len(element) != 2:
                raise InvalidData(
                    "Each element of a stream must be a pair of one input and its target",
                    received=type(element).__name__,
                    fix="Pass a stream of (x, y) with one input",
                )
            x, y = np.asarray(element[0]), np.asarray(element[1])
            if self._is_batch(x.shape, y.shape):
                yield from zip(x, y, strict=True)
            else:
                yield x, y

    def _is_batch(self, shape: tuple[int, ...], labels: tuple[int, ...]) -> bool:
        """Whether an element is several rows, as its shape says, which is no row's."""
        try:
            self._check_shape(shape)
        except InvalidData:
            if not shape or shape[:1] != labels[:1]:
                raise
            self._check_shape(shape[1:])
            return True
        return False


def _check_finite(source: Any) -> None:
    cardinality = getattr(source, "cardinality", None)
    if cardinality is not None and int(cardinality()) == -1:
        raise InvalidData("The stream is endless", fix="Leave out repeat(): fit repeats the passes")


class StreamBatches(EpochBatches):
    """Batches of exactly b rows in the order of the stream; the rest of a pass is left out.

    Guarantees:

    * A row is in at most one batch of an epoch, as it comes at most once a pass.

    Args:
        stream: The rows.
        batch_size: Rows of a batch.
        slots: The shape of a batch.
        endless: Whether one reader serves all epochs.
    """

    def __init__(
        self, stream: RowStream, batch_size: int, slots: Slots, *, endless: bool = True
    ) -> None:
        super().__init__(endless=endless)
        self._stream = stream
        self._batch_size = batch_size
        self._slots = slots
        self._rows: Iterator[Any] = iter(())
        self._expected = 0
        self._batch: list[tuple[np.ndarray, np.ndarray]] = []

    @property
    def parts_per_epoch(self) -> int:
        """Parts of all whole batches of a pass."""
        return len(self._stream) // self._batch_size * self._slots.micro_batches

    @property
    def outline(self) -> tuple[Any, Any, Any]:
        """Inputs, targets and mask of a part, after the first pass over the rows."""
        if self._stream.like is None:
            raise InvalidState("The stream has no rows")
        x, y = (outline_of(self._slots.rows, like.shape, like) for like in self._stream.like)
        return x, y, keras.KerasTensor((self._slots.rows,), "float32")

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        index %= self.parts_per_epoch
        if index == 0:
            self._rows = self._stream.rows()
        elif index != self._expected:
            raise InvalidState("The batches of a stream were read out of order", received=index)
        self._expected = index + 1
        part = index % self._slots.micro_batches
        if part == 0:
            self._batch = list(itertools.islice(self._rows, self._batch_size))
        if len(self._batch) < self._batch_size:
            raise InvalidState("The stream has fewer rows than in its first pass")
        return self._padded(self._batch[part * self._slots.rows : (part + 1) * self._slots.rows])

    def _padded(
        self, rows: list[tuple[np.ndarray, np.ndarray]]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        mask = np.zeros(self._slots.rows, dtype="float32")
        mask[: len(rows)] = 1.0
        like_x, like_y = self._batch[0]
        x = np.zeros((self._slots.rows, *like_x.shape), like_x.dtype)
        y = np.zeros((self._slots.rows, *like_y.shape), like_y.dtype)
        for slot, (row, target) in enumerate(rows):
            x[slot], y[slot] = row, target
        return x, y, mask
