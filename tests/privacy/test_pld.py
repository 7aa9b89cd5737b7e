"""What is composed of privacy losses: every step, either neighbour, at a delta that leaves room."""

import math

import pytest

from lipdp.privacy import Draw, Phase
from lipdp.privacy.pld import COARSE, pld_epsilon


def test_full_batches_beside_sampled_ones_count_each():
    """Sixteen of noise multiplier 20 are one of 5."""
    sampled = Phase(0.01, 1.0, 500)
    several, one, none = (
        pld_epsilon([sampled, *full], 1e-5, size=COARSE)
        for full in ([Phase(1.0, 20.0, 16)], [Phase(1.0, 5.0, 1)], [])
    )
    assert several == pytest.approx(one, rel=1e-3)
    assert one > none + 0.1


def test_a_delta_within_the_rounding_has_no_value():
    """A million steps may be off by more than 1e-9 of mass."""
    phases = [Phase(0.01, 4.0, 10**6)]
    assert pld_epsilon(phases, 1e-5, size=COARSE) < math.inf
    assert pld_epsilon(phases, 1e-9, size=COARSE) == math.inf


@pytest.fixture
def sizes(monkeypatch):
    """Rows of the truncated draws that the library is asked for; an odd number costs less."""
    from dp_accounting.pld import privacy_loss_distribution as library

    seen = []

    def made(**options):
        seen.append(options["dataset_size"])
        kept = {"value_discretization_interval": options["value_discretization_interval"]}
        noise = options["noise_multiplier"] * (1.0 + seen[-1] % 2)
        return library.from_gaussian_mechanism(noise, sampling_prob=0.5, **kept)

    name = "from_truncated_subsampled_gaussian_mechanism"
    monkeypatch.setattr(library, name, made, raising=False)
    return seen


# Noise multipliers that no other test has: what was computed once is kept.
@pytest.mark.parametrize(("rows", "noise"), [(10, 3.4567891), (11, 3.4567892)])
def test_the_costlier_of_two_neighbours_of_truncated_draws_counts(sizes, rows, noise):
    """N rows and N + 1, of which either may cost more."""
    phase = Phase(0.5, noise, 20, Draw("truncated-poisson", rows, 6))
    found = pld_epsilon([phase], 1e-5, size=COARSE)
    assert sorted(sizes) == [rows, rows + 1]
    dear = pld_epsilon([Phase(0.5, noise, 20)], 1e-5, size=COARSE)
    cheap = pld_epsilon([Phase(0.5, 2.0 * noise, 20)], 1e-5, size=COARSE)
    assert cheap < 0.8 * dear and found == pytest.approx(dear, rel=0.05)
