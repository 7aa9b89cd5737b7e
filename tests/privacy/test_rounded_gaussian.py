import decimal
import hashlib
import io
import itertools
import math
import os
import time
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import special, stats

from lipdp.errors import InvalidState, InvalidValue
from lipdp.privacy.secure_noise import _MARGIN, REACH, RoundedGaussian

_PI = Decimal(
    "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862"
)


def _tail(x):
    """``1 - Phi(x)`` to 60 digits: a series of positive terms, or Laplace's continued fraction."""
    with decimal.localcontext() as context:
        context.prec = 80
        x = Decimal(x.numerator) / x.denominator
        density = (-x * x / 2).exp() / (2 * _PI).sqrt()
        if x > 4:
            ratio = x
            for i in range(700, 0, -1):
                ratio = x + i / ratio
            return density / ratio
        term = total = x
        for i in range(3, 400, 2):
            term = term * x * x / i
            total += term
        return Decimal("0.5") - density * total


def _end(j, ratio):
    """Where ``|k|`` becomes j: the real number, as a fraction."""
    return Fraction(2 * j - 1, 2) / Fraction(ratio)


def _words(*numbers):
    """A source of bits that returns these 64-bit words and no others."""
    stream = list(numbers)
    return lambda count: b"".join(stream.pop(0).to_bytes(8, "little") for _ in range(count // 8))


def _one(ratio, *words):
    return int(RoundedGaussian(_words(*words)).draw(ratio, 1.0, 1)[0])


def _shake(label):
    """A reproducible stream of good bits."""
    counter = itertools.count()
    return lambda count: hashlib.shake_256(f"{label} {next(counter)}".encode()).digest(count)


def _ends():
    """Ends of cells: all on the coarsest grid, some on finer ones, down to tails of 10^-18."""
    for j in range(1, 140):
        yield 16.0, j
    for ratio in (1024.0, 1531.7, 2.0**20 / 3, 2.0**33 / 7, 2.0**40):
        for z in (1e-9, 1e-3, 0.5, 1.0, 1.1015, 1.11, 2.5, 6.1, 7.99, 8.01, 8.6):
            yield ratio, int(z * ratio) + 1


def test_the_oracle_agrees_with_mpmath():
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(70):
        for x in (0.001, 0.5, 1.0, 3.9, 4.1, 9.0, 36.0):
            expected = mpmath.erfc(mpmath.mpf(x) / mpmath.sqrt(2)) / 2
            assert abs(mpmath.mpf(str(_tail(Fraction(x)))) / expected - 1) < 1e-50


def test_every_cell_ends_where_the_normal_law_says():
    """The map from digits to k is monotone: right cells are ends that are right to 2^-64.

    No more than one word is there to be read: these draws are decided by their 64 bits.
    """
    seen = 0
    for ratio, j in _ends():
        at = int(_tail(_end(j, ratio)) * 2**64)
        if (_tail(_end(j, ratio)) - _tail(_end(j + 1, ratio))) * 2**64 > 4:
            seen += 1
            assert _one(ratio, 2 * (at - 1)) == j
            assert _one(ratio, 2 * (at - 1) + 1) == -j
            assert _one(ratio, 2 * (at + 1)) == j - 1
            assert _one(ratio, 2 * (at + 1) + 1) == 1 - j
    assert seen > 150


def test_a_draw_at_the_end_of_a_cell_is_decided_by_more_bits():
    seen = 0
    for ratio, j in _ends():
        with decimal.localcontext() as context:
            context.prec = 80
            tail = _tail(_end(j, ratio)) * 2**64
            first, rest = int(tail), (tail - int(tail)) * 2**64
            second, third = int(rest), int((rest - int(rest)) * 2**64)
        known = (2 * first, second)
        if first > 2**10 and 0 < second < 2**64 - 1 and 2 < third < 2**64 - 3 and ratio < 2**20:
            seen += 1
            with pytest.raises(IndexError):
                _one(ratio, 2 * first)
            assert _one(ratio, 2 * first, second - 1) == j
            assert _one(ratio, 2 * first + 1, second - 1) == -j
            assert _one(ratio, 2 * first, second + 1) == j - 1
            with pytest.raises(IndexError):
                _one(ratio, *known)
            assert _one(ratio, *known, third - 1) == j
            assert _one(ratio, *known, third + 1) == j - 1
    assert seen > 130


@given(
    words=st.lists(st.integers(0, 2**64 - 1), min_size=18, max_size=18),
    zeros=st.integers(0, 12),
    shift=st.integers(0, 63),
    ratio=st.floats(2.0**4, 2.0**40),
)
@example(words=[2] * 18, zeros=0, shift=0, ratio=16.0)
@example(words=[2**64 - 1] * 18, zeros=0, shift=0, ratio=2.0**40)
@example(words=[7] * 18, zeros=12, shift=0, ratio=2.0**39 / 3)
def test_every_draw_is_in_its_cell_in_every_tail(words, zeros, shift, ratio):
    """Any bits, with a tail as deep as wished: p lies between the tails of the ends of k's cell."""
    read = []
    stream = iter([0] * zeros + [max(2, word >> shift) for word in words])

    def bits(count):
        read.append(next(stream))
        return read[-1].to_bytes(count, "little")

    k = abs(int(RoundedGaussian(bits).draw(ratio, 1.0, 1)[0]))
    p = read[0] >> 1
    for word in read[1:]:
        p = (p << 64) | word
    with decimal.localcontext() as context:
        context.prec = 400
        unit = Decimal(2) ** (-64 * len(read))
        assert _tail(_end(k + 1, ratio)) <= (p + 1) * unit
        assert k == 0 or p * unit <= _tail(_end(k, ratio))
        if len(read) == zeros + 1:  # both digits' ends are in the cell
            assert _tail(_end(k + 1, ratio)) <= p * unit
            assert k == 0 or (p + 1) * unit <= _tail(_end(k, ratio))
    assert k <= REACH * ratio


def test_no_draw_is_beyond_the_reach():
    deepest = _one(16.0, *[0] * 13, 1, 0)
    assert 35 * 16 < deepest < 37 * 16 < REACH * 16
    assert _one(16.0, 1, *[0] * 12, 1, 0) == -deepest
    assert _one(16.0, 2**64 - 2) == 0
    with pytest.raises(InvalidState, match="broken"):
        RoundedGaussian(bytes).draw(16.0, 1.0, 1)


def test_quantiles_are_far_within_the_margin():
    """The one number that rests on measurement: ndtri's error, 500 times below the margin."""
    rng = np.random.default_rng(20)
    tails = np.concatenate(
        [
            rng.integers(1, 2**63, 800, dtype=np.uint64),
            (2.0 ** rng.uniform(0, 62.9, 800)).astype(np.uint64),
            np.uint64(2**63 - 1) - (2.0 ** rng.uniform(0, 60, 200)).astype(np.uint64),
            # where ndtri goes from one formula to the next: tails of e^-2 and z of 8
            (math.exp(-2) * 2.0**64 * rng.uniform(1 - 1e-6, 1 + 1e-6, 200)).astype(np.uint64),
            (special.ndtr(-8.0) * 2.0**64 * rng.uniform(0.9, 1.1, 200)).astype(np.uint64),
        ]
    )
    for tail in tails:
        z = -float(special.ndtri(tail * 2.0**-64))
        missed = float(_tail(Fraction(z)) * 2**64 - int(tail)) / 2.0**64
        error = abs(missed) * math.sqrt(2 * math.pi) * math.exp(z * z / 2)
        assert error <= _MARGIN / 500 * (1 + z)


def test_frequencies():
    """Chi-square on the coarsest grid.

    A standard deviation that is off by 1 %, or a floor in place of the rounding, moves the
    statistic by more than 10 of its standard deviations.
    """
    size, ratio = 10**6, 16.0
    draws = RoundedGaussian(_shake("frequencies")).draw(ratio, 1.0, size)
    last = 64
    tails = [float(_tail(_end(j, ratio))) for j in range(1, last + 1)]
    side = np.diff([*(1 - np.array(tails)), 1.0])
    expected = size * np.concatenate([side[::-1], [1 - 2 * tails[0]], side])
    counts = np.bincount(np.clip(draws, -last, last) + last, minlength=2 * last + 1)
    assert expected.min() > 10
    assert stats.chisquare(counts, expected * (size / expected.sum())).pvalue > 1e-4


@pytest.mark.parametrize("ratio", [16.0, 1500.0, 2.0**25])
def test_mean_and_standard_deviation(ratio):
    """5 sigma: catches a mean of 0.5 % and a standard deviation of 0.4 % of sigma."""
    size, grid = 10**6, 2.0**-20
    noise = RoundedGaussian().draw(ratio * grid, grid, size) * grid
    stddev = grid * math.sqrt(ratio**2 + 1 / 12)
    assert abs(noise.mean()) < 5 * stddev / math.sqrt(size)
    assert abs(noise.std() / stddev - 1) < 5 / math.sqrt(2 * size)
    assert abs(np.corrcoef(noise[1:], noise[:-1])[0, 1]) < 5 / math.sqrt(size)


def test_bits_are_fresh():
    delivered = []

    def bits(count):
        delivered.append(os.urandom(count))
        return delivered[-1]

    source = RoundedGaussian(bits)
    draws = np.concatenate([source.draw(1024.0, 1.0, size) for size in (70_000, 30_000)])
    # 10^5 equal 64-bit blocks are met with probability 3e-10, one undecided draw with 3e-4.
    words = np.frombuffer(b"".join(d for d in delivered if len(d) > 8), dtype="<u8")
    assert len(words) == 10**5 == len(np.unique(words))
    assert sum(len(d) == 8 for d in delivered) < 10
    # Each draw is that of its own word alone.
    order = np.random.default_rng(3).permutation(10**5)
    again = RoundedGaussian(_buffer(words[order])).draw(1024.0, 1.0, 10**5)
    assert np.array_equal(again, draws[order])


def _buffer(words):
    stream = io.BytesIO(words.tobytes())
    return lambda count: stream.read(count) or os.urandom(count)


def test_two_draws_differ():
    source = RoundedGaussian()
    assert not np.array_equal(source.draw(1e6, 1.0, 100), source.draw(1e6, 1.0, 100))


def test_a_million_draws_take_at_most_half_a_second():
    source, seconds = RoundedGaussian(), []
    for _ in range(5):
        start = time.process_time()
        source.draw(1500.0, 1.0, 10**6)
        seconds.append(time.process_time() - start)
    assert min(seconds) <= 0.5


def test_what_draw_returns_and_refuses():
    source = RoundedGaussian()
    assert source.draw(16.0, 1.0, 3).dtype == np.int64
    assert source.draw(16.0, 1.0, 0).shape == (0,)
    assert np.array_equal(source.draw(0.0, 1.0, 4), np.zeros(4, dtype=np.int64))
    for stddev, grid in [(15.9, 1.0), (2.0**41, 1.0), (48.0, 3.0), (-16.0, 1.0), (math.nan, 1.0)]:
        with pytest.raises(InvalidValue):
            source.draw(stddev, grid, 1)
    for size in (-1, 1.5, None):
        with pytest.raises(InvalidValue):
            source.draw(16.0, 1.0, size)
    with pytest.raises(InvalidState, match="bytes"):
        RoundedGaussian(lambda count: b"x").draw(16.0, 1.0, 2)
