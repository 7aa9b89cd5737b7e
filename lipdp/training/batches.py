"""Batches of drawn units, padded to one shape and cut into micro-batches; and of a stream."""

from __future__ import annotations

import abc
import bisect
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from lipdp.errors import InvalidData, InvalidState
from lipdp.privacy import Sampler
from lipdp.training.data import Units

_ALIGNMENT = 64


@dataclass(frozen=True)
class Slots:
    """The shape of a drawn batch.

    Attributes:
        units: Most units that are kept of a draw.
        micro_batches: Parts that a batch is processed in.
        rows: Most slots of one microbatch.
        smaller: Fewer slots that a microbatch may have where a draw leaves many empty, increasing.
    """

    units: int
    micro_batches: int
    rows: int
    smaller: tuple[int, ...] = ()

    def fitting(self, rows: int) -> int:
        """Slots of one microbatch that holds so many rows."""
        needed = max(1, -(-rows // self.micro_batches))
        index = bisect.bisect_left(self.smaller, needed)
        return self.smaller[index] if index < len(self.smaller) else self.rows


def outline_of(slots: int, shape: Sequence[int], like: Any) -> keras.KerasTensor:
    """Shape and type of so many rows."""
    return keras.KerasTensor((slots, *shape), keras.backend.standardize_dtype(like.dtype))


class EpochBatches(keras.utils.PyDataset, abc.ABC):
    """Items of one epoch after the other; item 0 of each begins it.

    Args:
        endless: Whether one reader serves all epochs; Keras would start another for each. Several
            replicas of TensorFlow do not end while such a reader is left, at exit neither.
            TensorFlow's pipelines have a tuning thread whose wake-up may be lost, and then the end
            of a reader waits for up to a minute, in plain Keras too (seen in one epoch of a
            hundred): one reader waits once at most.
    """

    def __init__(self, *, endless: bool) -> None:
        super().__init__()
        self._endless = endless

    @property
    @abc.abstractmethod
    def micro_batches_per_epoch(self) -> int:
        """Items of an epoch."""

    @property
    @abc.abstractmethod
    def outline(self) -> tuple[Any, Any, Any]:
        """Inputs, targets and mask of an item of most slots, as shapes and types alone."""

    @property
    def num_batches(self) -> int | None:
        """Items until Keras starts a new reader."""
        return None if self._endless else self.micro_batches_per_epoch

    @property
    def steps_per_epoch(self) -> int | None:
        """What ``fit`` is to be told of the items of an epoch."""
        return self.micro_batches_per_epoch if self._endless else None


class PrivateBatches(EpochBatches):
    """The items of a step are the microbatches of one fresh draw, in order.

    The drawn units lie in uniformly random distinct blocks of slots; the others hold zeros, label 0
    and mask 0. Units beyond the capacity are dropped at random (the draw is in random order), at
    the price that the plan states. A batch has no more slots than the next size that fits, which
    depends on the number of rows alone. Masks by slot (dropout) are independent over slots, so in
    distribution a unit that is added to the data changes nothing for the other rows.

    Guarantees:

    * All microbatches of a step come from one draw, and a drawn row lies in exactly one of them.
    * No microbatch holds more rows than ``slots.rows``: memory does not grow with the batch.

    Args:
        x: Inputs, shape (N, ...), or a nest of such arrays.
        y: Targets, shape (N, ...).
        units: The units and their rows.
        sampler: Draws the units.
        slots: The shape of a batch.
        seed: Seed of the slots; None for the operating system.
        endless: Whether one reader serves all epochs.
    """

    def __init__(
        self,
        x: Any,
        y: np.ndarray,
        units: Units,
        sampler: Sampler,
        *,
        slots: Slots,
        seed: int | None = None,
        endless: bool = True,
    ) -> None:
        super().__init__(endless=endless)
        self._x, self._y = x, y
        self._units = units
        self._sampler = sampler
        self._slots = slots
        self._rng = np.random.default_rng(None if seed is None else [seed, 1])
        self._expected = (-1, 0)
        self._batch = _Placed(np.empty(0, int), np.empty(0, int), slots.rows)

    @property
    def micro_batches_per_epoch(self) -> int:
        """Parts of all steps of an epoch."""
        return self._sampler.steps_per_epoch * self._slots.micro_batches

    @property
    def outline(self) -> tuple[Any, Any, Any]:
        """Inputs, targets and mask of a microbatch of most slots; no row is read."""
        slots = len(self._own(np.arange(self._slots.rows)))
        x = keras.tree.map_structure(lambda rows: outline_of(slots, rows.shape[1:], rows), self._x)
        return (
            x,
            outline_of(slots, self._y.shape[1:], self._y),
            keras.KerasTensor((slots,), "float32"),
        )

    def __getitem__(self, index: int) -> tuple[Any, np.ndarray, np.ndarray]:
        step, micro_batch = divmod(index % self.micro_batches_per_epoch, self._slots.micro_batches)
        if micro_batch == 0:
            self._batch = self._place(self._sampler.draw(step))
        elif (step, micro_batch) != self._expected:
            # Parts of two draws would hold a row twice.
            raise InvalidState("The microbatches of a batch were read out of order", received=index)
        self._expected = (step, micro_batch + 1)
        return self._micro_batch(micro_batch)

    def _place(self, drawn: np.ndarray) -> _Placed:
        kept = drawn[: self._slots.units]
        most = self._units.most_rows
        size = self._slots.fitting(len(kept) * most)
        blocks = size * self._slots.micro_batches // most
        block = self._rng.choice(blocks, size=len(kept), replace=False)
        rows, places = self._units.rows_of(kept)
        return _Placed(rows, block[places // most] * most + places % most, size)

    def _micro_batch(self, micro_batch: int) -> tuple[Any, np.ndarray, np.ndarray]:
        row_of, taken = map(self._own, self._batch.micro_batch(micro_batch))
        x = keras.tree.map_structure(lambda values: _gathered(values, row_of, taken), self._x)
        return x, _gathered(self._y, row_of, taken), taken.astype("float32")

    def _own(self, slots: np.ndarray) -> np.ndarray:
        """The slots of a microbatch that this process reads: all of them."""
        return slots


@dataclass(frozen=True)
class _Placed:
    """Drawn rows, their slots in the whole batch, and the slots of one microbatch."""

    rows: np.ndarray
    places: np.ndarray
    size: int

    def micro_batch(self, place: int) -> tuple[np.ndarray, np.ndarray]:
        """The row of each slot of a microbatch (0 if it is empty), and whether it is taken."""
        here = self.places // self.size == place
        slots = self.places[here] % self.size
        row_of, taken = np.zeros(self.size, int), np.zeros(self.size, bool)
        row_of[slots], taken[slots] = self.rows[here], True
        return row_of, taken


def _gathered(values: Any, row_of: np.ndarray, taken: np.ndarray) -> np.ndarray:
    """The rows of the taken slots, zeros in the others; each row is copied once."""
    if isinstance(values, np.ndarray) and not values.dtype.hasobject:
        out = _aligned((len(row_of), *values.shape[1:]), values.dtype)
        # All row numbers are valid; any other mode copies twice.
        np.take(values, row_of, axis=0, out=out, mode="clip")
    else:
        # What reads rows may keep those it returns.
        out = np.array(values[row_of])
    out[~taken] = 0
    return out


def _aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Room for an array at a multiple of 64 bytes: TensorFlow copies what begins elsewhere."""
    size = math.prod(shape) * dtype.itemsize
    room = np.empty(size + _ALIGNMENT, np.uint8)
    start = -room.ctypes.data % _ALIGNMENT
    return room[start : start + size].view(dtype).reshape(shape)


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
    def micro_batches_per_epoch(self) -> int:
        """Microbatches of all whole batches of a pass."""
        return len(self._stream) // self._batch_size * self._slots.micro_batches

    @property
    def outline(self) -> tuple[Any, Any, Any]:
        """Inputs, targets and mask of a microbatch, after the first pass over the rows."""
        if self._stream.like is None:
            raise InvalidState("The stream has no rows")
        x, y = (outline_of(self._slots.rows, like.shape, like) for like in self._stream.like)
        return x, y, keras.KerasTensor((self._slots.rows,), "float32")

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        index %= self.micro_batches_per_epoch
        if index == 0:
            self._rows = self._stream.rows()
        elif index != self._expected:
            raise InvalidState("The batches of a stream were read out of order", received=index)
        self._expected = index + 1
        micro_batch = index % self._slots.micro_batches
        if micro_batch == 0:
            self._batch = list(itertools.islice(self._rows, self._batch_size))
        if len(self._batch) < self._batch_size:
            raise InvalidState("The stream has fewer rows than in its first pass")
        return self._padded(self._batch[micro_batch * self._slots.rows :][: self._slots.rows])

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
