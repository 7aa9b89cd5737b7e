"""The exact comparison, against a second computation in decimals."""

import decimal
from decimal import Decimal
from fractions import Fraction

import pytest

from lipdp.errors import InvalidState
from lipdp.privacy import secure_noise
from lipdp.privacy.secure_noise import UniformTail, gaussian_integral, pi

_PI = Decimal(
    "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862"
)
#: Bits to which the decimals below are trusted.
_TRUSTED = 190


@pytest.fixture(autouse=True)
def _digits():
    with decimal.localcontext() as context:
        context.prec = 80
        yield


def _integral(x):
    """``int_0^x e^(-t^2/2) dt = e^(-x^2/2) sum x^(2i+1) / (1 3 5 ... (2i+1))``: positive terms."""
    x = Decimal(x.numerator) / x.denominator
    term = total = x
    for i in range(3, 800, 2):
        term = term * x * x / i
        total += term
    return total * (-x * x / 2).exp()


@pytest.mark.parametrize("precision", [*range(8, 40), 64, 128, _TRUSTED])
@pytest.mark.parametrize("x", [1e-6, 0.3, 1.0, 1.7, 4.5, 12.0])
def test_the_integral_is_enclosed_tightly(x, precision):
    low, high = gaussian_integral(Fraction(x), precision)
    assert low <= _integral(Fraction(x)) * 2**precision <= high
    # The largest term is below e^(x^2/2) and each term adds some units, times what follows.
    assert high - low < 600 * Decimal(x * x / 2).exp()


@pytest.mark.parametrize("precision", [*range(8, 40), 64, 192, 250])
def test_pi_is_enclosed_tightly(precision):
    low, high = pi(precision)
    assert low <= _PI * 2**precision <= high < low + 2**12


def _at_the_end(x, digits):
    """The digits of ``1 - Phi(x)``."""
    return int((Decimal("0.5") - _integral(x) / (2 * _PI).sqrt()) * 2**digits)


@pytest.mark.parametrize("x", [0.001, 0.5, 1.0, 3.0, 6.0])
def test_both_sides_of_an_end_are_told_apart(x):
    x = Fraction(x)
    numerator = _at_the_end(x, 64)
    below, above = (UniformTail(numerator + side, 64, [].pop) for side in (-1, 1))
    assert below.reaches(x) and not above.reaches(x)
    second = _at_the_end(x, 128) - (numerator << 64)
    for word, reached in ((second - 1, True), (second + 1, False)):
        tail = UniformTail(numerator, 64, [word].pop)
        assert tail.reaches(x) is reached
        assert tail.length == 128
    with pytest.raises(IndexError):
        UniformTail(numerator, 64, [second].pop).reaches(x)


def test_what_the_precision_does_not_tell_is_left_undecided(monkeypatch):
    x = Fraction(1)
    numerator = _at_the_end(x, 64)

    def coarse(x, precision):
        """At 64 digits the integral is known to 2^-40 of them, at 128 and more exactly."""
        low, high = gaussian_integral(x, precision)
        spread = 1 << 152 if precision < 200 else 0
        return low - spread, high + spread

    monkeypatch.setattr(secure_noise, "gaussian_integral", coarse)
    for side in (-(2**20), 2**20):
        for word in (0, 2**64 - 1):
            tail = UniformTail(numerator + side, 64, [word].pop)
            assert tail.reaches(x) is (side < 0)
            assert tail.length == 128


def test_a_broken_source_is_noticed():
    tail = UniformTail(0, 64, lambda: 0)
    for _ in range(14):
        tail.extend()
    with pytest.raises(InvalidState, match="broken"):
        tail.extend()
