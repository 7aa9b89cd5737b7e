"""Random graphs over all layers: no bound may be exceeded."""

import itertools
import math

import keras
import numpy as np
import pytest

from lipdp import layers as ls
from lipdp import losses
from lipdp.bounds import gradient_bounds
from lipdp.errors import UnboundedGradient
from lipdp.layers.activations import AbsoluteValue
from lipdp.layers.affine import BoundedScale
from lipdp.layers.normalization import Centering, CenterNorm
from lipdp.projections import FrobeniusProjection, L2Ball, SpectralProjection
from lipdp.testing import check_model

K = keras.layers
MOST_CALLS = 8
MOST_ENTRIES = 200

# Each block maps a tensor to a tensor, or to None where it does not fit. ``g`` grows the graph.


def plain(make, fits=lambda shape: True):
    """A block of one layer."""
    return lambda g, t: g.call(make(g, t.shape), t) if fits(t.shape) else None


def image(shape, least=2):
    return len(shape) == 4 and min(shape[1:3]) >= least


def even(shape):
    return shape[-1] % 2 == 0


def line(shape):
    return len(shape) == 3 and shape[1] >= 3


OWN = {
    "spectral dense": plain(lambda g, s: ls.SpectralDense(g.pick(2, 3, 4))),
    "Frobenius dense": plain(lambda g, s: ls.FrobeniusDense(g.pick(2, 4), radius=g.pick(0.5, 2.0))),
    "bias": plain(lambda g, s: ls.BoundedBias(g.pick(0.1, 1.0))),
    "scale": plain(lambda g, s: BoundedScale(g.pick(0.5, 2.0))),
    "centering": plain(lambda g, s: g.pick(Centering, CenterNorm)(), lambda s: s[-1] > 1),
    "sort": plain(lambda g, s: g.pick(ls.GroupSort, ls.MaxMin, ls.HouseholderActivation)(), even),
    "full sort": plain(lambda g, s: g.pick(ls.FullSort, AbsoluteValue)()),
    "activation clip": plain(lambda g, s: ls.ActivationClip(g.pick(0.5, 2.0))),
    "cotangent clip": plain(lambda g, s: ls.CotangentClip(g.pick(0.05, 1.0))),
    "sphere": plain(lambda g, s: ls.SphereNormalization(g.pick(0.5, 2.0), g.pick(0.1, 1.0))),
    "convolution": plain(
        lambda g, s: ls.SpectralConv2D(
            g.pick(1, 2), g.pick(2, 3), g.pick(1, 2), g.pick("same", "valid", "circular")
        ),
        lambda s: image(s, 3),
    ),
    "depthwise": plain(lambda g, s: ls.SpectralDepthwiseConv2D(2), image),
    "transposed": plain(lambda g, s: ls.SpectralConv2DTranspose(1, 2, g.pick(1, 2)), image),
    "convolution of a line": plain(lambda g, s: ls.SpectralConv1D(g.pick(2, 3), 2), line),
    "pooling": plain(
        lambda g, s: g.pick(ls.L2NormPooling2D, ls.ScaledAveragePooling2D)(
            2, g.pick(1, 2), g.pick("same", "valid")
        ),
        image,
    ),
    "global pooling": plain(
        lambda g, s: g.pick(ls.GlobalL2NormPooling, ls.ScaledGlobalAveragePooling)(),
        lambda s: image(s) or line(s),
    ),
    "space to depth": plain(
        lambda g, s: ls.SpaceToDepth(2), lambda s: image(s) and not (s[1] % 2 or s[2] % 2)
    ),
}


def ball(g):
    return g.pick(SpectralProjection(0.8), FrobeniusProjection(0.7))


PLAIN = {
    "dense": plain(
        lambda g, s: K.Dense(
            g.pick(2, 3),
            g.pick(None, "relu", "tanh"),
            kernel_constraint=ball(g),
            bias_constraint=L2Ball(0.3),
        )
    ),
    "plain convolution": plain(
        lambda g, s: K.Conv2D(
            g.pick(1, 2),
            2,
            padding=g.pick("same", "valid"),
            kernel_constraint=ball(g),
            bias_constraint=L2Ball(0.2),
        ),
        image,
    ),
    "plain pooling": plain(
        lambda g, s: g.pick(K.MaxPooling2D, K.AveragePooling2D)(2, g.pick(1, 2)), image
    ),
    "pooling of a line": plain(lambda g, s: g.pick(K.MaxPooling1D, K.AveragePooling1D)(2), line),
    "padding": plain(lambda g, s: g.pick(K.ZeroPadding2D, K.UpSampling2D)(), image),
    "relu": plain(lambda g, s: K.ReLU(negative_slope=g.pick(0.0, 0.3))),
    "curve": plain(lambda g, s: K.Activation(g.pick("tanh", "sigmoid", "gelu", "softmax"))),
    "dropout": plain(lambda g, s: K.Dropout(0.25)),
    "flatten": plain(lambda g, s: g.pick(K.Flatten, K.Identity)()),
    "permute": plain(lambda g, s: K.Permute((2, 1)), lambda s: len(s) == 3),
}


def residual(g, t):
    branch = g.grow(t, 2)
    return g.call(g.pick(K.Add, K.Average, K.Subtract)(), g.fitted(branch, t), t)


def concatenation(g, t):
    branch = g.fitted(g.grow(t, 2), t)
    return g.call(K.Concatenate(), *g.pick((t, branch), (branch, t, branch), (t, t)))


def gate(g, t):
    a, b = (g.call(ls.ActivationClip(g.pick(0.5, 1.5)), s) for s in (t, g.grow(t, 1)))
    return g.call(K.Multiply(), a, g.fitted(b, a))


def shared(g, t):
    layer = ls.SpectralDense(t.shape[-1])
    return g.call(layer, g.call(g.pick(ls.FullSort, ls.SpectralDense, K.ReLU), g.call(layer, t)))


def frozen(g, t):
    layer = ls.SpectralDense(g.pick(2, 4))
    made = g.call(layer, t)
    layer.trainable = False
    return made


def half_frozen(g, t):
    layer = K.Dense(g.pick(2, 3))
    made = g.call(layer, t)
    layer.kernel.trainable = False
    return g.call(ls.CotangentClip(1.0), g.call(ls.ActivationClip(1.0), made))


def free(g, t):
    """Weights without any constraint between a normalisation and a clip."""
    units, activation = g.pick(2, 3), g.pick(None, "relu")
    made = g.call(K.Dense(units, activation), g.call(ls.SphereNormalization(1.5, 0.5), t))
    return g.call(ls.ActivationClip(1.0), g.call(ls.CotangentClip(g.pick(0.1, 2.0)), made))


def unbounded(g, t):
    """Weights whose effect on other layers has no bound."""
    return g.call(K.Dense(g.pick(2, 3)), t)


def nested(g, t):
    inputs = keras.Input(t.shape[1:])
    model = keras.Model(inputs, g.grow(inputs, 2))
    made = model(t)
    twice = made.shape == t.shape and g.rng.random() < 0.5
    return model(made) if twice else made


SHAPES = {
    "residual": residual,
    "concatenation": concatenation,
    "gate": gate,
    "shared": shared,
    "frozen": frozen,
    "half frozen": half_frozen,
    "free": free,
    "unbounded": unbounded,
    "nested": nested,
}
BLOCKS = {**OWN, **PLAIN, **SHAPES}


class Grammar:
    """Grows a graph of at most eight calls, and a loss."""

    def __init__(self, seed):
        keras.utils.set_random_seed(seed)
        self.rng = np.random.default_rng(seed)
        self.calls = 0
        self.used = set()

    def pick(self, *options):
        return options[self.rng.integers(len(options))]

    def call(self, layer, *tensors):
        if isinstance(layer, type):
            layer = layer(tensors[0].shape[-1]) if layer is ls.SpectralDense else layer()
        self.calls += 1
        return layer(tensors[0] if len(tensors) == 1 else list(tensors))

    def grow(self, tensor, count):
        for _ in range(count):
            if self.calls >= MOST_CALLS:
                break
            # What makes several calls is left out near the end.
            names = list(BLOCKS) if self.calls + 4 <= MOST_CALLS else [*OWN, *PLAIN]
            name = names[self.rng.integers(len(names))]
            grown = BLOCKS[name](self, tensor)
            if grown is not None and math.prod(grown.shape[1:]) <= MOST_ENTRIES:
                self.used.add(name)
                tensor = grown
        return tensor

    def fitted(self, tensor, like):
        """A tensor of the shape of another one."""
        if tensor.shape == like.shape:
            return tensor
        flat = K.Dense(
            math.prod(like.shape[1:]), kernel_constraint=SpectralProjection(), use_bias=False
        )(K.Flatten()(tensor))
        return K.Reshape(like.shape[1:])(flat)

    def input(self, shape):
        inputs = keras.Input(shape)
        return inputs, ls.BoundedInput(shape, radius=self.pick(0.5, 1.0, 3.0))(inputs)

    def model(self):
        shape = self.pick((5,), (4,), (3, 4), (4, 4, 2), (5, 4, 1))
        inputs, tensor = self.input(shape)
        if self.rng.random() < 0.15:
            other, more = self.input(shape)
            inputs, tensor = [inputs, other], self.call(K.Concatenate(), tensor, more)
        elif self.rng.random() < 0.1:
            inputs = keras.Input((3,), dtype="int32")
            tensor = self.call(ls.BoundedEmbedding(5, 2), inputs)
        tensor = self.grow(tensor, 6)
        if len(tensor.shape) > 2:
            tensor = K.Flatten()(tensor)
        loss, outputs = self.loss()
        head = self.pick(*[ls.SpectralDense, ls.FrobeniusDense] * 3, K.Dense)
        return keras.Model(inputs, head(outputs)(tensor)), loss

    def loss(self):
        inner, outputs = self.pick(
            (losses.TemperedCrossentropy(self.pick(1.0, 30.0)), 3),
            (losses.TemperedBinaryCrossentropy(4.0), 1),
            (losses.MulticlassHinge(self.pick(0.1, 2.0)), 3),
            (losses.BinaryHinge(1.0), 1),
            (losses.KantorovichRubinstein(), 2),
            (losses.HKR(2.0, 0.5), 1),
            (losses.CosineLoss(0.3), 3),
            (losses.MeanAbsoluteError(), 2),
            (losses.MeanSquaredError(target_bound=1.0), 2),
            (losses.Huber(0.5), 2),
            (losses.OneVersusAllHinge(0.5), 3),
            (losses.MultilabelBinaryCrossentropy(2.0), 2),
            (losses.ClassWeighted(losses.MulticlassHinge(0.5), (1.0, 3.0)), 2),
        )
        clipped = self.rng.random() < 0.2
        return (losses.ClippedLoss(inner, max_norm=0.3) if clipped else inner), outputs


def examine(first, wanted):
    """Best ratios of so many graphs with finite bounds, and how many were refused on the way."""
    found, refused, used = [], 0, set()
    for seed in itertools.count(first):
        if len(found) == wanted:
            return found, refused, used
        # Garbage is collected once in a while anyway.
        keras.backend.clear_session(free_memory=False)
        grammar = Grammar(seed)
        model, loss = grammar.model()
        try:
            gradient_bounds(model, loss)
        except UnboundedGradient:
            refused += 1
            continue
        found.append(check_model(model, loss, steps=3, starts=2, seed=seed).best)
        used |= grammar.used


@pytest.mark.slow
def test_a_few_random_graphs():
    found, refused, _ = examine(0, 6)
    assert refused < len(found)
    assert max(found) > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_many_random_graphs(part):
    found, refused, used = examine(1000 * (part + 1), 26)
    assert refused < len(found)
    assert np.median(found) > 0.2
    assert len(used) > 0.6 * len(BLOCKS)
