import math
from dataclasses import replace

import pytest

from lipdp.privacy import Capacity, PrivacyStatement, accountant_library


@pytest.fixture
def statement():
    return PrivacyStatement(
        adjacency="add-remove",
        num_examples=60000,
        expected_batch_size=256,
        sampling_rate=256 / 60000,
        noise_multiplier=1.1,
        steps=14062,
        epsilon=2.3818,
        delta=1e-5,
        accountant="privacy loss distribution",
        accountant_library=accountant_library(),
        capacity=Capacity(376, 6e-13),
        overflow_delta=8.4e-9,
        allocation="optimal",
        other_accesses=("private mean of the inputs, noise multiplier 5",),
    )


def test_every_number_and_assumption_is_named(statement):
    text = " ".join(str(statement).split())
    for part in [
        "(2.3818, 1e-05)-differentially private",
        "one row of the training set",
        "add-remove",
        "one row is added or removed",
        "60000",
        "256 rows",
        "Poisson",
        "0.00426667",
        "Gaussian noise",
        "1.1",
        "14062",
        "privacy loss distribution",
        accountant_library(),
        "376 rows",
        "8.4e-09",
        "optimal",
        "private mean of the inputs",
        "held-out",
        "hyper-parameters",
        "floating-point",
        "the number of rows and the sampling rate are public",
    ]:
        assert part in text, part


def test_epsilon_is_rounded_up(statement):
    told = str(replace(statement, epsilon=2.38181))
    assert "(2.3819, 1e-05)-differentially private" in " ".join(told.split())
    assert "2.3818" not in told


def test_a_private_run_is_not_called_otherwise(statement):
    assert statement.private
    assert "NOT PRIVATE" not in str(statement)
    assert "none recorded" in str(replace(statement, other_accesses=()))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"noise_multiplier": 0.0, "epsilon": math.inf}, "no noise"),
        ({"reproducible": True}, "seed"),
        ({"epsilon": math.inf}, "epsilon is infinite"),
    ],
)
def test_what_is_not_private_says_so_first_and_why(statement, change, reason):
    told = replace(statement, **change)
    assert not told.private
    assert str(told).startswith("NOT PRIVATE")
    assert reason in " ".join(str(told).split())
    assert "differentially private" not in str(told)


def test_no_step_without_noise_is_still_private(statement):
    assert replace(statement, noise_multiplier=0.0, steps=0, epsilon=0.0).private


def test_replacement_is_named(statement):
    told = " ".join(str(replace(statement, adjacency="replace-one")).split())
    assert "one row is replaced by any other" in told


def test_the_library_has_a_version():
    assert accountant_library().split()[1][0].isdigit()
