"""Exported models predict the same and need no lipdp."""

import subprocess
import sys

import keras
import numpy as np
import pytest

import lipdp.layers as ll
from lipdp.conversion import export, plain
from lipdp.errors import InvalidState, UnsupportedLayer

LOADER = """
import sys, keras, numpy as np
class Refuse:
    def find_spec(self, name, *rest):
        if name.split(".")[0] == "lipdp":
            raise ImportError("lipdp is not installed here")
sys.meta_path.insert(0, Refuse())
data = np.load(sys.argv[1] + "/data.npz")
for name in data["names"]:
    model = keras.models.load_model(f"{sys.argv[1]}/{name}.keras")
    np.save(f"{sys.argv[1]}/{name}.npy", model.predict(data["x_" + name], verbose=0))
"""


def rows(*shape):
    """Ordinary rows and the awkward ones."""
    x = np.random.default_rng(0).normal(size=(12, *shape)).astype("float32")
    x[0] = 0.0
    x[1] *= 1e38
    x[2].flat[0] = np.nan
    x[3].flat[0] = np.inf
    x[4] = 1.0
    x[5] *= 1e-30
    return x


def randomised(model):
    """Every bias and kernel at values that a fresh model does not have."""
    rng = np.random.default_rng(1)
    for variable in model.weights:
        drawn = rng.normal(size=variable.shape).astype("float32")
        variable.assign(variable.constraint(drawn) if variable.constraint else drawn)
    return model


def every_layer():
    return keras.Sequential(
        [
            ll.BoundedInput((6,), radius=3.0),
            ll.SphereNormalization(radius=2.0, min_norm=0.5),
            ll.BoundedBias(0.5),
            ll.SpectralDense(8),
            ll.BoundedBias(1.0),
            ll.CotangentClip(0.1),
            ll.MaxMin(),
            ll.SpectralDense(8),
            ll.GroupSort(2),
            ll.ActivationClip(0.7),
            ll.SpectralDense(8),
            ll.GroupSort(4),
            keras.layers.Dense(8, activation="tanh", kernel_constraint=constraint(8)),
            ll.HouseholderActivation(1.1),
            keras.layers.Dropout(0.5),
            ll.FullSort(),
            keras.layers.ReLU(),
            ll.FrobeniusDense(3, radius=2.0),
        ],
        name="every_layer",
    )


def constraint(units):
    return ll.SpectralDense(units).constraint


def positions():
    return keras.Sequential(
        [
            ll.BoundedInput((3, 4), radius=3.0),
            ll.SpectralDense(6),
            ll.BoundedBias(1.0),
            ll.GroupSort(3),
            keras.layers.Flatten(),
            ll.FrobeniusDense(1),
        ],
        name="positions",
    )


def branches():
    """A shared dense layer, a product read with and without its bias, a nested model, operators."""
    inputs = keras.Input((4,))
    shared, bias = ll.SpectralDense(4, name="shared"), ll.BoundedBias(1.0)
    x = shared(ll.BoundedInput((4,), radius=2.0)(inputs))
    y = bias(x)
    nested = keras.Sequential([keras.Input((4,)), ll.SpectralDense(4), ll.MaxMin()], name="inner")
    z = keras.layers.Add()([nested(y), nested(x)])
    return keras.Model(inputs, bias(shared(z)) + 0.5 * x, name="branches")


def float64():
    layers = [ll.BoundedInput((5,), 1.0), ll.SpectralDense(4), ll.MaxMin(), ll.FrobeniusDense(2)]
    configs = [{**layer.get_config(), "dtype": "float64"} for layer in layers]
    return keras.Sequential(
        [type(a).from_config(c) for a, c in zip(layers, configs, strict=True)], name="float64"
    )


MODELS = {
    "every_layer": (every_layer, rows(6)),
    "positions": (positions, rows(3, 4)),
    "branches": (branches, rows(4)),
    "float64": (float64, rows(5)),
}


@pytest.mark.slow
def test_exported_files_load_without_lipdp_and_predict_the_same(tmp_path):
    expected = {}
    for name, (build, x) in MODELS.items():
        model = randomised(build())
        exported = export(model)
        expected[name] = model.predict(x, verbose=0)
        assert np.isfinite(expected[name]).all() and np.ptp(expected[name]) > 0.1
        np.testing.assert_allclose(exported.predict(x, verbose=0), expected[name], atol=1e-5)
        exported.save(tmp_path / f"{name}.keras")
    inputs = {f"x_{name}": x for name, (_, x) in MODELS.items()}
    np.savez(tmp_path / "data.npz", names=list(MODELS), **inputs)
    command = [sys.executable, "-c", LOADER, str(tmp_path)]
    subprocess.run(command, check=True, cwd=tmp_path, capture_output=True)
    for name, values in expected.items():
        np.testing.assert_allclose(np.load(tmp_path / f"{name}.npy"), values, atol=1e-5)


def test_dense_layers_stay_layers_and_take_their_bias():
    exported = export(randomised(every_layer()))
    dense = [layer for layer in exported.layers if isinstance(layer, keras.layers.Dense)]
    assert [layer.use_bias for layer in dense] == [True, False, False, True, False]
    assert dense[3].kernel_constraint is None
    assert type(exported) is type(keras.Model(exported.inputs, exported.outputs))
    assert exported.name == "every_layer" and not exported.compiled


def test_shared_layers_stay_shared_and_nothing_is_shared_with_the_model():
    model = randomised(branches())
    exported = export(model)
    assert sum(isinstance(layer, keras.Model) for layer in exported.layers) == 1
    # shared (with bias, and without for the operator), and the dense layer of the nested model.
    assert sum(layer.count_params() for layer in exported.layers) == 16 + 20 + 16
    before = exported.predict(rows(4), verbose=0)
    for variable in model.weights:
        variable.assign(variable * 0.0)
    np.testing.assert_array_equal(exported.predict(rows(4), verbose=0), before)


class Odd(keras.layers.Layer):
    def call(self, inputs):
        return inputs


def test_unknown_layers_are_refused_by_name_until_they_have_a_rule():
    model = keras.Sequential([keras.Input((3,)), Odd(name="my_odd_layer"), ll.SpectralDense(2)])
    with pytest.raises(UnsupportedLayer, match=r"my_odd_layer.*Odd"):
        export(model)
    plain.register(Odd, lambda layer: keras.layers.Identity(name=layer.name))
    assert isinstance(export(model).get_layer("my_odd_layer"), keras.layers.Identity)


class MyMaxMin(ll.MaxMin):
    def call(self, inputs):
        return 2.0 * super().call(inputs)


class MyDense(ll.SpectralDense):
    def call(self, inputs):
        return 2.0 * super().call(inputs)


class MyBias(ll.BoundedBias):
    def call(self, inputs):
        return 2.0 * super().call(inputs)


@pytest.mark.parametrize("last", [MyMaxMin(), MyDense(2), MyBias(1.0)])
def test_a_subclass_from_elsewhere_has_no_rule_of_its_base(last):
    model = keras.Sequential([keras.Input((4,)), ll.SpectralDense(2), last])
    with pytest.raises(UnsupportedLayer, match=type(last).__name__):
        export(model)


@keras.saving.register_keras_serializable(package="lipdp")
def odd_activation(x):
    return x


def test_an_option_from_here_is_refused():
    layers = [keras.Input((3,)), keras.layers.Dense(2, activation=odd_activation)]
    with pytest.raises(UnsupportedLayer, match="option"):
        export(keras.Sequential(layers))


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(2)

    def call(self, inputs):
        return self.dense(inputs)


def test_models_without_a_graph_are_refused():
    with pytest.raises(InvalidState, match="input shape"):
        export(keras.Sequential([ll.SpectralDense(2)]))
    model = Subclassed()
    model(np.zeros((1, 3)))
    with pytest.raises(UnsupportedLayer, match="graph"):
        export(model)
