"""Private whitening of maps as layers: what it costs, what it computes, what a model keeps."""

import math

import keras
import numpy as np
import pytest

import lipdp
from lipdp.errors import InvalidData, InvalidState, InvalidValue, UnsafeSetting
from lipdp.privacy import epsilon
from lipdp.statistics import PrivateKroneckerWhitening

BUDGET = lipdp.PrivacyBudget(epsilon=4.0, delta=1e-5)
SHAPE = (3, 4)
FIXED = {"positions": 3, "radius": 8.0}


@pytest.fixture(scope="module")
def maps():
    """400 flat maps of 3 positions and 4 channels, both correlated, with labels."""
    rng = np.random.default_rng(0)
    left, right = (np.eye(n) + 0.4 * rng.normal(size=(n, n)) for n in SHAPE)
    x = (left @ rng.normal(size=(400, *SHAPE)) @ right + 0.3).reshape(400, -1)
    return x, (x[:, 0] > 0.3).astype("int64")


def released(maps, budget=BUDGET, **options):
    return PrivateKroneckerWhitening.release(maps[0], **{**FIXED, "budget": budget, **options})


def compiled(whitening, budget=BUDGET, dtype="float32", **options):
    keras.utils.set_random_seed(0)
    head = lipdp.layers.SpectralDense(2, dtype=dtype)
    model = lipdp.Sequential([*whitening.layers(dtype=dtype, **options), head])
    loss = lipdp.losses.TemperedCrossentropy(inverse_temperature=16.0)
    model.compile(keras.optimizers.SGD(0.5), loss, privacy=budget)
    return model


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_the_release_costs_its_share(maps, share, adjacency):
    budget = lipdp.PrivacyBudget(epsilon=4.0, delta=1e-6, adjacency=adjacency)
    z = released(maps, budget, share=share).noise_multiplier
    spent = epsilon(1.0, z, 1, 1e-6, adjacency=adjacency)
    assert 0.99 * share * 4.0 <= spent <= share * 4.0


@pytest.mark.slow
def test_release_and_training_stay_within_the_budget(maps, tmp_path):
    whitening = released(maps, share=0.3)
    model = compiled(whitening)
    with pytest.raises(InvalidState, match="record_in"):
        model.fit(*maps, batch_size=100, verbose=0)
    whitening.record_in(model)
    model.fit(*maps, batch_size=100, epochs=2, verbose=0)
    assert 3.96 <= model.ledger.epsilon(1e-5) <= 4.0
    (access,) = model.ledger.other_accesses
    assert access.startswith(PrivateKroneckerWhitening.purpose)
    assert PrivateKroneckerWhitening.purpose in " ".join(model.privacy_statement().split())
    assert len(model.trainable_variables) == 1
    model.save(tmp_path / "model.keras")
    loaded = lipdp.load_model(tmp_path / "model.keras")
    x = maps[0][:20]
    np.testing.assert_allclose(loaded.predict(x, verbose=0), model.predict(x, verbose=0), atol=1e-6)
    assert loaded.ledger.other_accesses == model.ledger.other_accesses
    assert loaded.lipschitz_constant() == pytest.approx(model.lipschitz_constant(), rel=1e-6)
    plain = lipdp.export(model).predict(x, verbose=0)
    np.testing.assert_allclose(plain, model.predict(x, verbose=0), atol=1e-5)


def test_the_layers_whiten(maps):
    exact = {"budget": lipdp.PrivacyBudget(noise_multiplier=1.0), "noise_multiplier": 1e-6}
    s = released(maps, **exact, radius=20.0)
    far = 1e3 * s.typical_norm
    *affine, clip = s.layers(clip_radius=far, dtype="float64")
    assert isinstance(clip, lipdp.layers.ActivationClip)
    out = maps[0]
    for layer in affine:
        out = layer(out)
    out = far * np.asarray(out)
    wanted = s.spatial @ (maps[0].reshape(-1, *SHAPE) - s.mean.reshape(SHAPE)) @ s.channel
    np.testing.assert_allclose(out, wanted.reshape(400, -1), atol=1e-4)
    np.testing.assert_allclose(np.cov(out.T), np.eye(12), atol=0.35)
    np.testing.assert_allclose(out.mean(axis=0), 0.0, atol=0.02)
    assert s.typical_norm == pytest.approx(math.sqrt(12), rel=0.05)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_follows_sees_the_unit_ball(maps, dtype):
    """Whatever the noise, and whatever the row."""
    rows = np.array([[math.nan] * 12, [1e30] * 12, [0.0] * 12, [1e-30] * 12, maps[0][0]])
    for z in (0.01, 1.0, 1e4):
        s = released(maps, noise_multiplier=z)
        out = keras.Sequential(s.layers(dtype=dtype))(rows.astype(dtype))
        norms = np.linalg.norm(np.asarray(out, dtype="float64"), axis=1)
        assert (norms <= 1.0 + 1e-6).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bounds_and_radii_hold_in_units_of_the_row(maps, dtype, check_units):
    x = maps[0].astype(dtype)
    s = released(maps)
    model = compiled(s, dtype=dtype, clip_radius=2.0)
    check_units(model, x, np.kron(s.spatial, s.channel))


def test_a_seeded_release_needs_a_seeded_training(maps):
    seeded = lipdp.PrivacyBudget(epsilon=4.0, delta=1e-5, seed=1)
    s, t = (released(maps, seeded) for _ in "ab")
    assert (s.channel == t.channel).all()
    with pytest.raises(UnsafeSetting, match="seed"):
        s.record_in(compiled(s))
    s.record_in(compiled(s, seeded))


def test_secure_noise(maps):
    s = released(maps, lipdp.PrivacyBudget(epsilon=4.0, delta=1e-5, secure_noise=True))
    whole = s.mean * 400 * 2.0**20  # a sum on a grid of 2^-k, over 400 rows
    np.testing.assert_allclose(whole, np.round(whole), rtol=0.0, atol=1e-4)


def test_a_user_counts_as_one_row(maps):
    """Sums over 40 users instead of 400 rows: the same noise on a tenth of the divisor."""
    users = np.repeat(np.arange(40), 10)
    spread = [np.std([released(maps, groups=g).mean[4] for _ in range(100)]) for g in (None, users)]
    # 100 draws each: the ratio is 10 within a third.
    assert 6.6 < spread[1] / spread[0] < 15.0


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"share": 0.0}, InvalidValue),
        ({"share": 1.0}, InvalidValue),
        ({"radius": -1.0}, InvalidValue),
        ({"positions": 5}, InvalidValue),
        ({"positions": 0}, InvalidValue),
        ({"noise_multiplier": -1.0}, InvalidValue),
        ({"groups": np.arange(3)}, InvalidData),
        ({"budget": lipdp.PrivacyBudget(noise_multiplier=1.0)}, InvalidValue),
    ],
)
def test_bad_arguments_are_refused(maps, changes, error):
    with pytest.raises(error):
        released(maps, **changes)
