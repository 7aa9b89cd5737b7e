"""A model runs on rows of the shape that it was built for, or not at all."""

import keras
import numpy as np
import pytest

import lipdp
from lipdp.bounds.graph import check_row_shape
from lipdp.errors import InvalidData
from lipdp.layers import (
    BoundedBias,
    BoundedInput,
    GlobalL2NormPooling,
    ScaledGlobalAveragePooling,
    SpectralDense,
)

POOLINGS = [GlobalL2NormPooling, ScaledGlobalAveragePooling, keras.layers.GlobalAveragePooling1D]
STREAM = {"sampling": "shuffled", "adjacency": "zero-out"}


def layers(pooling=GlobalL2NormPooling):
    return [BoundedInput((5, 4), 2.0), BoundedBias(1.0), pooling(), SpectralDense(2)]


def functional(pooling=GlobalL2NormPooling):
    tensor = inputs = keras.Input((5, 4))
    for layer in layers(pooling):
        tensor = layer(tensor)
    return lipdp.Model(inputs, tensor)


def compiled(model, **options):
    budget = lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5, **options)
    model.compile("sgd", lipdp.losses.MulticlassHinge(margin=0.5), privacy=budget)
    return model


def rows_of(*shape, count=100):
    return np.ones((count, *shape), "float32"), np.arange(count) % 2


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("shape", [(50, 4), (2, 4)])
def test_other_rows_neither_train_nor_are_evaluated(pooling, shape):
    model = compiled(lipdp.Sequential(layers(pooling)))
    with pytest.raises(InvalidData, match=r"Pass rows of shape \(5, 4\)"):
        model.fit(*rows_of(*shape), batch_size=50, verbose=0)
    assert model.ledger.steps == 0
    with pytest.raises(ValueError, match="incompatible"):
        model.evaluate(*rows_of(*shape), verbose=0)
    with pytest.raises(ValueError, match="incompatible"):
        model.fit(*rows_of(5, 4), batch_size=50, validation_data=rows_of(*shape), verbose=0)
    with pytest.raises(ValueError, match="incompatible"):
        model(rows_of(*shape)[0])


def test_a_functional_model_refuses_them_before_its_first_step():
    model = compiled(functional())
    with pytest.raises(InvalidData, match="another shape"):
        model.fit(*rows_of(50, 4), batch_size=50, verbose=0)
    assert model.ledger.steps == 0


def test_so_does_one_of_several_inputs():
    inputs = [keras.Input((5, 4)), keras.Input((5, 4))]
    pooled = [ScaledGlobalAveragePooling()(BoundedInput((5, 4), 1.0)(one)) for one in inputs]
    model = compiled(lipdp.Model(inputs, SpectralDense(2)(keras.layers.Concatenate()(pooled))))
    x, y = rows_of(5, 4)
    model.fit([x, x], y, batch_size=50, verbose=0)
    assert np.isfinite(lipdp.certify(model, [x, x]).radii).all()
    with pytest.raises(ValueError, match="incompatible"):
        model.fit([x, rows_of(50, 4)[0]], y, batch_size=50, verbose=0)


class Growing:
    """Rows that are larger from the second batch on: Keras then takes the axis as unknown."""

    def __iter__(self):
        for length in (5, 50):
            yield from zip(*rows_of(length, 4, count=25), strict=True)


@pytest.mark.parametrize("make", [functional, lambda: lipdp.Sequential(layers())])
def test_a_stream_is_refused_at_its_first_row_of_another_shape(make):
    model = compiled(make(), **STREAM)
    with pytest.raises(InvalidData, match=r"rows of shape \(50, 4\)"):
        model.fit(Growing(), batch_size=25, verbose=0)
    assert model.ledger.steps == 0


def test_a_stream_that_grows_after_its_first_pass_is_refused_too():
    class Later(Growing):
        passes = 0

        def __iter__(self):
            self.passes += 1
            length = 5 if self.passes == 1 else 50
            yield from zip(*rows_of(length, 4, count=50), strict=True)

    model = compiled(lipdp.Sequential(layers()), **STREAM)
    with pytest.raises(Exception, match=r"rows of shape \(50, 4\)"):
        model.fit(Later(), batch_size=25, epochs=3, verbose=0)


@pytest.mark.parametrize("kind", [keras.Sequential, lipdp.Sequential])
def test_no_certificate_is_for_them(kind):
    """The radius of a mean over 2 positions is not that of one over 5."""
    with pytest.raises(InvalidData, match="its bounds are for that shape alone"):
        lipdp.certify(kind(layers(keras.layers.GlobalAveragePooling1D)), rows_of(2, 4)[0])


def test_a_last_axis_of_size_one_may_be_missing_or_too_much():
    model = lipdp.Sequential([BoundedInput((6, 1), 1.0), GlobalL2NormPooling(), SpectralDense(2)])
    check_row_shape(model, (6, 1))
    check_row_shape(model, (6,))
    check_row_shape(lipdp.Sequential([BoundedInput((6,), 1.0), SpectralDense(2)]), (6, 1))
    for shape in ((1, 6), (6, 2), (50,), (6, 1, 1, 1)):
        with pytest.raises(InvalidData):
            check_row_shape(model, shape)
    assert len(lipdp.certify(model, np.ones((3, 6), "float32")).radii) == 3
