"""Every variable that a model trains has a bound, whatever its layer says of itself."""

import keras
import numpy as np
import pytest

import lipdp
from lipdp.bounds import adaptive_clips, gradient_bounds
from lipdp.bounds.probe import per_sample_gradient_norms
from lipdp.errors import UnsupportedLayer
from lipdp.layers import (
    AdaptiveCotangentClip,
    BoundedBias,
    BoundedEmbedding,
    BoundedInput,
    BoundedScale,
    SpectralDense,
    SphereNormalization,
)
from lipdp.losses import MulticlassHinge

LOSS = MulticlassHinge(margin=1.0)


def net(*inside):
    ends = [SphereNormalization(1.0, 1.0), SpectralDense(3)]
    return lipdp.Sequential([BoundedInput((4,), radius=2.0), *inside, *ends])


def nested(*inside):
    return net(keras.Sequential([keras.Input((4,)), *inside]))


def thaw(layer):
    """A frozen layer with trained variables."""
    layer.trainable = False
    for variable in layer.variables:
        variable.trainable = True


def assert_covered(model, bounds):
    """Bounds in the order of the variables that are trained, none below a gradient."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(8, *model.input_shape[1:]))
    x *= 2.0 / np.linalg.norm(x.reshape(8, -1), axis=1).reshape(-1, *[1] * (x.ndim - 1))
    norms = per_sample_gradient_norms(model, LOSS, x.astype("float32"), np.arange(8) % 3)
    assert norms.shape[1] == len(bounds) == len(model.trainable_variables)
    assert (norms <= bounds).all()


@pytest.mark.parametrize("around", [net, nested])
@pytest.mark.parametrize(
    "make",
    [
        lambda: SpectralDense(4),
        lambda: BoundedBias(1.0),
        lambda: BoundedScale(1.0),
        lambda: AdaptiveCotangentClip(1.0),
        lambda: keras.layers.Dense(4),
        keras.layers.PReLU,
    ],
)
def test_a_trained_variable_of_a_frozen_layer_is_refused(make, around):
    layer = make()
    model = around(layer)
    gradient_bounds(model, LOSS)
    thaw(layer)
    assert any(v is layer.variables[0] for v in model.trainable_variables)
    with pytest.raises(UnsupportedLayer, match=f"{layer.variables[0].name}.*trainable = True"):
        gradient_bounds(model, LOSS)


def test_a_trained_table_of_a_frozen_embedding_is_refused():
    table = BoundedEmbedding(5, 3)
    model = lipdp.Sequential([keras.Input((2,)), table, keras.layers.Flatten(), SpectralDense(3)])
    assert len(gradient_bounds(model, LOSS).parameters) == 2
    thaw(table)
    with pytest.raises(UnsupportedLayer, match="table"):
        gradient_bounds(model, LOSS)


def test_such_a_model_does_not_train():
    layer = SpectralDense(4)
    model = net(layer)
    thaw(layer)
    budget = lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5)
    model.compile("sgd", LOSS, privacy=budget)
    before = layer.kernel.numpy().copy()
    with pytest.raises(UnsupportedLayer, match="kernel"):
        model.fit(np.ones((40, 4), "float32"), np.zeros(40, int), batch_size=20, verbose=0)
    np.testing.assert_array_equal(layer.kernel.numpy(), before)


def test_a_trained_layer_that_is_not_in_the_graph_is_refused():
    model = net()
    extra = SpectralDense(2)
    extra.build((None, 4))
    model._layers.append(extra)
    assert len(model.trainable_variables) == 2
    with pytest.raises(UnsupportedLayer, match="not in its graph"):
        gradient_bounds(model, LOSS)


@pytest.mark.parametrize("around", [net, nested])
def test_a_frozen_variable_of_a_trained_layer_has_no_bound(around):
    dense, own = keras.layers.Dense(4), SpectralDense(4)
    model = around(dense, SphereNormalization(1.0, 1.0), own)
    own.kernel.trainable = dense.kernel.trainable = False
    names = [v.path for v in (dense.bias, model.layers[-1].kernel)]
    assert [v.path for v in model.trainable_variables] == names
    assert_covered(model, gradient_bounds(model, LOSS).parameters)


def test_a_thawed_layer_of_a_frozen_nested_model_is_bounded():
    """In the order of the model's variables, in the plan too."""
    first, second = SpectralDense(4), keras.layers.Dense(4)
    model = nested(first, second)
    inner = model.layers[1]
    inner.trainable = False
    second.trainable = True
    assert inner.trainable_variables == [] and len(model.trainable_variables) == 3
    bounds = gradient_bounds(model, LOSS).parameters
    assert_covered(model, bounds)
    model.compile("sgd", LOSS, privacy=lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5))
    model.fit(np.ones((40, 4), "float32"), np.zeros(40, int), batch_size=20, verbose=0)
    np.testing.assert_allclose(model.plan.sensitivities, bounds, rtol=1e-2)
    assert min(model.plan.stddevs) > 0.0


def test_a_clip_with_a_fixed_threshold_is_not_adaptive():
    clip = AdaptiveCotangentClip(1.0)
    model = net(SpectralDense(4), clip)
    assert adaptive_clips(model) == (clip,)
    clip.threshold.trainable = False
    assert adaptive_clips(model) == ()
    assert_covered(model, gradient_bounds(model, LOSS).parameters)
