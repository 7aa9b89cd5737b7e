"""Several processes that train one model: what they agree upon, over Keras' own channel.

Each runs the same ``fit`` on the same rows. Before anything is recorded they agree, through the
compiled sum of a tiny model that Keras evaluates: that each is heard once, on secret seeds of the
first process for draws and noise, and that digests of rows, plan, model, ledger and weights are
equal. So each draws the same batch and reads its own slots of it; the step is one program over all
devices, which adds one noise to one sum. The first process writes the ledger file, and no other
finishes a step without its share of the sum, so that the file is ahead of every result. Weights and
ledger are compared again after each epoch.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import keras
import numpy as np
from keras import ops

from lipdp.errors import InvalidState, UnsafeSetting
from lipdp.privacy import PrivacyBudget, find_sampler
from lipdp.training.batches import PrivateBatches
from lipdp.training.data import Units
from lipdp.training.devices import Devices, devices_of
from lipdp.training.plan import TrainingPlan

_WIDTH = 64
_SEED_WORDS = 4
_DIGEST_BYTES = 32


@dataclass(frozen=True)
class Seeds:
    """Where the randomness of one ``fit`` comes from; secrets of the same rank as the data.

    Attributes:
        units: Which rows of a large group stay.
        sampling: Which units a step draws.
        slots: Where in a batch they lie.
        noise: The noise. None, here and above, is the operating system.
        session: Name of this ``fit`` in the ledger, which is no secret.
    """

    units: int | None = field(repr=False)
    sampling: int | None = field(repr=False)
    slots: int | Sequence[int] | None = field(repr=False)
    noise: int | None = field(repr=False)
    session: str = field(default_factory=lambda: secrets.token_hex(8), compare=False)

    @classmethod
    def of(cls, seed: int | None) -> Seeds:
        """Seeds of draws and of noise, made from the budget's seed."""
        return cls(seed, seed, None if seed is None else (seed, 1), seed)


class _Sum(keras.Model):
    """Sums the rows that all processes bring, exactly, in whole numbers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.total = self.add_weight(
            shape=(width,), dtype="int32", initializer="zeros", trainable=False
        )

    def call(self, rows: Any) -> Any:
        self.total.assign(ops.sum(rows, axis=0))
        return rows

    def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
        return ops.zeros(())


class Processes:
    """The processes of one ``fit``, of which each runs the same program on the same rows.

    All draws and all noise follow from secrets that the first process takes from its operating
    system and tells the others. They travel as the batches of a step do: each process brings rows
    to one compiled sum.

    Guarantees:
        * Secrets are agreed upon only where each process is heard once, as its rows of a batch
          will be (``test_processes.py::test_what_differs_is_refused``).
        * What differs between processes is refused in all of them
          (``test_processes.py::test_what_differs_is_refused``).

    Args:
        devices: Those of all processes.
        seed: The budget's, which takes the place of secrets.

    Attributes:
        seeds: Of one ``fit``, alike in all processes: 128 secret bits for each use. In one process
            they may be None.

    Raises:
        UnsafeSetting: If the rows of some process would be lost, or count twice.
    """

    def __init__(self, devices: Devices, seed: int | None) -> None:
        self._devices = devices
        self._sum: Any = None
        self.seeds = self._agreed(seed) if self.several else Seeds.of(seed)

    @property
    def several(self) -> bool:
        """Whether there are others."""
        return self._devices.processes > 1

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes files and whose secrets count."""
        return self._devices.process == 0

    def part(self, slots: np.ndarray) -> np.ndarray:
        """This process's part of the slots of a batch; the parts are disjoint and hold all."""
        share = len(slots) // self._devices.processes
        return slots[self._devices.process * share :][:share]

    def _agreed(self, seed: int | None) -> Seeds:
        self._sum = _Sum(max(_WIDTH, self._devices.processes))
        self._sum.compile()
        present = np.zeros(self._devices.processes, np.int32)
        present[self._devices.process] = 1
        heard = self._summed(present)
        if not np.all(heard == 1):
            raise UnsafeSetting(
                "The rows that a process brings to a step do not count exactly once",
                received=f"the processes are heard {heard.tolist()} times",
                fix="Make DataParallel of all devices, as many of each process",
            )
        words = np.frombuffer(secrets.token_bytes(20 * _SEED_WORDS), np.int32)
        *agreed, name = self._from_first(words).reshape(5, _SEED_WORDS)
        session = name.tobytes().hex()
        if seed is not None:
            return replace(Seeds.of(seed), session=session)
        units, sampling, slots, noise = (int.from_bytes(w.tobytes(), "little") for w in agreed)
        return Seeds(units, sampling, slots, noise, session)

    def check(self, **things: bytes) -> None:
        """Refuses, in all processes, what is not alike in all of them.

        Args:
            **things: What must be alike, by name.

        Raises:
            UnsafeSetting: Naming what differs.
        """
        own = np.stack([_words(thing) for thing in things.values()])
        first = self._from_first(own.ravel()).reshape(own.shape)
        differ = self._summed((own != first).any(axis=1).astype(np.int32))
        names = [name.replace("_", " ") for name, d in zip(things, differ, strict=True) if d]
        if names:
            raise UnsafeSetting(
                f"The processes do not train alike: {', '.join(names)} differ",
                received=f"process {self._devices.process} of {self._devices.processes}",
                fix="Run the same program, on the same rows in the same order, in every process",
            )

    def _from_first(self, words: np.ndarray) -> np.ndarray:
        return self._summed(words if self.is_first else np.zeros_like(words))

    def _summed(self, words: np.ndarray) -> np.ndarray:
        """The sum over processes, shape (k,), of which each brings k whole numbers."""
        width = int(self._sum.total.shape[0])
        if len(words) > width:
            raise InvalidState("Too much to agree upon at once", received=len(words))
        # Enough rows for whichever of the devices are this process's.
        rows = np.zeros((self._devices.parts, width), np.int32)
        rows[0, : len(words)] = words
        self._sum.evaluate(rows, batch_size=len(rows), verbose=0)
        return np.array(ops.convert_to_numpy(self._sum.total))[: len(words)]


def processes_of(
    model: keras.Model,
    budget: PrivacyBudget | None,
    callbacks: Sequence[keras.callbacks.Callback],
    sums: Sequence[str],
) -> Processes:
    """The processes that are going to train a model, which agree upon seeds.

    Args:
        model: What they train.
        budget: Of the training.
        callbacks: Of the training.
        sums: Names of metrics of held-out rows, which each process brings, that sum over them.

    Raises:
        UnsafeSetting: If the distribution is not known, or something does not work with several.
    """
    devices = devices_of(model)
    seed = None if budget is None else budget.seed
    if devices.processes == 1:
        return Processes(devices, seed)
    if budget is not None and budget.secure_noise:
        raise UnsafeSetting(
            "Secure noise is drawn by the operating system of one process, and not sent to others",
            received=f"secure_noise=True in {devices.processes} processes",
            fix="Train in one process, or with secure_noise=False",
        )
    if any(isinstance(c, keras.callbacks.BackupAndRestore) for c in callbacks):
        raise UnsafeSetting(
            "Several processes would write one backup, and might go on from different epochs",
            received="BackupAndRestore",
            fix="Save the model in one process, load it in all, and pass ledger_file=",
        )
    if sums:
        raise UnsafeSetting(
            "A sum over held-out rows would count each of them once in every process",
            received=", ".join(sums),
            fix="Leave it out of metrics, or evaluate in one process what is held out",
        )
    return Processes(devices, seed)


class SameWeights(keras.callbacks.Callback):
    """Stops all processes at the end of an epoch in which they came apart.

    Guarantees:
        * After each epoch weights and ledger are the same in all processes
          (``test_processes.py::test_the_weights_are_the_same``).

    Args:
        processes: Those that train.
    """

    def __init__(self, processes: Processes) -> None:
        super().__init__()
        self._processes = processes

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Compares."""
        ledger = self.model.ledger.to_json().encode()
        self._processes.check(weights=digest_of_weights(self.model), ledger=ledger)


def digest_of_weights(model: keras.Model) -> bytes:
    """A digest of all that training changes, but for the noise state."""
    hashed = hashlib.blake2b()
    for variable in (*model.variables, *model.optimizer.inner_optimizer.variables):
        value = np.asarray(ops.convert_to_numpy(variable))
        hashed.update(repr((value.shape, value.dtype.str)).encode())
        hashed.update(value.tobytes())
    return hashed.digest()


def digest_of_rows(*nests: Any) -> bytes:
    """A digest of every row of arrays, or of what is read by rows, in order."""
    hashed = hashlib.blake2b()
    for values in keras.tree.flatten(nests):
        hashed.update(repr((tuple(values.shape), str(values.dtype))).encode())
        for start in range(0, len(values), 1024):
            some = np.asarray(values[np.arange(start, min(start + 1024, len(values)))])
            # Objects have no bytes of their own.
            hashed.update(repr(some.tolist()).encode() if some.dtype.hasobject else some.tobytes())
    return hashed.digest()


def _words(thing: bytes) -> np.ndarray:
    return np.frombuffer(hashlib.blake2b(thing, digest_size=_DIGEST_BYTES).digest(), np.int32)


class SharedBatches(PrivateBatches):
    """One process's slots of the batches that follow from agreed seeds.

    Guarantees:

    * The draw of a step follows from the seeds and the step's number alone, whatever was read
      ahead: a reader begins with the seeds, and reads in order
      (``test_shared_batches.py::test_a_reader_begins_with_the_seeds``).
    * A drawn row is read by exactly one process
      (``test_shared_batches.py::test_each_row_is_read_by_one_process``).

    Args:
        x: Inputs, shape (N, ...), or a nest of such arrays; all rows, in every process.
        y: Targets, shape (N, ...).
        units: The units and their rows.
        plan: What is going to be done.
        processes: Those that train.
    """

    def __init__(
        self,
        x: Any,
        y: np.ndarray,
        units: Units,
        plan: TrainingPlan,
        processes: Processes,
    ) -> None:
        super().__init__(x, y, units, plan.sampler, slots=plan.slots, endless=True)
        self._plan = plan
        self._processes = processes
        self._next = 0

    def __getitem__(self, index: int) -> tuple[Any, np.ndarray, np.ndarray]:
        if index == 0:
            self._begin()
        elif index != self._next:
            # The parts of different processes would be of different draws.
            raise InvalidState("The batches were read out of order", received=index)
        self._next = index + 1
        return super().__getitem__(index)

    def _begin(self) -> None:
        draws = find_sampler(self._plan.budget.sampling)
        request, seeds = self._plan.request, self._processes.seeds
        self._sampler = draws(request.num_units, request.batch_size, seeds.sampling)
        self._rng = np.random.default_rng(seeds.slots)

    def _own(self, slots: np.ndarray) -> np.ndarray:
        return self._processes.part(slots)
