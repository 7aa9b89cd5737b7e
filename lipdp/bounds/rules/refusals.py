"""What to do about layers of Keras that have no proved bound."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

_OWN = "Use a layer of lipdp.layers, or subclass lipdp.layers.LipschitzLayer"
_FROZEN = (
    "A trained model that is fixed, with its batch normalisation in inference mode, is one layer:"
    " lipdp.layers.FrozenFeatures(backbone), and an ActivationClip behind it"
)
_ATTENTION = (
    "A product of its inputs has no Lipschitz constant: mix positions with"
    " lipdp.layers.SpectralConv1D, or with keras.layers.Permute((2, 1)) in front of"
    " SpectralDense and again behind it, as lipdp.models.MODELS['mixer'] does"
)
_RECURRENT = (
    "Its bound grows with every step of the sequence: use lipdp.layers.SpectralConv1D, with strides"
    " or ScaledGlobalAveragePooling to the end of the sequence"
)
_NORMALIZATION = (
    "Dividing by a norm that may be 0 has no Lipschitz constant: use"
    " lipdp.layers.SphereNormalization, which keeps a distance from 0, or CenterNorm"
)
_BEFOREHAND = (
    "It prepares rows and trains nothing: apply it to the rows before fit(), x = layer(x), if what"
    " it knows (vocabulary, edges, mean) is public"
)
_IDS = f"{_BEFOREHAND}; whole numbers then go into lipdp.layers.BoundedEmbedding"
_CODE = "What its code computes is not known: " + _OWN[:1].lower() + _OWN[1:]
_POOLING = (
    "Windows of different sizes have no bound here: use keras.layers.AveragePooling2D,"
    " MaxPooling2D or lipdp.layers.ScaledAveragePooling2D (or the one for as many axes)"
)
_COLOURS = (
    "It has no proved bound: use keras.layers.RandomBrightness, RandomContrast, RandomFlip,"
    " RandomRotation or RandomErasing, or change the images before fit()"
)
_WHOLE_BATCH = "Its equalization takes one histogram of the whole batch"


def _for_all(names: Iterable[str], cure: str) -> dict[str, str]:
    return dict.fromkeys(names, cure)


_CURES: Mapping[str, str] = MappingProxyType(
    {
        "BatchNormalization": "It mixes the samples of a batch: remove it, or normalise each "
        "sample with lipdp.layers.SphereNormalization. " + _FROZEN,
        "LayerNormalization": "Use lipdp.layers.CenterNorm or SphereNormalization",
        **_for_all(("GroupNormalization", "RMSNormalization", "UnitNormalization"), _NORMALIZATION),
        "Normalization": "Its mean and variance tell about the rows that adapt() saw. If these are"
        " public, use keras.layers.Rescaling(1 / deviation, -mean / deviation); else"
        " lipdp.statistics.PrivateStandardization measures them privately",
        "SpectralNormalization": "Its estimate of the norm proves nothing: use"
        " lipdp.layers.SpectralDense or SpectralConv2D, whose kernel stays where its norm is at"
        " most 1",
        "TimeDistributed": "Call the layer inside it directly: dense layers, activations and"
        " per_position=True work at each position by themselves; for others move the positions with"
        " keras.layers.Reshape",
        **_for_all(("Bidirectional", "GRU", "LSTM", "RNN", "SimpleRNN"), _RECURRENT),
        **_for_all(("GRUCell", "LSTMCell", "SimpleRNNCell", "StackedRNNCells"), _RECURRENT),
        **_for_all(("ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D"), _RECURRENT),
        **_for_all(("AdditiveAttention", "Attention"), _ATTENTION),
        **_for_all(
            ("GroupQueryAttention", "GroupedQueryAttention", "MultiHeadAttention"), _ATTENTION
        ),
        "Dot": "A product of two inputs has no Lipschitz constant: use keras.layers.Concatenate and"
        " lipdp.layers.SpectralDense",
        **_for_all(
            ("Maximum", "Minimum"),
            "Use keras.layers.Average, Add or Concatenate, or"
            " lipdp.layers.MaxMin behind a Concatenate",
        ),
        "EinsumDense": "Use lipdp.layers.SpectralDense, which acts on the last axis, with"
        " keras.layers.Permute or Reshape around it",
        "Embedding": "Use lipdp.layers.BoundedEmbedding, which takes ids out of range too",
        "ReversibleEmbedding": "Use lipdp.layers.BoundedEmbedding, and lipdp.layers.SpectralDense"
        " for the way back",
        "Masking": "Write zeros into the rows' masked steps, and leave the mask out;"
        " lipdp.losses.PositionwiseLoss leaves out positions of the label -1",
        "ActivityRegularization": "It adds a loss without a bound: remove it; a penalty on weights"
        " is the optimizer's weight_decay",
        **_for_all(("Lambda", "Layer", "Wrapper", "Pipeline"), _CODE),
        **_for_all(
            ("FlaxLayer", "JaxLayer", "TFSMLayer", "TorchModuleWrapper"),
            _CODE + "; a trained model that is fixed goes into lipdp.layers.FrozenFeatures",
        ),
        **_for_all(
            (f"Adaptive{kind}Pooling{axes}D" for kind in ("Average", "Max") for axes in (1, 2, 3)),
            _POOLING,
        ),
        **_for_all(
            ("GaussianNoise", "GaussianDropout"), "Its noise has no bound: use keras.layers.Dropout"
        ),
        "AlphaDropout": "Use keras.layers.Dropout",
        **_for_all(("HashedCrossing", "Hashing", "IntegerLookup", "StringLookup"), _IDS),
        **_for_all(("Discretization", "TextVectorization"), _IDS),
        **_for_all(("CategoryEncoding", "MaxNumBoundingBoxes", "MelSpectrogram"), _BEFOREHAND),
        "STFTSpectrogram": _BEFOREHAND,
        **_for_all(
            ("CenterCrop", "Resizing"),
            _BEFOREHAND + "; keras.layers.Cropping2D and AveragePooling2D have bounds",
        ),
        "MixUp": "One record would enter several gradients: use keras.layers.RandomFlip or another "
        "layer that changes each record on its own",
        "CutMix": "One record would enter several gradients: use keras.layers.RandomErasing",
        "Equalization": "It takes one histogram of the whole batch: equalize the data beforehand",
        **_for_all(
            ("AugMix", "RandAugment"),
            _WHOLE_BATCH + ": use keras.layers.RandomFlip, RandomRotation, RandomContrast, ...",
        ),
        "RandomCrop": "It does not crop in inference: use keras.layers.RandomTranslation",
        **_for_all(("AutoContrast", "ContrastLimitedAdaptiveHistogramEqualization"), _BEFOREHAND),
        **_for_all(("RandomColorDegeneration", "RandomColorJitter", "RandomGrayscale"), _COLOURS),
        **_for_all(("RandomHue", "RandomInvert", "RandomPosterization"), _COLOURS),
        **_for_all(("RandomSaturation", "RandomSharpness", "Solarization"), _COLOURS),
        **_for_all(("RandomElasticTransform", "RandomGaussianBlur"), _COLOURS),
        "RandomPerspective": _COLOURS,
    }
)


def way_out(layer: Any) -> str:
    """What to do in place of a layer without a proved bound.

    Args:
        layer: A layer or operation.
    """
    name = type(layer).__name__
    if name == "BatchNormalization" and not layer.trainable:
        return _FROZEN
    return _CURES.get(name, _OWN) if type(layer).__module__.startswith("keras.") else _OWN


def is_refused(layer: Any) -> bool:
    """Whether a layer of Keras is known to have no bound."""
    return type(layer).__module__.startswith("keras.") and type(layer).__name__ in _CURES
