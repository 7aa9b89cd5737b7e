"""Runs on fixed features: computed once, released in one model, certified by what is proved."""

import keras
import numpy as np
import pytest
from keras import ops

from lipdp.bounds import lipschitz_constant
from lipdp.certificates import certify
from lipdp.config import RunConfig
from lipdp.errors import InvalidConfig, InvalidData, UnsupportedLayer
from lipdp.layers import FrozenFeatures
from lipdp.results import RunResult
from lipdp.run import bounds_table, predict, train
from lipdp.run.bounds import plan_of
from lipdp.run.data import prepare_rows
from lipdp.run.features import features_of, provable_part, with_features
from lipdp.training import load_model

SCHEMA = """
kind = "images"
classes = ["0", "1", "2"]
shape = [8, 8, 1]
low = 0
high = 255
"""
SCATTERING = {"name": "scattering", "scales": 1, "orientations": 2, "dtype": "float64"}
#: The seed decides the accuracies of such small data.
PRIVACY = {"noise_multiplier": 1.0, "delta": 1e-3, "seed": 1}


def write_images(folder, count=150):
    """Images that are brighter in one of three places."""
    rng = np.random.default_rng(0)
    labels = np.arange(count) % 3
    x = rng.integers(0, 60, size=(count, 8, 8), dtype=np.uint8)
    for image, label in zip(x, labels, strict=True):
        image[2 * label : 2 * label + 3] += 150
    np.savez(folder / "i.npz", x=x, y=labels)
    (folder / "i.toml").write_text(SCHEMA)


@pytest.fixture
def make_config(tmp_path):
    write_images(tmp_path)

    def make(features, *, model=None, **sections):
        return RunConfig(
            data={"path": str(tmp_path / "i.npz"), "schema_path": str(tmp_path / "i.toml")},
            features=features,
            model=model or {"name": "linear"},
            loss={"name": "multiclass_hinge", "margin": 0.1},
            optimizer={"name": "SGD", "learning_rate": 1.0},
            training={"batch_size": 40, "epochs": 3},
            **{"privacy": PRIVACY, "certificates": {"radii": [0.01]}, **sections},
        )

    return make


@pytest.fixture
def extractor(tmp_path):
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(2, 3, activation="relu"),
            keras.layers.BatchNormalization(),
        ]
    )
    model.save(tmp_path / "extractor.keras")
    return tmp_path / "extractor.keras"


@pytest.mark.slow
def test_a_run_on_scattering_features_is_one_model_of_the_rows(make_config, tmp_path):
    config = make_config({**SCATTERING, "pool_size": 2, "groups": 3, "min_norm": 0.5})
    out = train(config, tmp_path / "run").output
    model, rows = load_model(out / "model.keras", compile=False), prepare_rows(config)
    seen = with_features(config, rows)
    assert model.input_shape == (None, 64) and seen.x_test.shape == (30, 3 * 2 * 2)
    head = keras.Sequential([keras.Input((12,), dtype="float64"), *model.layers[-2:]])
    logits = model.predict(rows.x_test[:], verbose=0)
    # Not predict, in which Keras rounds what it is given to float32.
    np.testing.assert_allclose(np.asarray(head(seen.x_test)), logits, atol=1e-12)
    result = RunResult.load(out / "result.json")
    assert result.spent.steps == model.ledger.steps == 9
    assert result.lipschitz_constant == lipschitz_constant(model) < 2.0
    assert result.test.accuracy > 0.6 and result.certified[0].accuracy > 0.3
    assert "pixels" in result.certified[0].unit
    assert "extractor" not in result.statement
    assert len(bounds_table(out)) == len(model.layers)


@pytest.mark.slow
def test_certified_radii_of_scattering_hold_for_pixels(make_config, tmp_path):
    config = make_config({**SCATTERING, "groups": 3, "min_norm": 0.5})
    out = train(config, tmp_path / "run").output
    model, x = load_model(out / "model.keras"), prepare_rows(config).x_test[:]
    found = predict(out, tmp_path / "i.npz")
    radii = provable_radii(model, x)
    assert np.all(radii[radii > 0] < 5.0) and np.mean(radii > 0.01) > 0.5
    assert np.mean(found["certified_radius"] > 0.01) > 0.5
    rng, labels = np.random.default_rng(1), model.predict(x, verbose=0).argmax(axis=1)
    for _ in range(20):
        step = rng.normal(size=x.shape)
        step *= 0.999 * (radii / np.linalg.norm(step, axis=1))[:, None]
        moved = model.predict(x + step, verbose=0).argmax(axis=1)
        assert np.array_equal(moved[radii > 0], labels[radii > 0])


def provable_radii(model, x):
    return certify(*provable_part(model, x)).radii


@pytest.mark.slow
def test_a_run_on_a_frozen_extractor(make_config, extractor, tmp_path):
    config = make_config({"name": "file", "path": str(extractor), "radius": 2.0})
    out = train(config, tmp_path / "run").output
    result = RunResult.load(out / "result.json")
    assert "trained on" in result.statement
    assert "not of rows" in result.certified[0].unit
    assert np.isfinite(result.lipschitz_constant) and result.test.accuracy > 0.5
    model = load_model(out / "model.keras", compile=False)
    (frozen,) = [layer for layer in model.layers if isinstance(layer, FrozenFeatures)]
    original = keras.models.load_model(extractor)
    for old, new in zip(original.get_weights(), frozen.extractor.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    found = predict(out, tmp_path / "i.npz")
    assert len(found) == 150 and np.mean(found["certified_radius"] > 0) > 0.9
    x = prepare_rows(config).x_test[:]
    part, features = provable_part(model, x)
    logits = np.asarray(part(features))
    np.testing.assert_allclose(logits, model.predict(x, verbose=0), atol=1e-12)


@pytest.mark.slow
def test_statistics_of_features_are_private_and_in_the_ledger(make_config, tmp_path):
    config = make_config(
        {"name": "pooling", "pool_size": 4, "shift": 0.3},
        privacy={"epsilon": 20.0, "delta": 1e-3},
        preprocess={"kind": "private-whiten"},
    )
    out = train(config, tmp_path / "run").output
    model = load_model(out / "model.keras", compile=False)
    assert "covariance" in str(model.ledger.other_accesses)
    assert sum(layer.name.startswith("dense") for layer in model.layers) == 1
    assert model.input_shape == (None, 64)
    assert RunResult.load(out / "result.json").spent.epsilon <= 20.0


@pytest.mark.slow
def test_maps_are_whitened_over_positions_and_channels(make_config, tmp_path):
    config = make_config(
        {**SCATTERING, "pool_size": 4, "groups": 3, "min_norm": 0.5},
        privacy={"epsilon": 20.0, "delta": 1e-3},
        preprocess={"kind": "private-whiten-maps"},
    )
    out = train(config, tmp_path / "run").output
    model = load_model(out / "model.keras", compile=False)
    assert "positions and channels" in str(model.ledger.other_accesses)
    kernels = [w.shape for w in model.non_trainable_variables if len(w.shape) == 2]
    assert kernels[-2:] == [(3, 3), (1, 1)] and model.input_shape == (None, 64)
    result = RunResult.load(out / "result.json")
    assert result.spent.epsilon <= 20.0 and np.isfinite(result.lipschitz_constant)


def test_whitening_of_maps_needs_maps(make_config, tmp_path, monkeypatch):
    """It is refused before a feature is computed."""
    keras.Sequential([keras.Input((64,)), keras.layers.Dense(4)]).save(tmp_path / "flat.keras")
    config = make_config(
        {"name": "file", "path": str(tmp_path / "flat.keras")},
        preprocess={"kind": "private-whiten-maps", "noise_multiplier": 1.0},
    )
    monkeypatch.setattr("lipdp.run.features._computed", None)
    for begin in (lambda: train(config, tmp_path / "run"), lambda: plan_of(config)):
        with pytest.raises(InvalidConfig, match="needs maps"):
            begin()
    assert not (tmp_path / "run").exists()


def test_pooled_images_stay_images_for_models_of_images(make_config):
    config = make_config({"name": "pooling", "pool_size": 2}, model={"name": "convnet"})
    rows = prepare_rows(config)
    features = features_of(config, rows.encoding)
    assert features.encoding.shape == (4, 4, 1) and features.encoding.num_features == 16
    image = rows.x_test[:1].reshape(8, 8)
    expected = 2.0 * image.reshape(4, 2, 4, 2).mean(axis=(1, 3))
    np.testing.assert_allclose(features.of(rows.x_test[:1]).reshape(4, 4), expected, atol=1e-12)
    assert not bounds_table_of(config).empty


def bounds_table_of(config):
    return plan_of(config)[0].bounds.to_frame()


def test_groups_are_centred_and_normalised(make_config):
    config = make_config({**SCATTERING, "groups": 3, "min_norm": 1e-3})
    rows = prepare_rows(config)
    features = features_of(config, rows.encoding)
    assert features.encoding.shape == (4, 4, 3)
    maps = features.of(rows.x_test).reshape(len(rows.x_test), 16, 3)
    # Here a group is one channel, at all positions.
    found = maps.transpose(0, 2, 1)
    np.testing.assert_allclose(found.mean(axis=-1), 0.0, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(found, axis=-1), 3**-0.5, rtol=1e-9)
    assert 1.0 <= features.encoding.max_norm <= 1.0 + 1e-6


def test_an_extractor_that_mixes_rows_is_refused(make_config, tmp_path):
    inputs = keras.Input((8, 8, 1))
    mixed = inputs - ops.mean(inputs, axis=0, keepdims=True)
    keras.Model(inputs, mixed).save(tmp_path / "mix.keras")
    with pytest.raises(UnsupportedLayer, match="mixes"):
        train(make_config({"name": "file", "path": str(tmp_path / "mix.keras")}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def _code(folder):
    inputs = keras.Input((8, 8, 1))
    path = folder / "code.keras"
    keras.Model(inputs, keras.layers.Lambda(lambda x: x + 1.0)(inputs)).save(path)
    return path


def _other_shape(folder):
    keras.Sequential([keras.Input((9, 9, 1)), keras.layers.Flatten()]).save(folder / "o.keras")
    return folder / "o.keras"


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (_code, "code of its own"),
        (_other_shape, "samples of shape"),
        (lambda folder: folder / "none.keras", "no extractor"),
        (lambda folder: folder / "i.npz", "no readable"),
    ],
)
def test_files_without_a_usable_extractor_are_refused(make_config, tmp_path, make, what):
    config = make_config({"name": "file", "path": str(make(tmp_path))})
    with pytest.raises(InvalidData, match=what):
        with_features(config, prepare_rows(config))


@pytest.mark.parametrize(
    "features",
    [
        {"name": "scatering"},
        {"name": "scattering", "scale": 2},
        {"name": "scattering", "scales": 4},
        {"name": "scattering", "groups": 7},
        {"name": "pooling", "pool_size": 0},
        {"name": "none", "scales": 2},
        {"name": "file"},
    ],
)
def test_wrong_options_are_refused(make_config, features):
    config = make_config(features)
    with pytest.raises(ValueError):
        with_features(config, prepare_rows(config))


def test_tables_are_no_images(make_config):
    config = make_config(SCATTERING)
    encoding = prepare_rows(config).encoding
    flat = type("Flat", (), {"shape": (64,), "num_features": 64, "max_norm": 1.0})()
    assert encoding.shape == (8, 8, 1)
    with pytest.raises(InvalidConfig, match="images"):
        features_of(config, flat)
