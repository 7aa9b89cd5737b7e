import math

import numpy as np
import pytest

from lipdp.errors import InvalidValue, UnknownName
from lipdp.privacy import POISSON, Draw, Phase
from lipdp.privacy.phase import is_number, merge_phases

FIXED = Draw("fixed-size", 1000, 100)


@pytest.mark.parametrize(
    "arguments",
    [
        ("poisson", 5, 0),
        ("poisson", 0, 1),
        ("fixed-size", 0, 0),
        ("fixed-size", 10, 11),
        ("fixed-size", 10, -1),
        ("fixed-size", 10.0, 1),
        ("fixed-size", 10, True),
        ("fixed-size", "10", 1),
        ("truncated-poisson", 10, 0),
        ("truncated-poisson", 0, 1),
        ("truncated-poisson", 2**63, 1),
        ("truncated-poisson", 10, None),
    ],
)
def test_counts_must_fit_the_draw(arguments):
    with pytest.raises(InvalidValue, match="do not fit"):
        Draw(*arguments)


@pytest.mark.parametrize("name", ["shuffled", "", None, ["poisson"]])
def test_other_draws_are_refused(name):
    with pytest.raises(UnknownName):
        Draw(name)


def test_the_rate_of_a_fixed_size_is_its_part_of_the_rows():
    assert Phase(100 / 1000, 1.0, 5, FIXED).sampling_rate == 0.1
    for rate in (0.01, 0.2, 1.0):
        with pytest.raises(InvalidValue, match="part of the rows"):
            Phase(rate, 1.0, 5, FIXED)


@pytest.mark.parametrize("draw", [None, "poisson", ("poisson", 0, 0)])
def test_a_phase_needs_a_draw(draw):
    with pytest.raises(InvalidValue, match="Draw"):
        Phase(0.1, 1.0, 5, draw)


def test_numbers_of_other_types_become_plain():
    phase = Phase(np.float32(0.5), np.int64(2), np.float64(3.0))
    assert phase == Phase(0.5, 2.0, 3, POISSON)
    assert [type(one) for one in (phase.sampling_rate, phase.steps)] == [float, int]


def test_only_real_numbers_are_numbers():
    assert all(is_number(one) for one in (0, -1.5, np.float32(2), math.inf, 10**300))
    assert not any(is_number(one) for one in (None, True, "1", math.nan, 1j, [1], 10**400))


def test_equal_phases_are_added_up_and_other_draws_kept_apart():
    merged = merge_phases([Phase(0.1, 1.0, 5), Phase(0.1, 1.0, 0), Phase(0.1, 1.0, 2, FIXED)] * 2)
    assert merged == (Phase(0.1, 1.0, 4, FIXED), Phase(0.1, 1.0, 10))
    with pytest.raises(InvalidValue, match="steps"):
        merge_phases([Phase(0.1, 1.0, 2**53), Phase(0.1, 1.0, 1)])
