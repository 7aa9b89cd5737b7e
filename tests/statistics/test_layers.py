"""Private statistics as layers: what they cost, what they compute, what a saved model keeps."""

import math
import subprocess
import sys

import keras
import numpy as np
import pytest

import lipdp
from lipdp.errors import InvalidData, InvalidState, InvalidValue, UnsafeSetting
from lipdp.privacy import epsilon
from lipdp.statistics.layers import (
    PrivateStandardization,
    PrivateWhitening,
    statistics_multiplier,
)

KINDS = [PrivateStandardization, PrivateWhitening]
BUDGET = lipdp.PrivacyBudget(epsilon=4.0, delta=1e-5)


@pytest.fixture(scope="module")
def correlated():
    """400 rows of four correlated features and a constant, with labels."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 4)) @ rng.normal(size=(4, 4)) + 0.5
    return np.hstack([x, np.full((400, 1), 0.25)]), (x[:, 0] > 0.5).astype("int64")


def compiled(statistics, budget, dtype="float32", **options):
    keras.utils.set_random_seed(0)
    head = lipdp.layers.SpectralDense(2, dtype=dtype)
    model = lipdp.Sequential([*statistics.layers(dtype=dtype, **options), head])
    loss = lipdp.losses.TemperedCrossentropy(inverse_temperature=16.0)
    model.compile(keras.optimizers.SGD(0.5), loss, privacy=budget)
    return model


def trained(statistics, rows, budget=BUDGET):
    model = compiled(statistics, budget)
    statistics.record_in(model)
    model.fit(*rows, batch_size=100, epochs=2, verbose=0)
    return model


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_the_release_costs_its_share(correlated, kind, share, adjacency):
    budget = lipdp.PrivacyBudget(epsilon=4.0, delta=1e-6, adjacency=adjacency)
    z = kind.release(correlated[0], radius=8.0, budget=budget, share=share).noise_multiplier
    spent = epsilon(1.0, z, 1, 1e-6, adjacency=adjacency)
    assert 0.99 * share * 4.0 <= spent <= share * 4.0


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_release_and_training_stay_within_the_budget(correlated, kind):
    statistics = kind.release(correlated[0], radius=8.0, budget=BUDGET, share=0.3)
    model = trained(statistics, correlated)
    layers = [lipdp.layers.BoundedInput((5,), radius=8.0), lipdp.layers.SpectralDense(2)]
    alone = lipdp.Sequential(layers)
    alone.compile("sgd", model.loss, privacy=BUDGET)
    alone.fit(*correlated, batch_size=100, epochs=2, verbose=0)
    assert 3.96 <= model.ledger.epsilon(1e-5) <= 4.0
    assert model.plan.noise_multiplier > 1.01 * alone.plan.noise_multiplier
    assert model.plan.affordable_steps == model.ledger.steps == 8
    assert [p.steps for p in model.ledger.phases if p.sampling_rate == 1.0] == [1]
    assert kind.purpose in " ".join(model.privacy_statement().split())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("clip_radius", [None, 0.5, 7.0])
def test_the_layers_compute_what_the_statistics_say(correlated, kind, dtype, clip_radius):
    """Against NumPy: clip to the ball, map, divide, clip to the unit ball."""
    x = np.vstack([correlated[0][:30], 9.0 * correlated[0][:3], np.full((1, 5), np.nan)])
    s = kind.release(correlated[0], radius=8.0, budget=BUDGET)
    rows = np.nan_to_num(x, nan=0.0)
    rows = rows / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True) / 8.0)
    centred = rows - s.mean
    mapped = centred * s.matrix if kind is PrivateStandardization else centred @ s.matrix
    mapped = mapped / (clip_radius or s.typical_norm)
    mapped = mapped / np.maximum(1.0, np.linalg.norm(mapped, axis=1, keepdims=True))
    model = lipdp.Sequential(s.layers(clip_radius=clip_radius, dtype=dtype))
    np.testing.assert_allclose(model.predict(x, verbose=0), mapped, atol=2e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_constants_become_one(correlated, kind):
    x = correlated[0]
    exact = {"budget": lipdp.PrivacyBudget(8.0, 1e-5), "noise_multiplier": 1e-6}
    s = kind.release(x, radius=30.0, constants={4: 0.25}, **exact)
    far = 1e3 * s.typical_norm
    (front, affine, _), rows = s.layers(clip_radius=far, dtype="float64"), x.astype("float64")
    out = far * np.asarray(affine(front(rows)))
    np.testing.assert_allclose(out[:, 4], 1.0, rtol=1e-6)
    np.testing.assert_allclose(out[:, :4].mean(axis=0), 0.0, atol=0.02)
    np.testing.assert_allclose(out[:, :4].std(axis=0), 1.0, atol=0.02)
    assert s.typical_norm == pytest.approx(math.sqrt(5), rel=0.01)
    # The first feature as constant: the others keep their places.
    turned = kind.release(x[:, ::-1], radius=30.0, constants={0: 0.25}, **exact)
    np.testing.assert_allclose(turned.mean[::-1], s.mean, atol=0.01)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bounds_and_radii_hold_in_units_of_the_row(correlated, kind, dtype, check_units):
    x = correlated[0].astype(dtype)
    s = kind.release(x, radius=8.0, budget=BUDGET)
    model = compiled(s, BUDGET, dtype, clip_radius=2.0)
    check_units(model, x, np.diag(s.matrix) if s.matrix.ndim == 1 else s.matrix)


@pytest.mark.slow
def test_a_saved_model_keeps_layers_and_ledger_in_a_new_process(correlated, tmp_path):
    x = correlated[0][:20]
    models = []
    for kind in KINDS:
        s = kind.release(correlated[0], radius=8.0, budget=BUDGET, constants={4: 0.25})
        models.append(trained(s, correlated))
    models[0].save(tmp_path / "0.keras")
    lipdp.training.save_for_release(models[1], tmp_path / "1.keras")
    np.savez(tmp_path / "rows.npz", x, *[m.predict(x, verbose=0) for m in models])
    script = """
import sys, numpy as np, lipdp
x, *before = np.load(sys.argv[1] + "/rows.npz").values()
for i, wanted in enumerate(before):
    model = lipdp.load_model(f"{sys.argv[1]}/{i}.keras")
    assert np.abs(model.predict(x, verbose=0) - wanted).max() < 1e-6
    assert len(model.trainable_variables) == 1
    known = model.ledger.steps, model.ledger.epsilon(1e-5), model.lipschitz_constant()
    print(*model.ledger.other_accesses, *known, sep="|")
"""
    command = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for kind, model, line in zip(KINDS, models, done.stdout.splitlines(), strict=True):
        access, steps, spent, constant = line.split("|")
        assert access.startswith(kind.purpose) and int(steps) == 8
        assert 3.96 <= float(spent) <= 4.0
        assert float(constant) == pytest.approx(model.lipschitz_constant(), rel=1e-6)


def test_an_exported_model_maps_raw_rows_too(correlated):
    for kind in KINDS:
        model = compiled(kind.release(correlated[0], radius=8.0, budget=BUDGET), BUDGET)
        x = correlated[0][:20]
        plain = lipdp.export(model).predict(x, verbose=0)
        np.testing.assert_allclose(plain, model.predict(x, verbose=0), atol=1e-5)


class TestRecord:
    def test_another_adjacency_before_compile_is_refused(self, correlated):
        budget = lipdp.PrivacyBudget(epsilon=4.0, delta=1e-5, adjacency="replace-one")
        s = PrivateWhitening.release(correlated[0], radius=8.0, budget=budget)
        model = lipdp.Sequential([*s.layers(), lipdp.layers.SpectralDense(2)])
        with pytest.raises(InvalidState, match="Compile"):
            s.record_in(model)
        assert model.ledger.phases == ()
        s.record_in(compiled(s, budget))

    def test_an_access_alone_keeps_the_adjacency(self, correlated):
        s = PrivateWhitening.release(correlated[0], radius=8.0, budget=BUDGET)
        model = compiled(s, BUDGET)
        s.record_in(model)
        with pytest.raises(UnsafeSetting, match="add-remove"):
            model.compile(
                "sgd", model.loss, privacy=lipdp.PrivacyBudget(epsilon=4.0, adjacency="replace-one")
            )
        assert len(model.ledger.other_accesses) == 1

    def test_an_access_alone_survives_older_weights(self, correlated, tmp_path):
        s = PrivateWhitening.release(correlated[0], radius=8.0, budget=BUDGET)
        model = compiled(s, BUDGET)
        model.save_weights(tmp_path / "old.weights.h5")
        s.record_in(model)
        model.load_weights(tmp_path / "old.weights.h5")
        assert len(model.ledger.other_accesses) == 1

    def test_every_release_counts(self, correlated):
        model = None
        for _ in range(2):
            s = PrivateWhitening.release(correlated[0], radius=8.0, budget=BUDGET)
            model = compiled(s, BUDGET) if model is None else model
            s.record_in(model)
        assert sum(p.steps for p in model.ledger.phases) == 2

    def test_statistics_that_the_ledger_does_not_know_are_refused(self, correlated):
        s = PrivateStandardization.release(correlated[0], radius=8.0, budget=BUDGET)
        model = compiled(s, BUDGET)
        with pytest.raises(InvalidState, match="record_in"):
            model.fit(*correlated, batch_size=100, verbose=0)
        s.record_in(model)
        model.fit(*correlated, batch_size=100, verbose=0)

    def test_a_seeded_release_needs_a_seeded_training(self, correlated):
        seeded = lipdp.PrivacyBudget(epsilon=4.0, delta=1e-5, seed=1)
        s, t = (PrivateWhitening.release(correlated[0], radius=8.0, budget=seeded) for _ in "ab")
        assert (s.mean == t.mean).all()
        with pytest.raises(UnsafeSetting, match="seed"):
            s.record_in(compiled(s, BUDGET))
        s.record_in(compiled(s, seeded))

    def test_without_noise_epsilon_is_infinite(self, correlated):
        budget = lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5)
        s = PrivateWhitening.release(correlated[0], radius=8.0, budget=budget, noise_multiplier=0.0)
        model = trained(s, correlated, budget)
        assert model.ledger.epsilon(1e-5) == math.inf
        assert model.privacy_statement().startswith("NOT PRIVATE")


def test_the_noise_of_a_budget_without_epsilon(correlated):
    budget = lipdp.PrivacyBudget(noise_multiplier=1.0)
    with pytest.raises(InvalidValue, match="noise_multiplier for the statistics"):
        PrivateWhitening.release(correlated[0], radius=8.0, budget=budget)
    given = PrivateWhitening.release(correlated[0], radius=8.0, budget=budget, noise_multiplier=3.0)
    assert given.noise_multiplier == 3.0


def test_a_given_noise_multiplier_wins_over_the_share():
    assert statistics_multiplier(BUDGET, 400, 0.1, 7.0) == 7.0


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"share": 0.0}, InvalidValue),
        ({"share": 1.0}, InvalidValue),
        ({"share": math.nan}, InvalidValue),
        ({"share": "much"}, InvalidValue),
        ({"radius": -1.0}, InvalidValue),
        ({"noise_multiplier": -1.0}, InvalidValue),
        ({"groups": np.arange(3)}, InvalidData),
        ({"groups": np.full(400, np.nan)}, InvalidData),
        ({"constants": {5: 1.0}}, InvalidValue),
        ({"constants": {-1: 1.0}}, InvalidValue),
        ({"constants": {0: 0.0}}, InvalidValue),
        ({"constants": {0: math.inf}}, InvalidValue),
        ({"constants": dict.fromkeys(range(5), 1.0)}, InvalidData),
        ({"x": np.zeros(4)}, InvalidData),
        ({"x": np.zeros(4), "constants": {0: 1.0}}, InvalidValue),
    ],
)
def test_bad_arguments_are_refused(correlated, changes, error):
    with pytest.raises(error):
        PrivateWhitening.release(**{"x": correlated[0], "radius": 8.0, "budget": BUDGET, **changes})


def test_a_bad_clip_radius_is_refused(correlated):
    s = PrivateWhitening.release(correlated[0], radius=8.0, budget=BUDGET)
    with pytest.raises(InvalidValue):
        s.layers(clip_radius=0.0)


@pytest.mark.parametrize("kind", KINDS)
def test_secure_noise(correlated, kind):
    budget = lipdp.PrivacyBudget(epsilon=4.0, delta=1e-5, secure_noise=True)
    s = kind.release(correlated[0], radius=8.0, budget=budget)
    whole = s.mean * 400 * 2.0**20  # a sum on a grid of 2^-k, over 400 rows
    np.testing.assert_allclose(whole, np.round(whole), rtol=0.0, atol=1e-4)
    rough = kind.release(correlated[0], radius=8.0, budget=BUDGET).mean * 400 * 2.0**20
    assert np.abs(rough - np.round(rough)).max() > 1e-2


def test_a_user_counts_as_one_row(correlated):
    """Sums over 40 users instead of 400 rows: the same noise on a tenth of the divisor."""
    x, users = correlated[0], np.repeat(np.arange(40), 10)
    means = x.reshape(40, 10, 5).mean(axis=1)
    found = [
        PrivateStandardization.release(
            rows, radius=99.0, budget=lipdp.PrivacyBudget(epsilon=1e7, delta=1e-5), groups=groups
        ).mean
        for rows, groups in ((x, users), (means, None))
    ]
    np.testing.assert_allclose(found[0], found[1], atol=0.02)
    spread = [
        np.std(
            [
                PrivateWhitening.release(x, radius=8.0, budget=BUDGET, groups=g).mean[4]
                for _ in range(100)
            ]
        )
        for g in (None, users)
    ]
    # 100 draws each: the ratio is 10 within a third.
    assert 6.6 < spread[1] / spread[0] < 15.0
