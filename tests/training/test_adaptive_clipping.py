"""Adaptive clips under fit: the count is part of the mechanism, the noise follows the threshold."""

import keras
import numpy as np
import pytest

import lipdp
from lipdp.errors import InvalidValue
from lipdp.layers import (
    AdaptiveCotangentClip,
    BoundedInput,
    CotangentClip,
    MaxMin,
    SpectralDense,
)
from lipdp.losses import MulticlassHinge, TemperedCrossentropy


def clipped_model(budget, clips=1, loss=None, **options):
    """With one clip it is at the logits, with two another one stands further up."""
    keras.utils.set_random_seed(0)
    clip = lambda: AdaptiveCotangentClip(0.1, dtype="float64", **options)  # noqa: E731
    model = lipdp.Sequential(
        [
            BoundedInput((4,), radius=2.0, dtype="float64"),
            SpectralDense(6, dtype="float64"),
            *([clip()] if clips == 2 else []),
            MaxMin(dtype="float64"),
            SpectralDense(2, dtype="float64"),
            clip(),
        ]
    )
    model.compile(keras.optimizers.SGD(0.1), loss or TemperedCrossentropy(4.0), privacy=budget)
    return model


def clips_of(model):
    return [one for one in model.layers if isinstance(one, AdaptiveCotangentClip)]


@pytest.mark.parametrize("clips", [1, 2])
def test_all_coordinates_together_are_one_mechanism(rows, clips):
    model = clipped_model(lipdp.PrivacyBudget(noise_multiplier=1.5, delta=1e-5), clips)
    model.fit(*rows, batch_size=50, verbose=0)
    plan = model.plan
    spent = sum((d / s) ** 2 for d, s in zip(plan.sensitivities, plan.stddevs, strict=True))
    assert 0.999 / 1.5**2 < spent <= 1 / 1.5**2
    counts = [i for i, chosen in enumerate(plan.shares.clips) if not chosen]
    assert len(counts) == clips
    for i in counts:
        assert plan.sensitivities[i] == pytest.approx(1.0, rel=1e-6)
        assert plan.stddevs[i] == pytest.approx(0.05 * 50)
    # Each kernel follows the nearest threshold on the way back from the loss.
    assert [c for c in plan.shares.clips if c] == ([(0,), (1,)] if clips == 2 else [(0,), (0,)])


def test_noise_follows_the_clips_that_are_trained_when_fit_begins(rows):
    """Of two clips the other one was trained at ``compile``; its ratio to its minimum is 1."""
    loose, tight = AdaptiveCotangentClip(1.0, minimum=1.0), AdaptiveCotangentClip(1.0, minimum=1e-3)
    model = lipdp.Sequential([BoundedInput((4,), radius=2.0), SpectralDense(2), tight, loose])
    tight.trainable = False
    budget = lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5)
    model.compile(keras.optimizers.SGD(0.0), MulticlassHinge(margin=0.5), privacy=budget)
    loose.trainable, tight.trainable = False, True
    model.fit(*rows, batch_size=50, verbose=0)
    mechanism = model.plan.mechanism
    scales = [float(np.asarray(one)) for one in model.optimizer._thresholds.scales(mechanism)]
    ratio = float(keras.ops.convert_to_numpy(tight.radius())) / 1e-3
    assert ratio > 500.0
    assert [s for s, chosen in zip(scales, mechanism.clips, strict=True) if chosen] == [
        pytest.approx(ratio)
    ]


def test_a_clip_that_is_added_after_compile_is_followed(rows):
    model = lipdp.Sequential([BoundedInput((4,), radius=2.0), SpectralDense(2)])
    budget = lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5)
    model.compile("sgd", MulticlassHinge(margin=0.5), privacy=budget)
    model.add(AdaptiveCotangentClip(1.0))
    model.fit(*rows, batch_size=50, verbose=0)
    assert len(model.plan.sensitivities) == 2 and (0,) in model.plan.shares.clips


def test_the_statement_names_the_counts(rows):
    model = clipped_model(lipdp.PrivacyBudget(epsilon=4.0))
    history = model.fit(*rows, batch_size=50, epochs=3, verbose=0).history
    assert 3.96 <= history["epsilon"][-1] <= 4.0
    told = " ".join(model.privacy_statement().split())
    assert "1 clipping thresholds follow noisy counts" in told


def test_counts_that_cost_more_than_the_step_are_refused(rows):
    model = clipped_model(lipdp.PrivacyBudget(noise_multiplier=4.0, delta=1e-5), count_noise=0.01)
    with pytest.raises(InvalidValue, match="count_noise"):
        model.fit(*rows, batch_size=50, verbose=0)


def test_the_threshold_finds_the_quantile(rows):
    """Without noise, all rows in each step: nine tenths of the cotangents end up below."""
    model = clipped_model(lipdp.PrivacyBudget(noise_multiplier=0.0, delta=1e-5), rate=0.5)
    model.optimizer.learning_rate = 1e-6
    model.fit(*rows, batch_size=200, epochs=80, verbose=0)
    (clip,) = clips_of(model)
    logits = keras.ops.convert_to_numpy(model(rows[0])).astype("float64")
    odds = np.exp(4.0 * logits)
    gradient = odds / odds.sum(axis=1, keepdims=True) - np.eye(2)[rows[1]]
    below = (np.linalg.norm(gradient, axis=1) <= float(clip.radius())).mean()
    assert below == pytest.approx(0.9, abs=0.02)


def test_noise_follows_the_threshold():
    """Rows of zeros: nothing but noise. 90,000 entries, 5 sigma."""
    size = 300
    dense = keras.layers.Dense(size, use_bias=False, kernel_initializer="zeros", dtype="float64")
    clip = AdaptiveCotangentClip(0.1, rate=1.0, dtype="float64", minimum=0.01, count_noise=0.3)
    model = lipdp.Sequential([BoundedInput((size,), radius=1.0, dtype="float64"), dense, clip])
    budget = lipdp.PrivacyBudget(noise_multiplier=2.0, delta=1e-5)
    model.compile(keras.optimizers.SGD(1.0), MulticlassHinge(margin=1.0), privacy=budget)
    seen, thresholds = [np.zeros((size, size))], [0.1]

    class Watch(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            seen.append(keras.ops.convert_to_numpy(dense.kernel).copy())
            thresholds.append(float(clip.radius()))

    x = np.zeros((100, size))
    model.fit(x, np.zeros(100, "int64"), batch_size=100, epochs=6, verbose=0, callbacks=[Watch()])
    kernel = model.plan.stddevs[0]
    assert len(set(thresholds)) > 4
    for change, threshold in zip(np.diff(np.stack(seen), axis=0), thresholds, strict=False):
        expected = kernel * threshold / 0.01 / 100
        assert change.std() == pytest.approx(expected, rel=5 / np.sqrt(2 * size**2))


@pytest.mark.slow
@pytest.mark.parametrize("clips", [1, 2])
def test_gradients_stay_within_the_sensitivity_at_the_present_threshold(rows, clips):
    from lipdp.bounds.probe import per_sample_gradient_norms

    model = clipped_model(lipdp.PrivacyBudget(noise_multiplier=0.5, delta=1e-5), clips, rate=1.0)
    for _ in range(2):
        model.fit(*rows, batch_size=50, epochs=2, verbose=0)
        ratios = [float(clip.radius()) / clip.minimum for clip in clips_of(model)]
        limits = [
            d * max((ratios[i] for i in chosen), default=1.0)
            for d, chosen in zip(model.plan.sensitivities, model.plan.shares.clips, strict=True)
        ]
        norms = per_sample_gradient_norms(model, model.loss, rows[0][:20] * 9, rows[1][:20])
        assert (norms <= np.array(limits)).all()


def test_the_inner_optimizer_leaves_the_threshold_alone(rows):
    model = clipped_model(lipdp.PrivacyBudget(noise_multiplier=0.0, delta=1e-5))
    model.compile(
        keras.optimizers.AdamW(0.1, weight_decay=0.5, use_ema=True),
        TemperedCrossentropy(4.0),
        privacy=lipdp.PrivacyBudget(noise_multiplier=0.0, delta=1e-5),
    )
    (clip,) = clips_of(model)
    seen = []

    class Watch(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.append(float(clip.radius()))

    model.fit(*rows, batch_size=200, epochs=4, verbose=0, callbacks=[Watch()])
    # Without noise a step moves the logarithm by rate times a count over 200, less 1/10.
    moves = (np.diff(np.log([0.1, *seen])) / 0.2 + 0.1) * 200
    assert np.allclose(moves, np.round(moves), atol=1e-6)
    assert len(model.optimizer.inner_optimizer._trainable_variables) == 2


def test_parts_of_a_batch_count_together(rows):
    found = []
    for size in (None, 64):
        budget = lipdp.PrivacyBudget(noise_multiplier=0.0, delta=1e-5, seed=1)
        model = clipped_model(budget)
        model.fit(*rows, batch_size=200, epochs=3, micro_batch_size=size, verbose=0)
        found.append(float(clips_of(model)[0].radius()))
    assert found[0] == pytest.approx(found[1], rel=1e-9) and found[0] != 0.1


def test_a_saved_model_keeps_its_threshold(rows, tmp_path):
    model = clipped_model(lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5))
    model.fit(*rows, batch_size=50, epochs=2, verbose=0)
    model.save(tmp_path / "m.keras")
    loaded = lipdp.load_model(tmp_path / "m.keras")
    before, after = float(clips_of(model)[0].radius()), float(clips_of(loaded)[0].radius())
    assert before == after != 0.1
    loaded.fit(*rows, batch_size=50, epochs=1, verbose=0)
    assert loaded.ledger.steps == 12


def test_a_fixed_clip_needs_no_count(rows, make_model):
    model = lipdp.Sequential([BoundedInput((4,), radius=2.0), SpectralDense(2), CotangentClip(0.1)])
    model.compile("sgd", MulticlassHinge(), privacy=lipdp.PrivacyBudget(epsilon=4.0))
    model.fit(*rows, batch_size=50, verbose=0)
    assert model.plan.shares.clips == ()
    assert "noisy counts" not in model.privacy_statement()
