"""Fixed functions of each sample: a frozen Keras model, and wavelet scattering."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Self, final

import keras
import numpy as np
from keras import ops

from lipdp.errors import InvalidValue, UnsupportedLayer
from lipdp.layers.base import LipschitzLayer, entries, sample_shape
from lipdp.layers.pooling import check_rank, smooth_norm
from lipdp.numerics import count, gamma, times, unit_roundoff
from lipdp.projections.norms import scaled_up, spectral_square
from lipdp.setting import Setting, refuse_change

_ROWS = 4


@final
@keras.saving.register_keras_serializable(package="lipdp")
class FrozenFeatures(LipschitzLayer):
    """The flattened output of a frozen model in inference mode; its output has no bound.

    Put an ``ActivationClip`` behind it. Nothing of it is trained and no gradient passes, so neither
    privacy nor the bounds of what follows need a bound of the model. Certified radii behind it are
    distances of features. The rows that the model was trained on are not protected: it must not
    have seen the private ones.

    A model that is no fixed function of each sample is refused. Samples that mix and outputs that
    change are searched for, by comparing samples among different others, not excluded by a proof.

    Args:
        extractor: A built model with one input and one output, of samples of known shape.

    Raises:
        UnsupportedLayer: If the samples of a batch mix, or an output is not the same twice.
        InvalidValue: If it is no such model.
    """

    linear_backward = True

    def __init__(self, extractor: keras.Model, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        _check_model(extractor)
        self.extractor = extractor
        extractor.trainable = False
        _check_fixed(extractor)

    # No ``Setting``: PyTorch keeps layers that are attributes elsewhere than other attributes.
    def __setattr__(self, name: str, value: Any) -> None:
        if name == "extractor" and hasattr(self, name):
            refuse_change(self, name, value)
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        if name == "extractor":
            refuse_change(self, name, "deletion")
        super().__delattr__(name)

    def build(self, input_shape: Any) -> None:
        """Checks the shape of a sample.

        Raises:
            InvalidValue: If the model takes another one.
        """
        if tuple(input_shape[1:]) != tuple(self.extractor.input_shape[1:]):
            raise InvalidValue(
                f"The extractor takes samples of shape {tuple(self.extractor.input_shape[1:])}",
                received=tuple(input_shape[1:]),
                fix="Reshape the samples, or use another extractor",
            )

    def call(self, inputs: Any) -> Any:
        """(n, ...) to (n, d), without a gradient."""
        x = ops.cast(ops.stop_gradient(inputs), self.extractor.inputs[0].dtype)
        y = self.extractor(x, training=False)
        return ops.stop_gradient(
            ops.reshape(ops.cast(y, self.compute_dtype), (-1, entries(self.extractor.output_shape)))
        )

    def compute_output_shape(self, input_shape: Any) -> tuple[int | None, ...]:
        """One vector a sample."""
        return (input_shape[0], entries(self.extractor.output_shape))

    def forward_bound(self, x: float) -> float:
        """None."""
        return math.inf

    def backward_bound(self, x: float, g: float) -> float:
        """0: no gradient passes."""
        return 0.0

    def parameter_bounds(self, x: float, g: float) -> list[float]:
        """No trained weights."""
        return []

    def lipschitz(self, x: float) -> float:
        """None."""
        return math.inf

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        extractor = keras.saving.serialize_keras_object(self.extractor)
        return {**super().get_config(), "extractor": extractor}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """The layer, with an extractor whose weights are not loaded yet."""
        own = dict(config)
        return cls(keras.saving.deserialize_keras_object(own.pop("extractor")), **own)


def _check_model(extractor: Any) -> None:
    single = (
        isinstance(extractor, keras.Model)
        and extractor.built
        and len(extractor.inputs) == len(extractor.outputs) == 1
    )
    shapes = [*extractor.input_shape[1:], *extractor.output_shape[1:]] if single else [None]
    if None in shapes:
        raise InvalidValue(
            "An extractor must be a built Keras model of one input and one output of known shape",
            received=getattr(extractor, "name", extractor),
            fix="Use a Sequential or Functional model that begins with keras.Input(shape)",
        )


def _check_fixed(extractor: keras.Model) -> None:
    """Compares a few samples among themselves, among others, and once more, to the last bit."""
    rng = np.random.default_rng(0)
    shape = (_ROWS, *extractor.input_shape[1:])
    some, others, zeros = rng.uniform(size=shape), 9.0 * rng.normal(size=shape), np.zeros(shape)
    alone = _first_half(extractor, np.concatenate([some, some]))
    if not np.array_equal(alone, _first_half(extractor, np.concatenate([some, some])), True):
        raise UnsupportedLayer(
            "The extractor does not give the same features twice",
            received=extractor.name,
            fix="Take out what is random in inference mode",
        )
    for neighbours in (others, zeros):
        among = _first_half(extractor, np.concatenate([some, neighbours]))
        if not np.array_equal(alone, among, equal_nan=True):
            raise UnsupportedLayer(
                "The extractor mixes the samples of a batch, so one record would change the "
                "features of others",
                received=extractor.name,
                fix="Use a model whose inference mode treats each sample by itself",
            )


def _first_half(extractor: keras.Model, rows: np.ndarray) -> np.ndarray:
    x = ops.convert_to_tensor(rows, dtype=extractor.inputs[0].dtype)
    return ops.convert_to_numpy(extractor(x, training=False))[: len(rows) // 2]


_UNIT = unit_roundoff("float64")
_WIDTH, _FREQUENCY = 0.8, 0.75 * math.pi  # of the finest wavelet
_DEVIATIONS = 2.5  # after which filters are cut
_PHASE_ERROR = 80.0 * _UNIT  # of a product of two factors of 32 u each, in real and imaginary part

#: Kernels of a stride, shape (2 r + 1, 2 r + 1, filters), by the logarithm of the stride; the last
#: one is the low-pass filter.
Bank = list[np.ndarray]


def morlet_bank(scales: int, orientations: int) -> Bank:
    """The filters of one level, at unit spacing, not yet scaled to a norm.

    Scale j has wavelets of width ``0.8 2^j`` and frequency ``3 pi / 4 2^-j`` in every orientation,
    the real parts first and then the imaginary parts, and is read with stride ``2^j``; the low-pass
    filter, of width ``0.4 2^J``, is read with stride ``2^J``. A filter is multiplied by its stride,
    which makes up for what reading it so sparsely loses. Wavelets have mean zero.

    Source: J. Bruna and S. Mallat, Invariant Scattering Convolution Networks, PAMI 2013.

    Args:
        scales: Number J of scales, at least 1.
        orientations: Number L of orientations.
    """
    wavelets = [_wavelets(2.0**j, orientations) * 2.0**j for j in range(scales)]
    return [*wavelets, _low_pass(_WIDTH * 2.0 ** (scales - 1)) * 2.0**scales]


def _wavelets(dilation: float, orientations: int) -> np.ndarray:
    """Real and imaginary parts, of unit peak ``sum |psi|^2`` in frequency."""
    width, slant = _WIDTH * dilation, 4.0 / max(orientations, 4)
    angles = np.arange(orientations) * (math.pi / orientations)
    rows, columns = _grid(width / slant)
    along = columns[..., None] * np.cos(angles) + rows[..., None] * np.sin(angles)
    across = rows[..., None] * np.cos(angles) - columns[..., None] * np.sin(angles)
    envelope = np.exp(-(np.square(along) + np.square(across * slant)) / (2.0 * width**2))
    wave = envelope * np.exp(1j * _FREQUENCY / dilation * along)
    wave -= envelope * (np.sum(wave, axis=(0, 1)) / np.sum(envelope, axis=(0, 1)))
    parts = np.concatenate([wave.real, wave.imag], axis=-1)
    spectrum = np.fft.fft2(parts, s=(4 * len(parts),) * 2, axes=(0, 1))
    return parts / math.sqrt(float(np.max(np.sum(np.abs(spectrum) ** 2, axis=-1))))


def _low_pass(width: float) -> np.ndarray:
    rows, columns = _grid(width)
    bump = np.exp(-(np.square(rows) + np.square(columns)) / (2.0 * width**2))[..., None]
    return bump / np.sum(bump)


def _grid(width: float) -> tuple[np.ndarray, np.ndarray]:
    radius = math.ceil(_DEVIATIONS * width)
    rows, columns = np.mgrid[-radius : radius + 1, -radius : radius + 1]
    return rows.astype("float64"), columns.astype("float64")


def scaled_bank(bank: Bank, shape: Sequence[int], dtype: str) -> Bank:
    """The filters in a dtype, over slightly more than the norm of the bank on images of a shape."""
    factor = bank_norm(bank, shape) * (1.0 + 1024.0 * unit_roundoff(dtype))
    return [(kernels / factor).astype(dtype) for kernels in bank]


def without_finest(bank: Bank) -> Bank:
    """The bank without the wavelets of stride 1."""
    return [bank[0][..., :0], *bank[1:]]


def bank_norm(bank: Bank, shape: Sequence[int]) -> float:
    """Upper bound of the norm of ``x -> (filter * x read with its stride, all filters)``.

    The map is taken on images of the given shape, surrounded by zeros, and its outputs at positions
    inside. On a torus of n positions an axis, n at least the side and a filter's radius, it is a
    part of the circular map, which has no smaller norm. With s the largest stride, n a multiple of
    s, the circular map takes the ``s^2`` frequencies that are equal modulo ``n / s`` to themselves:
    reading with stride q adds up, over q, the frequencies that are equal modulo ``n / q``. So its
    norm is the greatest of the matrices with one column for each of the ``s^2`` frequencies and,
    for each filter, ``(s / q)^2`` rows, in each of which ``q^2`` entries are ``filter(f) / q``.
    Filters of stride 1 couple nothing and share rows, of entry ``sqrt(sum |filter(f)|^2)``. This is
    the Littlewood-Paley sum where all strides are 1 (S. Mallat, Group Invariant Scattering, 2012).

    Rounding: sines and cosines of exact fractions of a turn are right to 32 u (see
    ``circular_norm_bound``), sums run over the taps, not by a fast transform; so an entry is off by
    at most ``(80 u + gamma(T + 4)) sum |filter| / q`` in either part.

    Args:
        bank: Kernels.
        shape: Rows and columns of the images.
    """
    stride = 2 ** (len(bank) - 1)
    radius = max(len(kernels) // 2 for kernels in bank)
    torus = [stride * math.ceil((side + radius) / stride) for side in shape]
    spectra = [_spectrum(kernels, torus) / 2.0**j for j, kernels in enumerate(bank)]
    square = max(spectral_square(block) for block in _blocks(spectra, torus, stride))
    return scaled_up(math.sqrt(square) + stride * _entry_error(bank))


def absolute_norm(bank: Bank) -> float:
    """Bound of the norm with every tap replaced by its size: ``||k * x|| <= sum |k| ||x||``."""
    sums = [np.sum(np.abs(kernels), axis=(0, 1), dtype="float64") for kernels in bank]
    return scaled_up(math.sqrt(sum(float(np.sum(np.square(s))) for s in sums)) * (1.0 + 1e-12))


def taps(bank: Bank) -> int:
    """Taps of all filters together."""
    return sum(kernels.size for kernels in bank)


def _entry_error(bank: Bank) -> float:
    """Bound, over ``s``, of the Frobenius norm of all the errors of a block."""
    longest = max(len(kernels) ** 2 for kernels in bank)
    return math.sqrt(2.0) * (_PHASE_ERROR + gamma(longest + 4, _UNIT)) * absolute_norm(bank)


def _spectrum(kernels: np.ndarray, torus: Sequence[int]) -> np.ndarray:
    """Fourier coefficients of each filter, shape (*torus, filters)."""
    offsets = np.arange(len(kernels)) - len(kernels) // 2
    turns = (np.outer(np.arange(n), offsets) % n / n for n in torus)
    rows, columns = (np.exp(-2j * math.pi * turn) for turn in turns)
    wide = kernels.astype("float64")
    return np.einsum("ar,rcf,bc->abf", rows, wide, columns, optimize=True)


def _blocks(
    spectra: Sequence[np.ndarray], torus: Sequence[int], stride: int
) -> Iterator[np.ndarray]:
    """The matrices of the circular map, in real form ``[[R, -S], [S, R]]``, row by row."""
    height, width = (n // stride for n in torus)
    energy = np.sqrt(np.sum(np.abs(spectra[0]) ** 2, axis=-1))
    coupled = [s.reshape(stride, height, stride, width, -1) for s in spectra[1:]]
    diagonal = energy.reshape(stride, height, stride, width)
    for a in range(height):
        for b in range(width):
            rows = [np.diag(diagonal[:, a, :, b].ravel()).astype(complex)]
            rows += [_rows(s[:, a, :, b], 2 ** (j + 1), stride) for j, s in enumerate(coupled)]
            v = np.concatenate(rows)
            yield np.block([[v.real, -v.imag], [v.imag, v.real]])


def _rows(spectrum: np.ndarray, q: int, stride: int) -> np.ndarray:
    """Rows of the filters of stride q, from their values at the frequencies of a block."""
    classes = stride // q
    alias = np.arange(stride) % classes
    found = alias[:, None] * classes + alias[None, :]
    chosen = np.arange(classes**2)[:, None] == found.ravel()[None, :]
    values = spectrum.reshape(stride**2, -1).T
    return (chosen[None] * values[:, None, :]).reshape(-1, stride**2)


_MOST_SCALES = 4


@final
@keras.saving.register_keras_serializable(package="lipdp")
class Scattering2D(LipschitzLayer):
    """Wavelet scattering of each channel of (rows, columns, C); nothing of it is trained.

    A level maps an image u to a low-pass part ``A u`` and to the moduli ``|psi * u|`` of its
    wavelet coefficients, of which the next level scatters those again whose wavelets are coarser
    than all before. Low-pass parts of all paths, read every ``2^J`` positions, are the output: for
    2 scales and 8 orientations to order 2 these are 81 channels of a quarter of each side. Images
    are surrounded by zeros.

    Proof of the constant 1: the filters of a level are divided by the proved norm of their joint
    map (``lipdp.layers.features.bank_norm``), so ``||A d||^2 + sum ||psi * d||^2 <= ||d||^2`` for
    ``d = u - v``. The modulus, ``smooth_norm`` of real and imaginary part, is 1-Lipschitz and 0 at
    0 with a Jacobian of norm at most 1. If the levels behind are 1-Lipschitz, ``||S u - S v||^2 =
    ||A d||^2 + sum ||S|psi * u| - S|psi * v|||^2 <= ||A d||^2 + sum ||psi * d||^2 <= ||d||^2``.
    The same lines with derivatives bound the Jacobian. Source: S. Mallat, Group Invariant
    Scattering, CPAM 2012, proposition 2.5.

    Args:
        scales: Number J of scales, 1 to 4; each side of the image is at least ``2^J``.
        orientations: Number L of orientations.
        order: Greatest number of wavelets on a path.

    Guarantees:
        * ``||y|| <= ||x||``, and the map and its Jacobian have constant 1, at zero inputs too.
        * Samples and channels do not mix.
    """

    linear_backward = True
    convolves = True
    scales = Setting[int]()
    orientations = Setting[int]()
    order = Setting[int]()

    def __init__(
        self, scales: int = 2, orientations: int = 8, order: int = 2, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.scales = count("scales", scales)
        self.orientations = count("orientations", orientations)
        self.order = count("order", order)
        if self.scales > _MOST_SCALES:
            raise InvalidValue(
                "So many scales take too long to prove",
                received=scales,
                fix=f"Use 1 to {_MOST_SCALES}",
            )

    def build(self, input_shape: Any) -> None:
        """Makes the filters of each level and proves their norms.

        Raises:
            InvalidValue: If an image is too small for its coarsest wavelets.
        """
        shape = sample_shape(input_shape)
        check_rank(shape, 3)
        if min(shape[:2]) < 2**self.scales:
            raise InvalidValue(
                f"Each side of the image must be at least {2**self.scales}",
                received=shape,
                fix="Use fewer scales",
            )
        sides = [_halved(shape, level) for level in range(self.scales)]
        whole = [morlet_bank(self.scales - r, self.orientations) for r in range(len(sides))]
        coarse = [without_finest(bank) for bank in whole]
        self._first = scaled_bank(whole[0], sides[0], self.compute_dtype)
        self._later = [
            scaled_bank(bank, side, self.compute_dtype)
            for bank, side in zip(coarse, sides, strict=True)
        ]
        pairs = zip([self._first, *self._later], [sides[0], *sides], strict=True)
        gain = max(1.0, *(bank_norm(bank, side) for bank, side in pairs))
        self._gain = gain ** (self.order + 1)

    def call(self, inputs: Any) -> Any:
        """The coefficients, by path and then by channel in the last axis."""
        x = ops.cast(inputs, self.compute_dtype)
        channels = sample_shape(inputs.shape)[-1]
        images = ops.reshape(ops.transpose(x, (0, 3, 1, 2)), (-1, *x.shape[1:3], 1))
        maps = self._scatter(images, self._first, 0, self.order)
        parts = ops.reshape(maps, (-1, channels, *maps.shape[1:]))
        moved = ops.transpose(parts, (0, 2, 3, 4, 1))
        return ops.reshape(moved, (-1, *self.compute_output_shape(inputs.shape)[1:]))

    def _scatter(self, images: Any, bank: Bank, level: int, order: int) -> Any:
        """(m, rows, columns, 1) at the resolution of a level to (m, rows', columns', paths)."""
        parts = [_read(images, bank[-1], 2 ** (len(bank) - 1))]
        for scale, kernels in enumerate(bank[:-1] if order else []):
            if kernels.shape[-1]:
                moduli = _moduli(images, kernels, 2**scale)
                apart = ops.reshape(
                    ops.transpose(moduli, (0, 3, 1, 2)), (-1, *moduli.shape[1:3], 1)
                )
                finer = level + scale
                found = self._scatter(apart, self._later[finer], finer, order - 1)
                parts.append(_joined(found, self.orientations))
        return ops.concatenate(parts, axis=-1)

    def compute_output_shape(self, input_shape: Any) -> tuple[int | None, ...]:
        """``ceil(n / 2^J)`` positions an axis, ``C`` channels for each path."""
        rows, columns, channels = sample_shape(input_shape)
        sides = _halved((rows, columns), self.scales)
        return (input_shape[0], *sides, channels * self.paths)

    @property
    def paths(self) -> int:
        """Number of increasing sequences of at most ``order`` scales, with orientations."""
        lengths = range(min(self.order, self.scales) + 1)
        return sum(math.comb(self.scales, m) * self.orientations**m for m in lengths)

    def forward_bound(self, x: float) -> float:
        """``x``: 0 is mapped to 0."""
        return times(self._gain, x)

    def backward_bound(self, x: float, g: float) -> float:
        """``g``; none where squares may overflow."""
        return times(self._gain, g) if x < math.inf else math.inf

    def lipschitz(self, x: float) -> float:
        """1."""
        return self._gain

    def parameter_bounds(self, x: float, g: float) -> list[float]:
        """No weights."""
        return []

    def rounding(self, unit: float) -> float:
        """Each level is off by ``gamma(n)`` times its map with absolute filters.

        Forward n is at most the taps of a filter, backward those of all filters, whose
        contributions are added up.
        """
        banks = [self._first, *self._later]
        level = max(gamma(taps(b) + 32, unit) * (1 + absolute_norm(b)) for b in banks)
        return (1.0 + level) ** (self.order + 1) - 1.0

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {
            **super().get_config(),
            "scales": self.scales,
            "orientations": self.orientations,
            "order": self.order,
        }


def _halved(sides: Any, times_halved: int) -> tuple[int, int]:
    step = 2**times_halved
    return -(-sides[0] // step), -(-sides[1] // step)


def _read(images: Any, kernels: np.ndarray, stride: int) -> Any:
    """The correlations with all filters at every ``stride``-th position from the first one."""
    radius = len(kernels) // 2
    around = ops.pad(images, [(0, 0), (radius, radius), (radius, radius), (0, 0)])
    filters = ops.convert_to_tensor(kernels[:, :, None, :], dtype=images.dtype)
    return ops.conv(around, filters, strides=stride, padding="valid", data_format="channels_last")


def _moduli(images: Any, kernels: np.ndarray, stride: int) -> Any:
    parts = _read(images, kernels, stride)
    half = kernels.shape[-1] // 2
    return smooth_norm(ops.square(parts[..., :half]) + ops.square(parts[..., half:]))


def _joined(found: Any, orientations: int) -> Any:
    """(m L, rows, columns, paths) to (m, rows, columns, L paths)."""
    rows, columns, paths = found.shape[1:]
    apart = ops.reshape(found, (-1, orientations, rows, columns, paths))
    return ops.reshape(
        ops.transpose(apart, (0, 2, 3, 1, 4)), (-1, rows, columns, orientations * paths)
    )
