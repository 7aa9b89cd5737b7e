"""Convolutions against dense matrices, on any backend; run by test_convolution.py."""

import sys

import keras
import numpy as np
from keras import ops

from lipdp import layers as ls
from lipdp.bounds.precision import working_unit
from lipdp.bounds.rules import bounds_of
from lipdp.bounds.rules.base import Shapes
from lipdp.layers.windows import Windows
from lipdp.testing.check_layer import LayerProbe

DTYPE = "float32" if keras.backend.backend() == "jax" else "float64"


def dense(windows, kernel, groups=1):
    """Matrix of a convolution, (output entries, input entries), tap by tap."""
    reads = [axis.readings(axis.total_padding // 2) for axis in windows]
    if any(axis.padding == "causal" for axis in windows):
        reads = [axis.readings(axis.total_padding) for axis in windows]
    counts, sizes = [axis.count for axis in windows], [axis.size for axis in windows]
    taps, inner, outer = kernel.shape[:-2], kernel.shape[-2], kernel.shape[-1] // groups
    matrix = np.zeros((*counts, groups, outer, *sizes, groups, inner))
    for place in np.ndindex(*counts):
        for tap in np.ndindex(*taps):
            read = tuple(int(r[o, t]) for r, o, t in zip(reads, place, tap, strict=True))
            if min(read) < 0:
                continue
            for group in range(groups):
                block = kernel[tap][:, group * outer : (group + 1) * outer]
                matrix[(*place, group, slice(None), *read, group)] += block.T
    return matrix.reshape(int(np.prod(counts)) * groups * outer, -1)


def axes(sizes, window, strides=1, dilation=1, padding="same"):
    """Windows of all axes, each number one for all or one for each."""
    numbers = [np.broadcast_to(v, len(sizes)).tolist() for v in (window, strides, dilation)]
    return [Windows(n, k, s, d, padding) for n, k, s, d in zip(sizes, *numbers, strict=True)]


def depthwise(windows):
    """A kernel (*k, C, M) as C groups of one channel."""

    def matrix(kernel):
        return dense(windows, kernel.reshape(*kernel.shape[:-2], 1, -1), kernel.shape[-2])

    return matrix


def check(layer, shape, matrix, scale=1.0):
    """Outputs, input gradients and kernel gradients of a layer without bias, and its bounds."""
    rng, size = np.random.default_rng(0), int(np.prod(shape))
    layer.build((None, *shape))
    kernel = layer.kernel
    kernel.assign(rng.normal(size=kernel.shape))
    values, tolerance = ops.convert_to_numpy(kernel).astype("float64"), 1e-4
    if DTYPE == "float64":
        assert working_unit(layer) == 2.0**-53
        tolerance = 1e-12
    expected = scale * matrix(values)
    probe = LayerProbe(layer, shape, rows=size)
    batch = np.eye(size).reshape(size, *shape)
    found = probe.forward(batch)
    assert found.dtype == DTYPE
    assert found.shape == tuple(layer.compute_output_shape((size, *shape)))
    np.testing.assert_allclose(found.reshape(size, -1).T, expected, atol=tolerance)
    u = rng.normal(size=(size, len(expected)))
    to_x, (to_kernel,) = probe.pullback(batch, u)
    np.testing.assert_allclose(to_x.reshape(size, -1), u @ expected, atol=10 * tolerance)
    units = np.eye(values.size).reshape(-1, *values.shape)
    slopes = [scale * np.vdot(u.T, matrix(unit)) for unit in units]
    np.testing.assert_allclose(to_kernel.ravel(), slopes, atol=10 * tolerance)
    check_bounds(layer, shape, found, expected)


def check_bounds(layer, shape, found, expected):
    """The norm now and, frozen, the norm in training."""
    layer.trainable = False
    rule = bounds_of(layer, Shapes((shape,), tuple(found.shape[1:])))
    norm = np.linalg.norm(expected, 2)
    assert norm <= rule.lipschitz(1.0)
    assert norm <= rule.backward_bound(1.0, 1.0)
    # Generous: a bound far above the truth would betray a geometry that is not the layer's.
    assert rule.lipschitz(1.0) <= 2.0 * norm


def check_own():
    """Convolutions of this package."""
    cases = [
        (ls.SpectralConv1D(2, 3, 2), (5, 2), {"strides": 2}),
        (ls.SpectralConv1D(2, 2, 2, "causal"), (4, 2), {"strides": 2, "padding": "causal"}),
        (ls.SpectralConv1D(1, 3, padding="circular"), (2, 1), {"padding": "circular"}),
        (ls.SpectralConv1D(2, 4, 3, "circular"), (7, 1), {"strides": 3, "padding": "circular"}),
        (ls.SpectralConv2D(2, (3, 2), (2, 1)), (5, 4, 2), {"strides": (2, 1)}),
        (ls.SpectralConv2D(2, 2, dilation_rate=(2, 1)), (4, 3, 1), {"dilation": (2, 1)}),
        (ls.SpectralConv2D(4, 2, groups=2), (3, 3, 2), {"groups": 2}),
        (ls.SpectralConv2D(2, 2, padding="valid"), (3, 4, 2), {"padding": "valid"}),
        (ls.SpectralConv1D(2, 2, 4), (7, 2), {"strides": 4}),
        (ls.SpectralConv1D(2, 5, 2), (3, 2), {"strides": 2}),
        (ls.SpectralConv1D(2, 3, 2, "valid"), (8, 2), {"strides": 2, "padding": "valid"}),
        (ls.SpectralConv1D(2, 3, 2, "circular"), (6, 2), {"strides": 2, "padding": "circular"}),
        (ls.SpectralConv2D(4, 3, 2, groups=2), (5, 4, 2), {"strides": 2, "groups": 2}),
        (ls.SpectralConv3D(2, 2, (1, 2, 1)), (2, 3, 2, 1), {"strides": (1, 2, 1)}),
        (ls.SpectralConv3D(1, 2, padding="circular"), (2, 3, 2, 1), {"padding": "circular"}),
    ]
    if keras.backend.backend() != "tensorflow":  # It has no strides together with dilation.
        both = {"strides": 2, "dilation": 3}
        cases.append((ls.SpectralConv1D(2, 3, 2, dilation_rate=3), (7, 2), both))
        layer = ls.SpectralDepthwiseConv2D((2, 3), 2, (1, 2), dtype=DTYPE)
        check(layer, (3, 5, 2), depthwise(axes((3, 5), (2, 3), (1, 2))), 0.5)
    for given, shape, options in cases:
        layer = type(given).from_config({**given.get_config(), "dtype": DTYPE})
        groups = options.pop("groups", 1)
        windows = axes(shape[:-1], layer.kernel_size, **options)
        scale = np.prod([axis.coverage for axis in windows]) ** -0.5
        check(layer, shape, lambda k, w=windows, g=groups: dense(w, k, g), scale)
    layer = ls.SpectralDepthwiseConv2D(2, 2, 2, dtype=DTYPE)
    check(layer, (3, 4, 2), depthwise(axes((3, 4), 2, 2)))


def transposes(make):
    """(layer, input shape, windows over its output)."""
    yield make(1, 2, 3, strides=2, padding="same"), (3, 2), axes((6,), 3, 2)
    yield make(1, 1, 2, strides=3, padding="valid"), (2, 2), axes((6,), 2, 3, 1, "valid")
    yield make(1, 1, 4, strides=3, padding="same"), (2, 1), axes((6,), 4, 3)
    yield make(1, 1, 5, strides=2, padding="same"), (3, 1), axes((6,), 5, 2)
    yield (
        make(2, 2, (3, 2), strides=(2, 1), padding="valid"),
        (2, 3, 2),
        axes((5, 4), (3, 2), (2, 1), 1, "valid"),
    )
    yield (
        make(2, 2, (4, 3), strides=(1, 2), padding="same"),
        (3, 2, 2),
        axes((3, 4), (4, 3), (1, 2)),
    )
    yield (
        make(3, 1, 2, strides=(1, 2, 1), padding="same"),
        (2, 2, 2, 1),
        axes((2, 4, 2), 2, (1, 2, 1)),
    )


def check_own_transposes():
    """The transpose of the convolution over the output."""

    def make(rank, *args, **kwargs):
        return getattr(ls, f"SpectralConv{rank}DTranspose")(*args, **kwargs, dtype=DTYPE)

    for layer, shape, windows in transposes(make):
        scale = np.prod([axis.coverage for axis in windows]) ** -0.5
        check(layer, shape, lambda k, w=windows: dense(w, k).T, scale)


def check_keras_transposes():
    """Layers of Keras."""

    def make(rank, *args, **kwargs):
        kind = getattr(keras.layers, f"Conv{rank}DTranspose")
        return kind(*args, **kwargs, use_bias=False, dtype=DTYPE)

    for layer, shape, windows in transposes(make):
        check(layer, shape, lambda k, w=windows: dense(w, k).T)
    layer = keras.layers.Conv1DTranspose(1, 2, dilation_rate=2, use_bias=False, dtype=DTYPE)
    if keras.backend.backend() != "tensorflow":
        check(layer, (3, 1), lambda k: dense(axes((5,), 2, 1, 2, "valid"), k).T)


def check_keras():
    """Layers of Keras."""
    kl, plain = keras.layers, {"use_bias": False, "dtype": DTYPE}
    same = {"padding": "same", **plain}
    cases = [
        (kl.Conv1D(2, 2, padding="causal", dilation_rate=2, **plain), (4, 2), "causal"),
        (kl.Conv2D(2, (3, 2), strides=2, **same), (5, 4, 2), "same"),
        (kl.Conv1D(2, 5, strides=3, **same), (4, 2), "same"),
        (kl.Conv2D(2, 3, dilation_rate=2, **same), (3, 3, 1), "same"),
        (kl.Conv2D(4, 2, groups=2, **plain), (3, 3, 2), "valid"),
        (kl.Conv3D(1, 2, strides=(1, 1, 2), **same), (2, 2, 3, 1), "same"),
    ]
    for layer, shape, padding in cases:
        options = (layer.kernel_size, layer.strides, layer.dilation_rate, padding)
        windows = axes(shape[:-1], *options)
        check(layer, shape, lambda k, w=windows, g=layer.groups: dense(w, k, g))
    layer = kl.DepthwiseConv1D(3, depth_multiplier=2, strides=2, **same)
    check(layer, (4, 2), depthwise(axes((4,), 3, 2)))
    layer = kl.DepthwiseConv2D(2, dilation_rate=2, **plain)
    check(layer, (3, 4, 2), depthwise(axes((3, 4), 2, 1, 2, "valid")))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        globals()[name]()
