"""DP-SGD by tensorflow-privacy: this file is a process of its own, started with a folder.

The only file that names TensorFlow: tensorflow-privacy knows no other backend. It runs by itself
because tensorflow-privacy wants Keras 2 in the place of ``tf.keras`` for the whole process.

Clipping and noise are tensorflow-privacy's. The Keras model, its loss and its optimizer are those
of the parent, and so is the sampler. Drawn rows are padded to one shape; an empty slot has loss 0
by selection, so that its gradient is exactly 0 and adds nothing. The divisor is the constant
expected batch size. A gradient with an entry that is not finite counts as 0: clipping would make
NaN of the whole sum.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

# Read by tensorflow-privacy as it is imported: without its estimators, which TensorFlow 2.16 lost.
sys.skip_tf_privacy_import = True  # type: ignore[attr-defined]

import keras
import numpy as np
import tensorflow as tf
from tensorflow_privacy.privacy.dp_query.gaussian_query import GaussianSumQuery
from tensorflow_privacy.privacy.optimizers.dp_optimizer_keras_vectorized import clip_gradients_vmap

from lipdp import layers, losses, projections
from lipdp.losses.base import per_row
from lipdp.privacy import find_sampler
from lipdp.results.run import peak_memory_bytes

#: Keras knows the classes of a saved model once their packages are imported.
REGISTERED = (layers, losses, projections)

#: Most floats that the gradients of the rows of one part may have together, and most rows.
_MOST_FLOATS = 2**22
_MOST_ROWS = 1024
_TEST_ROWS = 1024


class Batch(NamedTuple):
    """Rows in parts of one size; empty slots are not taken."""

    x: Any
    y: Any
    taken: Any


def noisy_sums(
    variables: Sequence[Any], losses_of: Callable[[Any, Any], Any], clip_norm: float
) -> Callable[[Batch, Any], list[Any]]:
    """The function of a step: from a batch and the noise's stddev to noisy sums of gradients.

    Args:
        variables: TensorFlow variables.
        losses_of: From inputs and labels to one loss a row.
        clip_norm: Euclidean norm to which each row's gradient is clipped.
    """
    query = GaussianSumQuery(clip_norm, 0.0)

    def clipped(row: Batch) -> list[Any]:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            loss = losses_of(row.x[None], row.y[None])[0]
            loss = tf.where(row.taken, loss, tf.zeros_like(loss))
        gradients = tape.gradient(loss, variables, unconnected_gradients="zero")
        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(g)) for g in gradients])
        kept = [tf.where(finite & row.taken, g, tf.zeros_like(g)) for g in gradients]
        return clip_gradients_vmap(kept, clip_norm)

    def add_part(sums: list[Any], part: Batch) -> list[Any]:
        gradients = tf.vectorized_map(clipped, part)
        return [s + tf.reduce_sum(g, axis=0) for s, g in zip(sums, gradients, strict=True)]

    @tf.function
    def step(batch: Batch, stddev: Any) -> list[Any]:
        sums = tf.foldl(add_part, batch, [tf.zeros_like(v) for v in variables])
        state = query.make_global_state(clip_norm, stddev)
        noisy, _, _ = query.get_noised_result(sums, state)
        return noisy

    return step


def padded(x: Any, y: np.ndarray, rows: np.ndarray, capacity: int, size: int) -> Batch:
    """The first ``capacity`` of the rows in parts of ``size``, with empty slots behind them."""
    kept = rows[:capacity]
    parts = -(-capacity // size)
    out = Batch(
        np.zeros((parts * size, *x.shape[1:]), x.dtype),
        np.zeros(parts * size, y.dtype),
        np.zeros(parts * size, bool),
    )
    # In order: rows on disk are read faster, and a sum has no order.
    out.x[: len(kept)], out.y[: len(kept)] = x[np.sort(kept)], y[np.sort(kept)]
    out.taken[: len(kept)] = True
    return Batch(*(tf.constant(a.reshape(parts, size, *a.shape[1:])) for a in out))


def seed_noise(seed: int | None) -> None:
    """Seeds TensorFlow's generators, by the operating system if no seed is given.

    Otherwise the noise would follow from whatever seed was set before, as that of first weights.
    """
    tf.random.set_seed(secrets.randbits(63) if seed is None else seed)


def part_size(floats: int, limit: int | None) -> int:
    """Rows of a part whose gradients have so many floats each."""
    return max(1, min(_MOST_ROWS, limit or _MOST_ROWS, _MOST_FLOATS // max(1, floats)))


class Training:
    """What the parent asked for, in the folder that it wrote."""

    def __init__(self, folder: Path) -> None:
        self.asked = json.loads((folder / "request.json").read_text(encoding="utf-8"))
        self.model = keras.models.load_model(folder / "model.keras", compile=False)
        self.loss = keras.saving.deserialize_keras_object(self.asked["loss"])
        self.optimizer = keras.saving.deserialize_keras_object(self.asked["optimizer"])
        arrays = ("x_train", "y_train", "x_test", "y_test")
        self.x, self.y, self.x_test, self.y_test = (
            np.load(folder / f"{name}.npy", mmap_mode="r") for name in arrays
        )
        for name in arrays:
            # Rows of people: none may stay in a file, however this process and its parent end.
            (folder / f"{name}.npy").unlink()
        self.test_logits = tf.function(lambda rows: self.model(rows, training=False))

    def run(self) -> None:
        """All steps; a line of JSON on standard output after each step and epoch."""
        asked = self.asked
        seed = asked["seed"]
        seed_noise(seed)
        sampler = find_sampler(asked["sampling"])(len(self.y), asked["batch_size"], seed)
        self.optimizer.build(self.model.trainable_variables)
        take = self._step()
        left = asked["steps"]
        for epoch in range(asked["epochs"]):
            steps = min(left, sampler.steps_per_epoch)
            for step in range(steps):
                take(sampler.draw(step), asked["stddevs"][epoch])
                _say("step", epoch=epoch, step=step)
            left -= steps
            if steps:
                _say("epoch", epoch=epoch, **self._measure())
        self.optimizer.finalize_variable_values(self.model.trainable_variables)

    def _step(self) -> Callable[[np.ndarray, float], None]:
        asked, variables = self.asked, self.model.trainable_variables
        floats = sum(math.prod(v.shape) for v in variables)
        size = part_size(floats, asked["micro_batch_size"])
        sums = noisy_sums([v.value for v in variables], self._losses, asked["clip_norm"])

        def take(rows: np.ndarray, stddev: float) -> None:
            batch = padded(self.x, self.y, rows, asked["capacity"], size)
            means = [g / asked["batch_size"] for g in sums(batch, tf.constant(stddev))]
            self.optimizer.apply(means, variables)

        return take

    def _losses(self, x: Any, y: Any) -> Any:
        logits = self.model(x, training=True)
        return per_row(self.loss.call(y, logits), logits)

    def _measure(self) -> dict[str, float]:
        """Loss and accuracy on the held-out rows."""
        starts = range(0, len(self.y_test), _TEST_ROWS)
        parts = [self.test_logits(np.asarray(self.x_test[i : i + _TEST_ROWS])) for i in starts]
        logits, labels = tf.concat(parts, axis=0), np.asarray(self.y_test)
        loss = float(np.mean(self.loss.call(labels, logits)))
        one = logits.shape[1] == 1
        predicted = np.asarray(logits[:, 0] > 0 if one else tf.argmax(logits, axis=1))
        return {"val_loss": loss, "val_accuracy": float(np.mean(predicted == labels))}


def _say(event: str, **values: float) -> None:
    sys.stdout.write(json.dumps({"event": event, **values}) + "\n")
    sys.stdout.flush()


def _end_with_parent() -> None:
    """Standard input ends with the process at its other end."""
    sys.stdin.read()
    os._exit(1)


def main() -> None:
    """Trains by the folder on the command line and writes the weights back into it."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    folder = Path(sys.argv[1])
    training = Training(folder)
    training.run()
    np.savez(folder / "weights.npz", *training.model.get_weights())
    peak = {"peak_memory_bytes": peak_memory_bytes()}
    (folder / "done.json").write_text(json.dumps(peak), encoding="utf-8")


if __name__ == "__main__":
    main()
