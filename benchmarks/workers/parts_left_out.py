"""A private step without some of its parts: what it takes less is what they cost.

No such training is private, or means anything: only its time is read. Run by benchmarks.race:
python -m benchmarks.workers.parts_left_out CELL, the cell as for ``keras_steps`` with ``without``,
names of ``REPLACED``.
"""

import functools
import json
import sys
from typing import Any
from unittest import mock

import keras

from benchmarks.workers import keras_steps
from lipdp.layers import clipping
from lipdp.projections import BjorckProjection
from lipdp.training.batches import PrivateBatches
from lipdp.training.ledger_callback import LedgerCallback
from lipdp.training.noise import NoiseState, PlainHostNoise

_READ = PrivateBatches.__getitem__
_PROJECT = BjorckProjection.__call__


@functools.cache
def _first_batch(batches: PrivateBatches) -> Any:
    return _READ(batches, 0)


def _copy(draws: Any) -> Any:
    # JAX takes over what it is given.
    return keras.ops.copy(draws)


def _only_at_the_start(projection: BjorckProjection, w: Any) -> Any:
    # An optimizer hands over the variable, an initializer its first value, which is checked later.
    return w if isinstance(w, keras.Variable) else _PROJECT(projection, w)


def _believe(callback: LedgerCallback) -> None:
    callback._proved_with = callback._ledger


#: By part, where it lies and what stands in for it.
REPLACED: dict[str, tuple[Any, str, Any]] = {
    "drawing noise": (PlainHostNoise, "draw", lambda self, *_: _copy(self._next.result())),
    "bringing noise": (NoiseState, "load", lambda self, *_: self._fresh.assign(1.0)),
    "adding noise": (NoiseState, "add", lambda self, sums, *_: list(sums)),
    "ball of inputs": (clipping, "project_samples", lambda x, *_, **__: x),
    "projection": (BjorckProjection, "__call__", _only_at_the_start),
    "new batches": (PrivateBatches, "__getitem__", lambda self, index: _first_batch(self)),
}


def main() -> None:
    """Trains without them until nobody asks for more."""
    for part in json.loads(sys.argv[1])["without"]:
        mock.patch.object(*REPLACED[part]).start()
        if part == "projection":
            # Weights that nobody projects outgrow their bounds, and the next epoch would not begin.
            mock.patch.object(LedgerCallback, "_check_bounds", _believe).start()
    keras_steps.main()


if __name__ == "__main__":
    main()
