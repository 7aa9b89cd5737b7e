"""What a private fit shows of itself: its noise, its rows. Parts of the checks beside this file."""

import itertools
import math

import keras
import numpy as np

import lipdp
from lipdp.layers import BoundedInput, MaxMin, SpectralDense
from lipdp.losses import MulticlassHinge
from lipdp.training.noise import NoiseState


def parts_of(slots, parts):
    """The largest part of a batch that is cut into so many."""
    return -(-slots // parts)


class NoiseRun:
    """Training whose gradient is zero: rows of zeros, a step an epoch, SGD of rate 1."""

    BATCH = 64

    def __init__(
        self, model=None, compiled=False, inputs=100, outputs=300, dtype="float32", **budget
    ):
        if model is None:
            dense = keras.layers.Dense(
                outputs, use_bias=False, kernel_initializer="zeros", dtype=dtype
            )
            model = lipdp.Sequential([BoundedInput((inputs,), radius=1.0, dtype=dtype), dense])
        self.model = model
        self.rows = np.zeros((self.BATCH, *model.input_shape[1:]))
        if not compiled:
            self.compile(**budget)

    def compile(self, **budget):
        self.model.compile(
            keras.optimizers.SGD(1.0),
            MulticlassHinge(margin=1.0),
            privacy=lipdp.PrivacyBudget(delta=1e-5, **budget),
        )

    def fit(self, callbacks=(), **options):
        """For each epoch the noise on the sum of each variable."""
        seen = [self._weights()]
        watch = keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, logs: seen.append(self._weights())
        )
        labels = np.zeros(self.BATCH, "int64")
        self.model.fit(
            self.rows,
            labels,
            batch_size=self.BATCH,
            verbose=0,
            callbacks=[watch, *callbacks],
            **options,
        )
        pairs = itertools.pairwise(seen)
        return [
            [(a - b) * self.BATCH for a, b in zip(before, after, strict=True)]
            for before, after in pairs
        ]

    def _weights(self):
        variables = self.model.trainable_variables
        return [keras.ops.convert_to_numpy(v).astype("float64") for v in variables]


def assert_scale(draw, stddev):
    """Five sigma, of the mean too; the known faults are off by a factor of 1.4 or more."""
    assert abs(draw.std() / stddev - 1) < 5 / math.sqrt(2 * draw.size)
    assert abs(draw.mean()) < 5 * stddev / math.sqrt(draw.size)


def assert_independent(draws):
    """No two alike, nor correlated beyond five sigma."""
    size = min(draw.size for draw in draws)
    flat = [draw.ravel()[:size] for draw in draws]
    for a, b in itertools.combinations(flat, 2):
        assert not np.array_equal(a, b)
        assert abs(np.corrcoef(a, b)[0, 1]) < 5 / math.sqrt(size)


def assert_noise_serves_once(run):
    """Noise that was not renewed makes NaN: using it twice would publish a difference of sums."""
    load, brought = NoiseState.load, []

    def once(self, draws, shapes):
        if not brought:
            load(self, draws, shapes)
        brought.append(1)

    NoiseState.load = once
    first, second = run.fit(epochs=2)
    NoiseState.load = load
    assert np.isfinite(first[0]).all() and np.isnan(second[0]).all()


class Rows:
    """Rows that carry their number in their last feature, in thousandths."""

    def __init__(self, count):
        rng = np.random.default_rng(0)
        self.x = rng.normal(size=(count, 4)).astype("float32")
        self.y = (self.x[:, 0] > 0).astype("int64")
        self.x[:, 3] = np.arange(count) / 1000


def numbers_of(x, mask):
    """The numbers of the rows that are no empty slots."""
    kept = keras.ops.convert_to_numpy(mask) > 0
    return np.rint(keras.ops.convert_to_numpy(x)[kept, 3] * 1000).astype(int)


class Learner(lipdp.Sequential):
    """Calls ``tell`` with the rows and the mask of each training step."""

    #: It only looks on; a class of the user's that changes a step is refused.
    __module__ = "lipdp.onlooker"
    tell = None

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        if self.tell is not None and training:
            self.tell(x, sample_weight)
        return super().compute_loss(x, y, y_pred, sample_weight, training)


def learner(optimizer=None, loss=None, last=(), tell=None, **options):
    """A compiled model on ``Rows``; it has no noise and shuffles, unless options say otherwise."""
    keras.utils.set_random_seed(0)
    names = ("run_eagerly", "jit_compile", "certified_radius")
    compiled = {name: options.pop(name) for name in names if name in options}
    compiled.setdefault("certified_radius", None)
    model = Learner([BoundedInput((4,), radius=2.0), SpectralDense(6), MaxMin(), SpectralDense(2)])
    for layer in last:
        model.add(layer)
    model.tell = tell
    budget = {
        "noise_multiplier": 0.0,
        "delta": 1e-5,
        "seed": 3,
        "sampling": "shuffled",
        "adjacency": "zero-out",
    }
    model.compile(
        optimizer or keras.optimizers.SGD(0.5),
        loss or MulticlassHinge(margin=0.5),
        metrics=["accuracy"],
        privacy=lipdp.PrivacyBudget(**{**budget, **options}),
        **compiled,
    )
    return model
