"""How convolutions are written with plain Keras layers: the kernel over the root of kappa."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from lipdp import layers as ls
from lipdp.conversion.rules import plain


@plain.register(ls.SpectralConv1D)
@plain.register(ls.SpectralConv2D)
@plain.register(ls.SpectralConv3D)
def _convolution(layer: Any) -> Callable[..., Any]:
    kinds = (keras.layers.Conv1D, keras.layers.Conv2D, keras.layers.Conv3D)
    circular = layer.padding == "circular"
    made = kinds[layer.rank - 1](
        layer.filters,
        layer.kernel_size,
        dilation_rate=layer.dilation_rate,
        groups=layer.groups,
        **{**_common(layer), "padding": "valid" if circular else layer.padding},
    )
    _fill(made, layer, layer.kernel.shape[-2] * layer.groups)
    return (lambda inputs: made(layer.padded(inputs)[0])) if circular else made


@plain.register(ls.SpectralConv1DTranspose)
@plain.register(ls.SpectralConv2DTranspose)
@plain.register(ls.SpectralConv3DTranspose)
def _transposed(layer: Any) -> Callable[..., Any]:
    names = ("Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose")
    kind = getattr(keras.layers, names[layer.rank - 1])
    made = kind(layer.filters, layer.kernel_size, **_common(layer))
    return _fill(made, layer, layer.kernel.shape[-1])


@plain.register
def _depthwise(layer: ls.SpectralDepthwiseConv2D) -> Callable[..., Any]:
    made = keras.layers.DepthwiseConv2D(
        layer.kernel_size, depth_multiplier=layer.depth_multiplier, **_common(layer)
    )
    return _fill(made, layer, layer.kernel.shape[-2])


def _common(layer: Any) -> dict[str, Any]:
    return {
        "strides": layer.strides,
        "padding": layer.padding,
        "data_format": "channels_last",
        "use_bias": False,
        "name": layer.name,
        "dtype": layer.dtype_policy,
    }


def _fill(made: Any, layer: Any, channels: int) -> Any:
    made.build((None, *(None,) * layer.rank, channels))
    made.set_weights([ops.convert_to_numpy(layer.scaled_kernel())])
    return made
