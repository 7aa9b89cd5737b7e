"""Losses where a row is replaced: against exact divergences, real sums and other compositions."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import special

from benchmarks.independent import enclosed
from lipdp.privacy import Draw, Phase, account, calibrate, epsilon_of
from lipdp.privacy.pld import _divergences, largest_loss, pld_epsilon, replaced_losses

DRAWN = {"poisson": False, "fixed-size": True}
KINDS = pytest.mark.parametrize("fixed_size", DRAWN.values(), ids=DRAWN)


def _phase(rate, noise, steps, fixed_size, count=10**6):
    if not fixed_size:
        return Phase(rate, noise, steps)
    size = max(1, round(rate * count))
    return Phase(size / count, noise, steps, Draw("fixed-size", count, size))


def _exact(a, rate, noise, fixed_size):
    """``sup P(E) - a Q(E)`` for ``a >= 1`` with 150 digits."""
    mp = pytest.importorskip("mpmath")
    with mp.workdps(150):
        a, q, t = mp.mpf(a), mp.mpf(rate), 1 / mp.mpf(noise)
        if fixed_size:
            x = mp.log1p((a - 1) / q) / (2 * t)
        else:
            k, half = q * mp.e ** (-t * t / 2), (1 - q) * (a - 1)
            x = mp.log((half + mp.sqrt(half**2 + 4 * k**2 * a)) / (2 * k)) / t

        def tail(y):
            return mp.erfc(y / mp.sqrt(2)) / 2

        kept = (1 - q) * tail(x + t if fixed_size else x)
        return kept + q * tail(x - t) - a * (kept + q * tail(x + t))


@KINDS
@pytest.mark.parametrize("noise", [0.05, 0.3, 1.0, 10.0, 900.0, 1100.0, 1e6, 1e40])
def test_the_divergences_are_rounded_up(noise, fixed_size):
    mp = pytest.importorskip("mpmath")
    for rate in (1e-7, 0.01, 0.9):
        most = max(largest_loss(rate, noise, fixed_size=fixed_size), 1e-50)
        losses = most * np.array([0.0, 1e-6, 0.01, 0.1, 0.3, 0.6, 0.9, 1.0])
        found = _divergences(losses, rate, 1.0 / noise, fixed_size)
        for loss, value in zip(losses, found, strict=True):
            with mp.workdps(150):
                exact = _exact(mp.exp(mp.mpf(float(loss))), rate, noise, fixed_size)
                assert exact <= value
                if exact > 1e-290:
                    assert value <= exact * (1 + (1e-9 if noise < 1000.0 else 2e-5))


def _profile(a, rate, noise, fixed_size):
    """The divergence of the pair at any order, in float64, good to 1e-13."""
    if a < 1.0:
        return 1.0 - a + a * _profile(1.0 / a, rate, noise, fixed_size)
    return float(_exact(a, rate, noise, fixed_size))


@KINDS
@given(
    log_rate=st.floats(-4, -0.05),
    log_noise=st.floats(-0.5, 1.0),
    share=st.floats(0.0, 1.0),
    points=st.sampled_from([1, 2, 7, 300]),
)
@example(log_rate=-0.3, log_noise=0.0, share=0.0, points=1)
@settings(max_examples=25)
def test_the_discrete_pair_is_at_least_as_far_apart(fixed_size, log_rate, log_noise, share, points):
    rate, noise = 10**log_rate, 10**log_noise
    most = largest_loss(rate, noise, fixed_size=fixed_size)
    masses, infinite = replaced_losses(rate, noise, most / points, fixed_size=fixed_size)
    losses = (np.arange(len(masses)) - len(masses) // 2) * most / points
    assert masses.min() >= 0.0
    assert masses.sum() + infinite == pytest.approx(1.0, abs=1e-13)
    for loss in (share * most, -share * most, share / points * most):
        claimed = infinite - float(np.expm1(np.minimum(0.0, loss - losses)) @ masses)
        assert claimed >= _profile(math.exp(loss), rate, noise, fixed_size) - 1e-13


def test_masses_that_do_not_fit_claim_nothing(monkeypatch):
    monkeypatch.setattr("lipdp.privacy.pld._divergences", lambda losses, *_: 2.0 * np.exp(-losses))
    masses, infinite = replaced_losses(0.1, 1.0, 0.01, fixed_size=True)
    assert infinite == 1.0
    assert masses.sum() == 0.0


# Real sums.


def _sums(rows, size):
    """Centres of the sums of all sets of rows of a size, and their probability."""
    sets = [np.sum(one, axis=0) for one in itertools.combinations(rows, size)]
    return np.array(sets), 1.0 / len(sets)


@given(
    angles=st.lists(
        st.sampled_from([0.0, math.pi / 3, math.pi / 2, math.pi, 4.0]), min_size=3, max_size=5
    ),
    size=st.integers(1, 3),
    noise=st.sampled_from([0.5, 1.0, 3.0]),
    log_order=st.floats(-2.0, 2.0),
)
@example(angles=[0.0, math.pi, math.pi], size=1, noise=1.0, log_order=0.5)
@example(angles=[0.0, math.pi, 0.0], size=1, noise=1.0, log_order=-0.5)
@settings(max_examples=30)
def test_no_sum_over_sets_of_rows_is_farther_apart(angles, size, noise, log_order):
    """A step in the plane: every order, orders below 1 too."""
    replaced, replacement, *others = [(math.cos(one), math.sin(one)) for one in angles]
    if size > len(others):
        return
    first, weight = _sums([replaced, *others], size)
    second, _ = _sums([replacement, *others], size)
    low = min(first.min(), second.min()) - 7.0 * noise
    high = max(first.max(), second.max()) + 7.0 * noise
    x = np.linspace(low, high, 301)

    def density(centres):
        one = [np.exp(-0.5 * ((x - c) / noise) ** 2) for c in centres[:, 0]]
        other = [np.exp(-0.5 * ((x - c) / noise) ** 2) for c in centres[:, 1]]
        return weight * np.einsum("ki,kj->ij", one, other) / (2 * math.pi * noise**2)

    gap = np.maximum(0.0, density(first) - math.exp(log_order) * density(second))
    found = float(gap.sum() * (x[1] - x[0]) ** 2)
    bound = _profile(math.exp(log_order), size / (len(others) + 1), noise, fixed_size=True)
    # The sum over the grid is good to 1e-4 of the value.
    assert found <= bound * (1 + 1e-3) + 1e-7


def _of_one_or_two(kept, row, x, noise):
    """Density of a sum over one of two rows, drawn with probability 1/2 each."""
    parts = [np.exp(-0.5 * ((x - centre) / noise) ** 2) for centre in (kept, row)]
    return np.sum(parts, axis=0) / (2.0 * noise * math.sqrt(2.0 * math.pi))


def _excess(first, seconds, epsilon, step):
    """``int (p1 p2 - e^epsilon q1 q2)_+``, the second pair the worst for each first output."""
    (p1, q1), factor = first, math.exp(epsilon)
    sums = [
        np.maximum(0.0, np.outer(p1, p2) - factor * np.outer(q1, q2)).sum(axis=1)
        for p2, q2 in seconds
    ]
    return float(np.max(sums, axis=0).sum()) * step**2


@pytest.mark.parametrize("noise", [0.7, 1.5, 4.0])
@pytest.mark.parametrize("delta", [1e-2, 1e-5])
def test_two_steps_over_two_rows_cost_no_less_than_they_do(noise, delta):
    """b = 1 and N = 2: a row and its replacement, the other row anywhere.

    What is summed in the second step may depend on the first one's output.
    """
    claimed = epsilon_of([_phase(0.5, noise, 2, True, 2)], delta, adjacency="replace-one")
    x = np.linspace(-1.0 - 9.0 * noise, 1.0 + 9.0 * noise, 801)
    worst = 0.0
    for row, other in ((1.0, -1.0), (1.0, 0.0), (0.5, -0.5)):
        pairs = [
            tuple(_of_one_or_two(kept, one, x, noise) for one in (row, other))
            for kept in (-1.0, 0.0, 1.0)
        ]
        worst = max(worst, *(_excess(pair, pairs, claimed, x[1] - x[0]) for pair in pairs))
    assert 0.3 * delta <= worst <= delta * (1 + 1e-3)


def test_neither_pair_alone_is_a_bound():
    """The other row is next to the replacement or next to the row, as the first output has it."""
    noise = 1.0
    x = np.linspace(-10.0, 10.0, 1001)
    step = x[1] - x[0]
    pairs = [
        tuple(_of_one_or_two(kept, row, x, noise) for row in (1.0, -1.0)) for kept in (-1.0, 1.0)
    ]
    masses, infinite = replaced_losses(0.5, noise, 2.0**-9, fixed_size=True)
    loss = 2.0**-9 * (np.arange(2 * len(masses) - 1) - len(masses) + 1)
    both = np.convolve(masses, masses)
    for epsilon in (0.0, 0.4, 1.0):
        chosen = max(_excess(pair, pairs, epsilon, step) for pair in pairs)
        alone = max(_excess(pair, [pair], epsilon, step) for pair in pairs)
        assert chosen > 1.005 * alone
        claimed = 2 * infinite - float(np.expm1(np.minimum(0.0, epsilon - loss)) @ both)
        assert claimed >= chosen


# Compositions.


def _settings(count, seed):
    generator = np.random.default_rng(seed)
    for index in range(count):
        rate = 10 ** generator.uniform(-4, math.log10(0.5))
        noise = 10 ** generator.uniform(math.log10(0.5), math.log10(8.0))
        yield rate, noise, int(10 ** generator.uniform(0, 4)), (1e-5, 1e-6)[index % 2]


def _check_composition(rate, noise, steps, delta, fixed_size):
    phase = _phase(rate, noise, steps, fixed_size)
    rate = phase.sampling_rate
    for count in (2**19, 2**21, 2**23):
        low, high = enclosed(rate, noise, steps, delta, fixed_size=fixed_size, count=count)
        if low >= 0.99 * high:
            break
    found = pld_epsilon([phase], delta, "replace-one")
    assert low <= found <= 1.02 * low, (rate, noise, steps, delta, low, high)
    assert account([phase], delta, adjacency="replace-one").epsilon <= found


QUICK = [(0.1, 4.0, 100, 1e-6), (1e-3, 0.6, 30, 1e-5)]


@KINDS
@pytest.mark.parametrize("setting", QUICK)
def test_agrees_with_another_composition(setting, fixed_size):
    _check_composition(*setting, fixed_size)


@pytest.mark.slow
@KINDS
@pytest.mark.parametrize("setting", list(_settings(30, 5)))
def test_agrees_with_another_composition_at_random_settings(setting, fixed_size):
    _check_composition(*setting, fixed_size)


def test_the_other_composition_is_right():
    low, high = enclosed(0.01, 1.0, 1000, 1e-5, fixed_size=False)
    assert low <= 2.8434 <= high + 1e-4
    assert high - low <= 4e-3
    # The losses above 0 are those of a row that is removed at the noise z / 2.
    one_low, one_high = enclosed(0.3, 2.0, 1, 1e-3, fixed_size=True)
    exact = 0.3 * special.ndtr(1.0) + 0.7 * special.ndtr(-1.0) - special.ndtr(-1.0)
    assert exact > 1e-3
    assert 1.0 < one_low <= one_high <= one_low * (1 + 1e-4)
    assert _profile(math.exp(one_low), 0.3, 2.0, True) == pytest.approx(1e-3, rel=1e-3)


def test_the_row_that_may_be_replaced_costs_what_it_must():
    """The reference value, where Renyi divergences alone gave 6.411."""
    found = account([Phase(0.01, 1.0, 1000)], 1e-5, adjacency="replace-one")
    assert found.method == "privacy loss distribution"
    assert 2.8433 <= found.epsilon <= 2.845


@pytest.mark.parametrize(("target", "less"), [(1.0, 0.88), (8.0, 0.66)])
def test_noise_is_calibrated_by_it(target, less):
    def ahead(noise):
        return [Phase(0.01, noise, 1000)]

    how = {"adjacency": "replace-one"}
    noise = calibrate(ahead, target, 1e-5, **how)
    assert 0.99 * target <= epsilon_of(ahead(noise), 1e-5, **how) <= target
    assert noise <= less * calibrate(ahead, target, 1e-5, accountant="rdp", **how)
