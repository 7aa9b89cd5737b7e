"""What a conversion changed, in words, and options that a counterpart does not have."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import keras

from lipdp.bounds.rules.linear import check_plain_kernel
from lipdp.bounds.rules.pooling import check_channels_last
from lipdp.bounds.rules.refusals import is_refused, way_out
from lipdp.errors import UnsupportedLayer


@dataclass(frozen=True)
class Change:
    """One layer that a converted model has in another form.

    Attributes:
        layer: Its name in the given model.
        was: What it was.
        now: What stands in its place, in order; empty if nothing does.
        why: The reason, and what it means.
    """

    layer: str
    was: str
    now: tuple[str, ...]
    why: str

    def __str__(self) -> str:
        return f"{self.layer}: {self.was} -> {' + '.join(self.now) or 'nothing'} ({self.why})"


_PRECISE = ("float32", "float64")
_DECAY = " (a penalty on weights is the optimizer's weight_decay)"


def names(layer: Any) -> dict[str, Any]:
    """Name and dtype of what stands for a layer."""
    dtype = layer.compute_dtype if layer.compute_dtype in _PRECISE else "float32"
    return {"name": layer.name, "dtype": dtype}


def reason(layer: Any, *parts: str) -> str | None:
    """Parts of a reason, with what a counterpart or copy leaves out of the layer's options.

    Returns:
        All of them, or None if there is nothing to say.
    """
    return "; ".join([*parts, *_left_out(layer)]) or None


def thawed(layer: Any) -> tuple[str, ...]:
    """What to say of a counterpart that is trained while its layer was not."""
    return () if layer.trainable else ("it was frozen and is trained now",)


def check_plain(layer: Any) -> None:
    """Refuses kernels that are no plain weights, and channels that come first.

    Raises:
        UnsupportedLayer: If the layer has one of them.
    """
    check_plain_kernel(layer)
    check_channels_last(layer)


def check_undilated(layer: Any) -> None:
    """Refuses taps that are apart.

    Raises:
        UnsupportedLayer: If the layer has a dilation rate.
    """
    if any(rate != 1 for rate in layer.dilation_rate):
        _refuse(layer, "dilation_rate", layer.dilation_rate, "Use dilation_rate=1")


def check_unpadded(layer: Any) -> None:
    """Refuses a transposed convolution whose output has a size of its own.

    Raises:
        UnsupportedLayer: If the layer has output padding.
    """
    if layer.output_padding is not None:
        _refuse(layer, "output_padding", layer.output_padding, "Leave output_padding out")


def check_last_axis(layer: Any) -> None:
    """Refuses a normalisation over other axes than the channels.

    Raises:
        UnsupportedLayer: If the layer has another axis than the last one.
    """
    axes = [layer.axis] if isinstance(layer.axis, int) else list(layer.axis)
    shape = (layer.get_build_config() or {}).get("input_shape", ())
    if axes not in ([-1], [len(shape) - 1]):
        fix = "Normalise the last axis (keras.layers.Permute moves another one there)"
        _refuse(layer, "axis", tuple(axes), fix)


def check_call(
    layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, has_rule: bool
) -> None:
    """Refuses what a call says besides its inputs, which a counterpart would not hear.

    Args:
        layer: The layer that is called.
        args: Behind its inputs.
        kwargs: The others.
        has_rule: Whether the layer has a counterpart other than a copy.

    Raises:
        UnsupportedLayer: If there is such an argument.
    """
    given = [*args, *_given(layer, kwargs)]
    if given and is_refused(layer) and not has_rule:
        raise UnsupportedLayer(
            f"The layer {layer.name!r} ({type(layer).__name__}) has no Lipschitz counterpart",
            received=type(layer).__name__,
            fix=way_out(layer),
        )
    if given:
        raise UnsupportedLayer(
            f"No counterpart takes what the call of {layer.name!r} says besides its inputs",
            received=given,
            fix="Use merging layers in place of operators, and make no masks (mask_zero=False)",
        )


def _given(layer: Any, kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
    # Keras lists defaults too; ``training`` of a whole model overrides that of its layers.
    known = inspect.signature(layer.call).parameters
    defaults = {name: parameter.default for name, parameter in known.items()}
    return [
        (name, value)
        for name, value in kwargs.items()
        if name != "training" and value is not None and value is not defaults.get(name)
    ]


def _refuse(layer: Any, option: str, value: Any, fix: str) -> None:
    raise UnsupportedLayer(
        f"The {option} of layer {layer.name!r} ({type(layer).__name__}) has no Lipschitz "
        "counterpart",
        received=value,
        fix=fix,
    )


def _left_out(layer: Any) -> list[str]:
    if not isinstance(layer, keras.layers.Layer):
        return []
    said = []
    config = layer.get_config()
    penalties = [k for k, v in config.items() if k.endswith("_regularizer") and v is not None]
    if penalties:
        said.append(f"left out: {', '.join(penalties)}{_DECAY}")
    if layer.compute_dtype != names(layer)["dtype"]:
        said.append(f"it computes in float32 instead of {layer.compute_dtype}")
    return said
