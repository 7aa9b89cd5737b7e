import itertools
import math
from decimal import Decimal, getcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lipdp.errors import InvalidValue
from lipdp.projections import circular_norm_bound, depthwise_circular_norm_bound
from lipdp.projections.norms import _PHASE_ERROR, _turns


def dense(kernel, sizes, dilation=1, groups=1, stride=1, pads=None):
    """The convolution as a matrix, tap by tap; circular without pads, else zeros around."""
    *taps, fan_in, fan_out = kernel.shape
    each_in, each_out = fan_in, fan_out // groups
    pads = pads or [None] * len(sizes)
    strides, dilations = (np.broadcast_to(v, len(sizes)).tolist() for v in (stride, dilation))
    starts = (range(0, n, s) for n, s in zip(sizes, strides, strict=True))
    outputs = list(itertools.product(*starts))
    matrix = np.zeros((len(outputs), fan_out, *sizes, fan_in * groups))
    every_tap = list(itertools.product(*(range(k) for k in taps)))
    for o, tap in itertools.product(range(len(outputs)), every_tap):
        axes = zip(outputs[o], tap, dilations, pads, strict=True)
        read = [p + t * d - (b or 0) for p, t, d, b in axes]
        inside = [0 <= r < n for r, n in zip(read, sizes, strict=True)]
        if any(b is not None and not i for b, i in zip(pads, inside, strict=True)):
            continue
        where = tuple(r % n for r, n in zip(read, sizes, strict=True))
        for g in range(groups):
            rows = slice(g * each_out, (g + 1) * each_out)
            columns = slice(g * each_in, (g + 1) * each_in)
            matrix[(o, rows, *where, columns)] += kernel[(*tap, slice(None), rows)].T
    return matrix.reshape(len(outputs) * fan_out, -1)


@st.composite
def convolutions(draw):
    axes = draw(st.integers(1, 3))
    taps = [draw(st.integers(1, 3)) for _ in range(axes)]
    dilation = draw(st.integers(1, 2))
    sizes = [(k - 1) * dilation + 1 + draw(st.integers(0, 6 // axes - 1)) for k in taps]
    groups, fan_in, each_out = (draw(st.integers(1, 2)) for _ in range(3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kernel = rng.normal(size=(*taps, fan_in, groups * each_out))
    return kernel, sizes, dilation, groups


@settings(deadline=None, max_examples=40)
@given(convolutions(), st.sampled_from([1e-300, 1.0, 1e300]))
@example((np.ones((3, 3, 1, 1)), [3, 3], 1, 1), 1.0)
@example((np.ones((1, 1, 1)), [1], 1, 1), 1.0)
def test_bound_is_the_norm_of_the_dense_matrix(convolution, scale):
    kernel, sizes, dilation, groups = convolution
    bound = circular_norm_bound(kernel * scale, sizes, dilation=dilation, groups=groups) / scale
    true = np.linalg.norm(dense(kernel, sizes, dilation, groups), 2)
    assert true <= bound <= true * (1.0 + 1e-11)


@st.composite
def strided_convolutions(draw):
    """Strides and dilations of each axis; kernels with signs, single taps and plain waves too."""
    axes = draw(st.integers(1, 3))
    taps, strides, dilations = (
        [draw(st.integers(1, most)) for _ in range(axes)] for most in (5 - axes, 4, 3)
    )
    reaches = [(k - 1) * d + 1 for k, d in zip(taps, dilations, strict=True)]
    sizes = [
        s * (-(-reach // s) + draw(st.integers(0, 3 - axes)))
        for reach, s in zip(reaches, strides, strict=True)
    ]
    groups, fan_in, each_out = (draw(st.integers(1, 2)) for _ in range(3))
    shape = (*taps, fan_in, groups * each_out)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return draw(st.sampled_from(kernels(shape, rng))), sizes, strides, dilations, groups


def kernels(shape, rng):
    """Random, of signs, of single taps, and a wave along the first axis."""
    normal = rng.normal(size=shape)
    single = np.zeros(shape)
    single[tuple(rng.integers(k) for k in shape[:-2])] = normal[(0,) * (len(shape) - 2)]
    wave = np.cos(2.0 * np.pi * rng.integers(1, 7) / 12.0 * np.arange(shape[0]))
    return [normal, np.sign(normal), single, np.moveaxis(np.moveaxis(normal, 0, -1) * wave, -1, 0)]


@settings(deadline=None, max_examples=60)
@given(strided_convolutions())
@example((np.ones((3, 3, 1, 1)), [4, 4], [2, 2], [1, 1], 1))
@example((np.ones((2, 1, 1)), [5], [5], [1], 1))  # A stride larger than the kernel.
@example((np.ones((3, 1, 1)), [6], [2], [2], 1))  # All taps read one part of the input.
@example((np.array([1.0, -1.0, 1.0]).reshape(3, 1, 1), [6], [2], [1], 1))
@example((np.ones((4, 1, 1)), [20], [4], [6], 1))
def test_strided_bound_is_the_norm_of_the_dense_matrix(convolution):
    kernel, sizes, strides, dilations, groups = convolution
    bound = circular_norm_bound(kernel, sizes, strides=strides, dilation=dilations, groups=groups)
    true = np.linalg.norm(dense(kernel, sizes, dilations, groups, strides), 2)
    assert true * (1.0 - 1e-13) <= bound <= true * (1.0 + 1e-11)
    whole = circular_norm_bound(kernel, sizes, dilation=dilations, groups=groups)
    assert bound <= whole * (1.0 + 1e-11)


@pytest.mark.parametrize("strides", [(1, 1), (2, 2), (3, 1), (2, 5)])
@pytest.mark.parametrize("dilation", [(1, 1), (2, 3)])
def test_strides_join_the_frequencies_that_they_cannot_tell_apart(strides, dilation):
    """``max_f ||[K(f + a M)]_a|| / sqrt(prod s)``, by a fast transform of the spread kernel."""
    kernel = np.random.default_rng(0).normal(size=(4, 3, 2, 3))
    spread = np.zeros((3 * dilation[0] + 1, 2 * dilation[1] + 1, 2, 3))
    spread[:: dilation[0], :: dilation[1]] = kernel
    counts = (8, 7)
    torus = tuple(m * s for m, s in zip(counts, strides, strict=True))
    spectrum = np.fft.fft2(spread, torus, axes=(0, 1))
    apart = spectrum.reshape(strides[0], counts[0], strides[1], counts[1], 2, 3)
    blocks = apart.transpose(1, 3, 0, 2, 4, 5).reshape(math.prod(counts), -1, 3)
    true = max(np.linalg.norm(b, 2) for b in blocks) / math.sqrt(math.prod(strides))
    bound = circular_norm_bound(kernel, torus, strides=strides, dilation=dilation)
    assert true * (1.0 - 1e-13) <= bound <= true * (1.0 + 1e-11)


def test_small_taps_that_vanish_in_a_sum_count():
    """Of 1 and many 2^-53 a sum loses many ulp: what is computed from it is no bound."""
    kernel = np.full((1024, 1, 1), 2.0**-53)
    kernel[0] = 1.0
    assert Fraction(circular_norm_bound(kernel, [1024])) >= 1 + Fraction(1023, 2**53)


def test_ones_attain_nine():
    bound = circular_norm_bound(np.ones((3, 3, 1, 1)), (8, 8))
    assert 9.0 <= bound < 9.0 * (1.0 + 1e-12)


@pytest.mark.parametrize("torus", [9, 10, 16])
def test_zero_padding_restricts_the_circular_convolution(torus):
    kernel = np.ones((3, 3, 1, 1))
    true = np.linalg.norm(dense(kernel, (8, 8), pads=(1, 1)), 2)
    assert true == pytest.approx(8.2909, abs=1e-4)
    assert true <= circular_norm_bound(kernel, (torus, torus))


@settings(deadline=None, max_examples=25)
@given(
    n=st.integers(3, 9),
    k=st.integers(1, 4),
    dilation=st.integers(1, 2),
    stride=st.integers(1, 3),
    left=st.integers(0, 6),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_zero_padding_and_stride_is_covered(n, k, dilation, stride, left, seed):
    reach = (k - 1) * dilation
    left = min(left, reach)
    kernel = np.random.default_rng(seed).normal(size=(k, 2, 2))
    true = np.linalg.norm(dense(kernel, (n,), dilation, stride=stride, pads=(left,)), 2)
    torus = max(n + max(left, reach - left), reach + 1)
    assert true <= circular_norm_bound(kernel, (torus,), dilation=dilation)
    closed = stride * -(-torus // stride)
    assert true <= circular_norm_bound(kernel, (closed,), strides=stride, dilation=dilation)


def test_taps_that_cancel_on_a_small_torus_are_refused():
    kernel = np.array([1.0, -1.0]).reshape(2, 1, 1)
    for torus in (1, 4, 8):
        with pytest.raises(InvalidValue, match="fit"):
            circular_norm_bound(kernel, (torus,), dilation=8)
    padded = np.linalg.norm(dense(kernel, (12,), 8, pads=(4,)), 2)
    assert padded <= circular_norm_bound(kernel, (16,), dilation=8)
    assert circular_norm_bound(kernel, (16,), dilation=8) >= 2.0


def test_dilation_of_each_axis():
    kernel = np.random.default_rng(0).normal(size=(2, 2, 1, 2))
    spread = np.zeros((3, 4, 1, 2))
    spread[::2, ::3] = kernel
    one = circular_norm_bound(kernel, (5, 6), dilation=(2, 3))
    assert one == pytest.approx(circular_norm_bound(spread, (5, 6)), rel=1e-11)


@pytest.mark.parametrize("multiplier", [1, 3])
def test_depthwise_is_the_greatest_over_channels(multiplier):
    kernel = np.random.default_rng(0).normal(size=(3, 2, 5, multiplier))
    each = [circular_norm_bound(kernel[:, :, c : c + 1], (6, 7)) for c in range(5)]
    assert depthwise_circular_norm_bound(kernel, (6, 7)) == pytest.approx(max(each), rel=1e-11)
    each = [circular_norm_bound(kernel[:, :, c : c + 1], (6, 8), strides=2) for c in range(5)]
    found = depthwise_circular_norm_bound(kernel, (6, 8), strides=2)
    assert found == pytest.approx(max(each), rel=1e-11)


def test_many_frequencies_are_read_in_parts(monkeypatch):
    kernel = np.random.default_rng(0).normal(size=(3, 3, 2, 4))
    whole = circular_norm_bound(kernel, (9, 8), groups=2)
    monkeypatch.setattr("lipdp.projections.norms._CHUNK", 1)
    assert circular_norm_bound(kernel, (9, 8), groups=2) == pytest.approx(whole, rel=1e-11)


@pytest.mark.parametrize("torus", [(7,), (33, 34), (5, 6, 7)])
def test_phases_are_as_exact_as_claimed(torus):
    getcontext().prec = 40
    pi = Decimal("3.14159265358979323846264338327950288419716939937510")
    turns = _turns((3,) * len(torus), torus, (2,) * len(torus))
    common = math.lcm(*torus)
    for turn in np.unique(turns)[:: max(1, common // 40)]:
        numerator = round(turn * common)
        assert turn == numerator / common
        exact, angle = 2 * pi * numerator / common, 2.0 * math.pi * turn
        assert abs(Decimal(float(np.cos(angle))) - _cosine(exact)) <= Decimal(_PHASE_ERROR)
        shifted = _cosine(exact - pi / 2)
        assert abs(Decimal(float(np.sin(angle))) - shifted) <= Decimal(_PHASE_ERROR)


def _cosine(x):
    total, term, n = Decimal(0), Decimal(1), 0
    while abs(term) > Decimal("1e-35"):
        total, n = total + term, n + 2
        term = -term * x * x / (n * (n - 1))
    return total


def test_degenerate_kernels():
    assert circular_norm_bound(np.zeros((3, 2, 2)), (4,)) == 0.0
    assert circular_norm_bound(np.zeros((3, 0, 2)), (4,)) == 0.0
    bad = np.ones((3, 2, 2))
    bad[1, 0, 1] = np.nan
    assert circular_norm_bound(bad, (4,)) == math.inf
    assert depthwise_circular_norm_bound(bad, (4,)) == math.inf


@pytest.mark.parametrize(
    ("shape", "torus", "settings"),
    [
        ((3, 2, 2), (4, 4), {}),
        ((2, 2), (), {}),
        ((3, 2, 2), (2,), {}),
        ((3, 2, 2), (0,), {}),
        ((3, 2, 2), (4,), {"dilation": 0}),
        ((3, 2, 2), (4,), {"dilation": (1, 1)}),
        ((3, 2, 2), (4,), {"strides": 0}),
        ((3, 2, 2), (5,), {"strides": 2}),
        ((3, 2, 2), (4,), {"strides": (2, 2)}),
        ((3, 2, 2), (4,), {"groups": 0}),
        ((3, 2, 3), (4,), {"groups": 2}),
    ],
)
def test_shapes_that_do_not_fit_are_refused(shape, torus, settings):
    with pytest.raises(InvalidValue):
        circular_norm_bound(np.ones(shape), torus, **settings)


@pytest.mark.slow
def test_a_usual_layer():
    kernel = np.random.default_rng(0).normal(size=(3, 3, 64, 64))
    blocks = np.fft.rfft2(kernel, (32, 32), axes=(0, 1)).reshape(-1, 64, 64)
    true = max(np.linalg.norm(b, 2) for b in blocks)
    assert true <= circular_norm_bound(kernel, (32, 32)) <= true * (1.0 + 1e-11)
