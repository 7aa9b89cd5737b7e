"""The statistics of the mechanism, and that they catch a mechanism which is wrong in known ways.

A check looks at steps of pure noise: N = 90,000 entries a step, so that the standard deviation is
known to 0.24 % and a correlation to 0.33 %. At 5 standard errors a right mechanism fails once in a
million runs; noise at 2/3 or 3/2 of its scale is over 100 standard errors away, and noise that is
used twice 300.
"""

import itertools

import keras
import numpy as np
import pytest

import lipdp
from lipdp.errors import BoundViolation
from lipdp.layers import BoundedInput
from lipdp.losses import MulticlassHinge
from lipdp.privacy import PoissonSampler
from lipdp.testing import check_sampler
from lipdp.training import devices
from lipdp.training.noise import NoiseSource, NoiseState, PlainHostNoise, cut
from lipdp.training.optimizer import PrivateOptimizer

SIZE, BATCH, SIGMA = 300, 50, 2.0
EXPECTED = SIGMA * np.sqrt(2) / BATCH


def steps_of_noise(rows=200, epochs=1, budget=None):
    dense = keras.layers.Dense(SIZE, use_bias=False, kernel_initializer="zeros", dtype="float64")
    model = lipdp.Sequential([BoundedInput((SIZE,), radius=1.0, dtype="float64"), dense])
    budget = budget or lipdp.PrivacyBudget(noise_multiplier=SIGMA, delta=1e-5)
    model.compile(keras.optimizers.SGD(1.0), MulticlassHinge(margin=1.0), privacy=budget)
    seen = [np.zeros(SIZE**2)]

    class Watch(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.append(keras.ops.convert_to_numpy(dense.kernel).ravel().copy())

    x, y = np.zeros((rows, SIZE)), np.zeros(rows, "int64")
    model.fit(x, y, batch_size=BATCH, epochs=epochs, verbose=0, callbacks=[Watch()])
    return np.diff(np.stack(seen), axis=0)


def faults_in(steps, expected=EXPECTED):
    """The faults of steps of pure noise, at 5 standard errors each."""
    n = steps.shape[1]
    found = set()
    if np.abs(steps.std(axis=1) / expected - 1).max() > 5 / np.sqrt(2 * n):
        found.add("scale")
    if np.abs(steps.mean(axis=1)).max() > 5 * expected / np.sqrt(n):
        found.add("mean")
    pairs = itertools.combinations(steps, 2)
    halves = [(s[: n // 2], s[n // 2 :]) for s in steps]
    if any(abs(np.corrcoef(a, b)[0, 1]) > 5 / np.sqrt(n // 2) for a, b in [*pairs, *halves]):
        found.add("repeated")
    return found


def test_the_mechanism_has_no_fault():
    assert faults_in(steps_of_noise(epochs=2)) == set()


@pytest.fixture(params=["drawn outside the step", "drawn inside"])
def change_noise(request, monkeypatch):
    """``change_noise(f)``: f gets the function that draws for some shapes, and the shapes."""

    def change(changed):
        if request.param == "drawn inside":
            original = NoiseSource.normal
            monkeypatch.setattr(devices, "is_in_host_memory", lambda variable: False)
            monkeypatch.setattr(
                NoiseSource,
                "normal",
                lambda self, shapes, dtype: changed(lambda s: original(self, s, dtype), shapes),
            )
            return
        original = PlainHostNoise._normals

        def drawn(self, shapes):
            self.shapes, kept = shapes, self.shapes
            draws = original(self)
            self.shapes = kept
            return cut(draws, shapes)

        def normals(self):
            draws = changed(lambda shapes: drawn(self, shapes), self.shapes)
            return np.concatenate([np.ravel(draw) for draw in draws])

        monkeypatch.setattr(PlainHostNoise, "_normals", normals)

    return change


def test_noise_from_both_places_has_no_fault(change_noise):
    change_noise(lambda draw, shapes: draw(shapes))
    assert faults_in(steps_of_noise()) == set()


@pytest.mark.parametrize("factor", [2 / 3, 3 / 2])
def test_a_wrong_scale_is_caught(change_noise, factor):
    change_noise(lambda draw, shapes: [factor * one for one in draw(shapes)])
    assert faults_in(steps_of_noise()) == {"scale"}


def test_noise_that_comes_again_is_caught(change_noise):
    """A generator whose state no step moves."""
    change_noise(
        lambda draw, shapes: [keras.random.normal(s, dtype="float64", seed=5) for s in shapes]
    )
    assert "repeated" in faults_in(steps_of_noise())


def test_noise_shared_by_entries_is_caught(change_noise):
    def shared(draw, shapes):
        halves = draw([(shape[0] // 2, *shape[1:]) for shape in shapes])
        return [keras.ops.concatenate([half, half]) for half in halves]

    change_noise(shared)
    assert "repeated" in faults_in(steps_of_noise())


def test_a_shifted_noise_is_caught(monkeypatch):
    original = NoiseState.add

    def shifted(self, sums, mechanism, scales):
        return [g + 0.05 * SIGMA for g in original(self, sums, mechanism, scales)]

    monkeypatch.setattr(NoiseState, "add", shifted)
    assert "mean" in faults_in(steps_of_noise())


def test_a_divisor_that_follows_the_batch_is_caught(monkeypatch):
    """Keras' own mean divides by the rows of the batch: the noise then follows the draw."""
    sizes = iter(np.random.default_rng(0).binomial(200, BATCH / 200, size=99))
    original = PrivateOptimizer._update

    def following(self, noisy, mechanism):
        size = int(next(sizes))
        original(self, noisy, type(mechanism)(mechanism.stddevs, size, replicas=1))

    monkeypatch.setattr(PrivateOptimizer, "_update", following)
    monkeypatch.setattr(keras.Sequential, "run_eagerly", True, raising=False)
    assert "scale" in faults_in(steps_of_noise())


class Biased(PoissonSampler):
    """Prefers the first half of the rows by a tenth."""

    def draw(self, index=0):
        rates = np.where(np.arange(self.num_examples) < self.num_examples // 2, 1.1, 0.9)
        drawn = self._generator.random(self.num_examples) < self.sampling_rate * rates
        return np.flatnonzero(drawn)


def test_a_biased_sampler_is_caught():
    check_sampler(PoissonSampler(200, 20, seed=0))
    with pytest.raises(BoundViolation):
        check_sampler(Biased(200, 20, seed=0))
