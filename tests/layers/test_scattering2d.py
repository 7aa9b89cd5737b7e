"""The scattering transform against NumPy, exact Jacobians and dense norms."""

from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy.signal import correlate2d

from lipdp.errors import InvalidValue
from lipdp.layers.features import (
    Scattering2D,
    _spectrum,
    absolute_norm,
    bank_norm,
    morlet_bank,
    scaled_bank,
    without_finest,
)

SCRIPT = Path(__file__).with_name("scattering_backend_checks.py")


def read(image, kernels, stride):
    """Correlations with zeros around, read at every stride-th position."""
    maps = [correlate2d(image, kernel, mode="same") for kernel in np.moveaxis(kernels, -1, 0)]
    return np.stack(maps, axis=-1)[::stride, ::stride]


def level_map(bank, image):
    parts = [read(image, k, 2**j).ravel() for j, k in enumerate(bank) if k.shape[-1]]
    return np.concatenate(parts)


def matrix(bank, shape):
    units = np.eye(int(np.prod(shape))).reshape(-1, *shape)
    return np.stack([level_map(bank, unit) for unit in units], axis=1)


def scattering(image, first, later, order):
    """One channel, all paths: (rows, columns, paths)."""

    def scatter(u, bank, level, left):
        parts = [read(u, bank[-1], 2 ** (len(bank) - 1))]
        for scale, kernels in enumerate(bank[:-1] if left else []):
            if not kernels.shape[-1]:
                continue
            found = read(u, kernels, 2**scale)
            half = found.shape[-1] // 2
            for z in np.moveaxis(found[..., :half] + 1j * found[..., half:], -1, 0):
                parts.append(scatter(np.abs(z), later[level + scale], level + scale, left - 1))
        return np.concatenate(parts, axis=-1)

    return scatter(image, first, 0, order)


@pytest.mark.parametrize("shape", [(28, 28, 1), (32, 32, 3), (9, 12, 2)])
def test_shape_of_the_output(shape):
    layer = Scattering2D()
    layer.build((None, *shape))
    rows, columns, channels = shape
    expected = (None, -(-rows // 4), -(-columns // 4), 81 * channels)
    assert layer.compute_output_shape((None, *shape)) == expected
    assert layer(np.zeros((2, *shape), "float32")).shape == (2, *expected[1:])
    assert layer.weights == []


@pytest.mark.parametrize(("scales", "orientations", "order"), [(1, 2, 1), (2, 3, 2), (3, 2, 2)])
def test_values_are_those_of_the_definition(scales, orientations, order):
    layer = Scattering2D(scales, orientations, order, dtype="float64")
    x = np.random.default_rng(0).normal(size=(2, 9, 10, 2))
    y = np.asarray(layer(x))
    for row, found in zip(x, y, strict=True):
        for channel in range(2):
            image = row[..., channel]
            expected = scattering(image, layer._first, layer._later, order)
            np.testing.assert_allclose(found[..., channel::2], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("scales", "shape"), [(1, (4, 5)), (2, (8, 8)), (2, (12, 9)), (3, (11, 8))]
)
def test_the_norm_of_a_bank_is_proved_and_nearly_attained(scales, shape):
    bank = morlet_bank(scales, 3)
    for filters in (bank, without_finest(bank)):
        exact = np.linalg.norm(matrix(filters, shape), 2)
        assert exact <= bank_norm(filters, shape) <= 1.25 * exact


def test_the_norm_is_the_littlewood_paley_sum_where_nothing_is_skipped():
    kernels = np.random.default_rng(0).normal(size=(5, 5, 3))
    spectrum = np.abs(np.fft.fft2(kernels, s=(10, 11), axes=(0, 1))) ** 2
    expected = np.sqrt(np.max(np.sum(spectrum, axis=-1)))
    assert bank_norm([kernels], (8, 9)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("sides", [(8, 8), (5, 6)])
def test_the_norm_is_that_of_the_circular_map(sides):
    """With strides: against the dense matrix on the torus."""
    rng = np.random.default_rng(1)
    bank = [rng.normal(size=(3, 3, 2)), rng.normal(size=(5, 5, 1)), rng.normal(size=(1, 1, 2))]
    torus = [4 * -(-(side + 2) // 4) for side in sides]

    def circular(unit):
        parts = []
        for j, kernels in enumerate(bank):
            r = len(kernels) // 2
            wrapped = np.pad(unit, r, mode="wrap")
            for kernel in np.moveaxis(kernels, -1, 0):
                parts.append(correlate2d(wrapped, kernel, mode="valid")[:: 2**j, :: 2**j].ravel())
        return np.concatenate(parts)

    units = np.eye(int(np.prod(torus))).reshape(-1, *torus)
    exact = np.linalg.norm(np.stack([circular(u) for u in units], axis=1), 2)
    assert exact * (1 - 1e-12) <= bank_norm(bank, sides) <= exact * (1 + 1e-9)


def test_wavelets_have_mean_zero_and_filters_cover_all_frequencies():
    *wavelets, low_pass = scaled_bank(morlet_bank(2, 8), (28, 28), "float64")
    for kernels in wavelets:
        assert np.max(np.abs(np.sum(kernels, axis=(0, 1)))) < 1e-12
    spectra = [_spectrum(k, (40, 40)) / 2.0**j for j, k in enumerate([*wavelets, low_pass])]
    energy = sum(np.sum(np.abs(s) ** 2, axis=-1) for s in spectra)
    assert np.max(energy) <= 1.0 and np.min(energy[:18, :18]) > 0.1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_filters_in_the_dtype_have_norm_at_most_one(dtype):
    bank = scaled_bank(morlet_bank(2, 8), (28, 28), dtype)
    assert {k.dtype.name for k in bank} == {dtype}
    assert 0.999 < bank_norm(bank, (28, 28)) <= 1.0 <= absolute_norm(bank)


def jacobian(layer, x):
    """All rows in one batch of the same sample."""
    size = int(np.prod(layer(x[None]).shape))
    rows = tf.constant(np.repeat(x[None], size, axis=0))
    with tf.GradientTape() as tape:
        tape.watch(rows)
        y = layer(rows)
    seeds = tf.constant(np.eye(size).reshape(y.shape))
    return tape.gradient(y, rows, output_gradients=seeds).numpy().reshape(size, -1)


def points(shape):
    rng = np.random.default_rng(2)
    zero, one, wave = (np.zeros(shape) for _ in range(3))
    one[0, 0], wave[::2] = 1.0, 1.0
    smooth = np.ones(shape)
    return [zero, one, wave, smooth, rng.normal(size=shape), 1e-200 * rng.normal(size=shape)]


@pytest.mark.parametrize(("scales", "orientations"), [(1, 4), (2, 2)])
def test_the_jacobian_that_is_returned_grows_no_norm(scales, orientations):
    layer = Scattering2D(scales, orientations, dtype="float64")
    norms = []
    for x in points((6, 5, 1)):
        found = jacobian(layer, x)
        assert np.all(np.isfinite(found))
        norms.append(np.linalg.norm(found, 2))
        assert norms[-1] <= layer.backward_bound(10.0, 1.0) * (1 + layer.rounding(2.0**-53))
        assert np.linalg.norm(np.asarray(layer(x[None]))) <= np.linalg.norm(x)
    assert max(norms) > 0.65


def test_louder_filters_would_be_noticed():
    layer = Scattering2D(1, 4, dtype="float64")
    layer.build((None, 6, 5, 1))
    layer._first = [1.3 * kernels for kernels in layer._first]
    assert np.linalg.norm(jacobian(layer, np.ones((6, 5, 1))), 2) > layer.lipschitz(1.0)


def test_steepest_pairs_stay_within_the_constant(vjp):
    """Power iteration on differences: the worst direction from a point, then a step along it."""
    layer = Scattering2D(2, 4, dtype="float64")
    rng, best = np.random.default_rng(3), 0.0
    for x in [np.ones((12, 12, 1)), rng.normal(size=(12, 12, 1))]:
        direction = rng.normal(size=x.shape)
        for _ in range(12):
            direction /= np.linalg.norm(direction)
            step = 1e-3 * direction
            change = np.asarray(layer((x + step)[None])) - np.asarray(layer((x - step)[None]))
            ratio = np.linalg.norm(change) / np.linalg.norm(2 * step)
            assert ratio <= layer.lipschitz(20.0)
            best = max(best, ratio)
            direction, _ = vjp(layer, x, change[0] / np.linalg.norm(change))
    assert best > 0.7


def test_squares_that_overflow_have_no_backward_bound():
    layer = Scattering2D(1, 2)
    layer.build((None, 4, 4, 1))
    assert layer.backward_bound(np.inf, 1.0) == np.inf
    assert layer.parameter_bounds(1.0, 1.0) == []
    assert layer.forward_bound(3.0) == 3.0 and layer.lipschitz(np.inf) == 1.0


def test_it_is_saved_as_its_options(tmp_path):
    layer = Scattering2D(1, 2, 1, dtype="float64")
    model = keras.Sequential([keras.Input((4, 4, 1)), layer])
    model.save(tmp_path / "m.keras")
    loaded = keras.models.load_model(tmp_path / "m.keras")
    x = np.random.default_rng(4).normal(size=(3, 4, 4, 1))
    np.testing.assert_array_equal(model.predict(x, verbose=0), loaded.predict(x, verbose=0))


@pytest.mark.parametrize(
    ("options", "shape"),
    [((0, 8), None), ((5, 8), None), ((2, 0), None), ((2, 8, 0), None), ((3, 8), (7, 9, 1)),
     ((2, 8), (28, 28))],
)  # fmt: skip
def test_what_has_no_proof_is_refused(options, shape):
    with pytest.raises(InvalidValue):
        Scattering2D(*options).build((None, *shape))


@pytest.mark.backend
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_backend(run_on_backend, backend):
    run_on_backend(backend, SCRIPT, "check_scattering")
