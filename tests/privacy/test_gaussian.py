import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate

from lipdp.privacy.gaussian import gaussian_epsilon, total_mu
from lipdp.privacy.phase import Draw, Phase


def _delta_by_integration(epsilon, mu):
    """Mass of the first density above e^epsilon times the second, by quadrature."""
    start = epsilon / mu + mu / 2.0

    def excess(x):
        return (math.exp(-((x - mu) ** 2) / 2) - math.exp(epsilon - x * x / 2)) / math.sqrt(
            2 * math.pi
        )

    return integrate.quad(excess, start, start + 40, epsabs=0, epsrel=1e-10, limit=500)[0]


def test_published_values():
    assert gaussian_epsilon(1.0, 1e-5) == pytest.approx(4.377178095681244, abs=1e-9)
    assert gaussian_epsilon(math.sqrt(15) / 1.3, 1e-5) == pytest.approx(16.526, abs=1e-3)


@pytest.mark.parametrize("mu", [0.01, 0.3, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("delta", [1e-10, 1e-5, 1e-3])
def test_is_the_least_epsilon_by_integration(mu, delta):
    value = gaussian_epsilon(mu, delta)
    assert _delta_by_integration(value, mu) <= delta * (1 + 1e-9)
    assert _delta_by_integration(value * 0.9999, mu) > delta


@given(mu=st.floats(1e-9, 1e7), delta=st.floats(1e-300, 0.999))
def test_always_a_number_and_monotone(mu, delta):
    value = gaussian_epsilon(mu, delta)
    assert 0.0 <= value < math.inf
    assert gaussian_epsilon(mu * 1.001, delta) >= value
    assert gaussian_epsilon(mu, delta / 1.001) >= value


def test_small_mu_costs_nothing_only_below_its_total_variation():
    mu = 0.1
    variation = math.erf(mu / math.sqrt(8))
    assert gaussian_epsilon(mu, variation * 1.0001) == 0.0
    assert gaussian_epsilon(mu, variation * 0.9999) > 0.0


def test_total_mu():
    assert total_mu([Phase(0.1, 2.0, 9), Phase(1.0, 0.5, 1)]) == pytest.approx(math.hypot(1.5, 2))
    assert total_mu([Phase(1.0, 0.0, 1)]) == math.inf
    assert total_mu([Phase(1.0, 0.0, 0)]) == 0.0


def test_a_neighbour_changes_the_sum_by_one_bound_or_two():
    plain, cut = Phase(0.1, 2.0, 9), Phase(0.1, 2.0, 9, Draw("truncated-poisson", 100, 12))
    for adjacency, change in [("add-remove", 1), ("zero-out", 1), ("replace-one", 2)]:
        assert total_mu([plain], adjacency) == pytest.approx(1.5 * change)
    # A row that is added pushes another one out; one that is emptied or replaced does not.
    for adjacency, change in [("add-remove", 2), ("zero-out", 1), ("replace-one", 2)]:
        assert total_mu([cut], adjacency) == pytest.approx(1.5 * change)
