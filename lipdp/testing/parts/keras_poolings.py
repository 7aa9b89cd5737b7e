"""Plain poolings of Keras, and layers that copy or drop entries."""

from __future__ import annotations

from functools import partial

from keras import layers as kl

from lipdp.testing.parts._part import LayerPart

_LINE, _IMAGE, _VOLUME = (6, 2), (4, 4, 1), (2, 2, 2, 1)

KERAS_POOLINGS = (
    LayerPart("MaxPooling1D", kl.MaxPooling1D, _LINE, 1.0),
    LayerPart("MaxPooling2D", kl.MaxPooling2D, _IMAGE, 1.0),
    LayerPart(
        "MaxPooling2D of overlapping windows",
        partial(kl.MaxPooling2D, 3, strides=1, padding="same"),
        (3, 3, 1),
        1.0,
    ),
    LayerPart("MaxPooling3D", kl.MaxPooling3D, _VOLUME, 1.0),
    LayerPart("AveragePooling1D", partial(kl.AveragePooling1D, 2), _LINE, 1.0),
    LayerPart("AveragePooling2D", partial(kl.AveragePooling2D, 2), _IMAGE, 1.0),
    LayerPart(
        "AveragePooling2D of overlapping windows",
        partial(kl.AveragePooling2D, 3, strides=1, padding="same"),
        (4, 3, 1),
        1.0,
    ),
    LayerPart("AveragePooling3D", partial(kl.AveragePooling3D, 2), _VOLUME, 1.0),
    LayerPart("GlobalAveragePooling1D", kl.GlobalAveragePooling1D, _LINE, 1.0),
    LayerPart("GlobalAveragePooling2D", kl.GlobalAveragePooling2D, (3, 2, 2), 1.0),
    LayerPart("GlobalAveragePooling3D", kl.GlobalAveragePooling3D, _VOLUME, 1.0),
    LayerPart("GlobalMaxPooling1D", kl.GlobalMaxPooling1D, _LINE, 1.0),
    LayerPart("GlobalMaxPooling2D", kl.GlobalMaxPooling2D, (3, 2, 2), 1.0),
    LayerPart("GlobalMaxPooling3D", kl.GlobalMaxPooling3D, _VOLUME, 1.0),
    LayerPart("ZeroPadding1D", kl.ZeroPadding1D, _LINE, 1.0),
    LayerPart("ZeroPadding2D", partial(kl.ZeroPadding2D, ((1, 0), (0, 2))), (2, 2, 2), 1.0),
    LayerPart("ZeroPadding3D", kl.ZeroPadding3D, (1, 2, 1, 1), 1.0),
    LayerPart("Cropping1D", kl.Cropping1D, _LINE, 1.0),
    LayerPart("Cropping2D", partial(kl.Cropping2D, ((1, 0), (0, 2))), _IMAGE, 1.0),
    LayerPart("Cropping3D", kl.Cropping3D, (3, 3, 4, 1), 1.0),
    LayerPart("RepeatVector", partial(kl.RepeatVector, 3), (3,), 1.0),
    LayerPart("UpSampling1D", kl.UpSampling1D, (3, 2), 1.0),
    LayerPart("UpSampling2D", partial(kl.UpSampling2D, (2, 3)), (2, 2, 1), 1.0),
    LayerPart("UpSampling3D", kl.UpSampling3D, (2, 1, 1, 1), 1.0),
)
