"""What a layer was made with stays: its bounds and what it computes both follow from it."""

import inspect

import keras
import numpy as np
import pytest

from lipdp import layers, losses, projections
from lipdp.bounds import lipschitz_constant
from lipdp.errors import InvalidState
from lipdp.layers.base import LipschitzLayer
from lipdp.setting import Setting

SIGNAL, IMAGE, VOLUME = (8, 4), (8, 8, 4), (4, 4, 4, 4)
MAKERS = {
    "ActivationClip": (lambda: layers.ActivationClip(1.5), SIGNAL),
    "BoundedBias": (lambda: layers.BoundedBias(0.5), SIGNAL),
    "BoundedEmbedding": (lambda: layers.BoundedEmbedding(9, 4), (8,)),
    "BoundedScale": (lambda: layers.BoundedScale(2.0), SIGNAL),
    "Centering": (layers.Centering, SIGNAL),
    "CotangentClip": (lambda: layers.CotangentClip(0.5), SIGNAL),
    "DepthToSpace": (layers.DepthToSpace, IMAGE),
    "FrobeniusDense": (lambda: layers.FrobeniusDense(5), SIGNAL),
    "GroupSort": (layers.GroupSort, SIGNAL),
    "HouseholderActivation": (layers.HouseholderActivation, SIGNAL),
    "L2NormPooling1D": (layers.L2NormPooling1D, SIGNAL),
    "L2NormPooling2D": (layers.L2NormPooling2D, IMAGE),
    "L2NormPooling3D": (layers.L2NormPooling3D, VOLUME),
    "ScaledAveragePooling1D": (layers.ScaledAveragePooling1D, SIGNAL),
    "ScaledAveragePooling2D": (layers.ScaledAveragePooling2D, IMAGE),
    "ScaledAveragePooling3D": (layers.ScaledAveragePooling3D, VOLUME),
    "Scattering2D": (lambda: layers.Scattering2D(1, 2), IMAGE),
    "SpaceToDepth": (layers.SpaceToDepth, IMAGE),
    "SpectralConv1D": (lambda: layers.SpectralConv1D(4, 3), SIGNAL),
    "SpectralConv1DTranspose": (lambda: layers.SpectralConv1DTranspose(4, 3), SIGNAL),
    "SpectralConv2D": (lambda: layers.SpectralConv2D(4, 3), IMAGE),
    "SpectralConv2DTranspose": (lambda: layers.SpectralConv2DTranspose(4, 3), IMAGE),
    "SpectralConv3D": (lambda: layers.SpectralConv3D(4, 3), VOLUME),
    "SpectralConv3DTranspose": (lambda: layers.SpectralConv3DTranspose(4, 3), VOLUME),
    "SpectralDense": (lambda: layers.SpectralDense(5), SIGNAL),
    "SpectralDepthwiseConv2D": (lambda: layers.SpectralDepthwiseConv2D(3), IMAGE),
    "SphereNormalization": (lambda: layers.SphereNormalization(2.0, 0.5), SIGNAL),
}
#: They follow a threshold, keep what is public, or have no bound at all.
OTHERS = {"AdaptiveCotangentClip", "BoundedInput", "FrozenFeatures"}


def with_arguments():
    """Concrete layers whose constructor has arguments of its own."""
    for name in layers.__all__:
        kind = getattr(layers, name)
        if issubclass(kind, LipschitzLayer) and not inspect.isabstract(kind):
            names = set(inspect.signature(kind).parameters) - {"kwargs", "args"}
            if names:
                yield name


def test_every_layer_with_arguments_is_here():
    assert set(with_arguments()) == set(MAKERS) | OTHERS


@pytest.mark.parametrize("name", MAKERS)
def test_an_argument_cannot_change(name):
    make, shape = MAKERS[name]
    layer = make()
    arguments = [a for a in inspect.signature(type(layer)).parameters if hasattr(layer, a)]
    fixed = [a for a in arguments if a != "kernel_initializer"]
    assert fixed or hasattr(layer, "constraint")
    for built in (False, True):
        if built:
            layer.build((None, *shape))
        for argument in (*fixed, *(["constraint"] if hasattr(layer, "constraint") else [])):
            if not built and argument not in vars(layer):
                continue  # a default, of which the bounds know nothing yet
            before = getattr(layer, argument)
            with pytest.raises(InvalidState, match=rf"{argument} of the layer .* cannot change"):
                setattr(layer, argument, 7)
            assert getattr(layer, argument) is before


def test_a_ball_of_a_record_does_not_become_one_of_each_position():
    ball = layers.BoundedInput((3, 4), radius=1.0)
    ball.build((None, 3, 4))
    with pytest.raises(InvalidState, match="per_position"):
        ball.per_position = True
    with pytest.raises(InvalidState, match="radius"):
        ball.radius = 2.0
    assert np.linalg.norm(ball(np.ones((1, 3, 4), "float32"))) <= 1.0 + 1e-6


def test_strides_of_a_built_convolution():
    """With a stride of 1 the kernel of all ones has norm 2.33 on this image."""
    model = keras.Sequential(
        [layers.BoundedInput((9, 9, 1), 9.0), layers.SpectralConv2D(1, 3, 3, padding="valid")]
    )
    convolution, image = model.layers[1], np.ones((1, 9, 9, 1), "float32")
    convolution.kernel.assign(np.full((3, 3, 1, 1), 0.333))
    with pytest.raises(InvalidState):
        convolution.strides = (1, 1)
    grown = np.linalg.norm(convolution(image)) / np.linalg.norm(image)
    assert grown <= lipschitz_constant(model) * (1.0 + 1e-6)


def test_a_setting_without_a_default_is_missing_until_it_is_set():
    class Owner:
        built = False
        name = "owner"
        size = Setting[int]()
        flag = Setting[bool](False)

    owner = Owner()
    assert not hasattr(owner, "size")
    assert not hasattr(Owner, "flag")
    assert owner.flag is False
    owner.size = 3
    assert owner.size == 3
    with pytest.raises(InvalidState, match="size of the object 'owner' cannot change"):
        del owner.size


def test_classes_whose_objects_are_settled_show_what_they_take():
    """Help, configurations and the command line read signatures."""
    assert list(inspect.signature(losses.HKR).parameters) == ["alpha", "margin", "kwargs"]
    assert list(inspect.signature(projections.SpectralProjection).parameters) == ["radius"]
