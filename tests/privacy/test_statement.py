import math
from dataclasses import replace

import pytest

from lipdp.privacy import TRAINING, Access, Phase, PrivacyStatement, Terms, accountant_library

TERMS = Terms(
    sampler="poisson",
    num_units=60000,
    batch_size=256,
    rows_per_unit=1,
    capacity=376,
    mechanism="Gaussian noise on a sum, shared out by 'optimal'",
)
TRAINED = Access(TRAINING, Phase(256 / 60000, 1.1, 14062), 6e-13, TERMS)
MEAN = Access(
    "private mean of the inputs",
    Phase(1.0, 5.0, 1),
    0.0,
    Terms(sampler="full-batch", num_units=60000),
)
USERS = replace(TRAINED, terms=replace(TERMS, unit="user", rows_per_unit=3))


@pytest.fixture
def statement():
    return PrivacyStatement(
        adjacency="add-remove",
        epsilon=2.3818,
        delta=1e-5,
        accountant="privacy loss distribution",
        accountant_library=accountant_library(),
        overflow_delta=8.4e-9,
        accesses=(MEAN, TRAINED),
        other_accesses=("the weights before came from public data",),
    )


def told_of(statement, *accesses):
    return " ".join(str(replace(statement, accesses=accesses)).split())


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
        "Accesses for private mean of the inputs",
        "came from public data",
        "held-out",
        "hyper-parameters",
        "floating-point",
        "the number of rows and the sampling rate are public",
        "errors that depend on private rows",
        "ProgbarLogger",
        "CSVLogger and TensorBoard, if used, put them into files and logs",
    ]:
        assert part in text, part


class TestUnits:
    def test_of_users(self, statement):
        told = told_of(statement, USERS)
        assert "all rows of one user, of which at most 3 take part" in told
        assert "one user is added or removed" in told
        assert "draws each user independently" in told and "each row" not in told
        assert "the rows of a user come together into a batch, at most 3 of them" in told

    def test_a_smaller_part_of_a_user_is_claimed_only_if_no_access_uses_more(self, statement):
        more = replace(USERS, terms=replace(USERS.terms, rows_per_unit=5))
        mean = replace(MEAN, terms=replace(MEAN.terms, unit="user"))
        assert "at most 5 take part" in told_of(statement, USERS, more)
        for told in (told_of(statement, USERS, mean), told_of(statement, mean, more)):
            assert "all rows of one user, and neighbouring" in told and "take part," not in told

    def test_rows_and_users_together_are_nothing_that_is_known(self, statement):
        told = told_of(statement, TRAINED, USERS)
        assert told.startswith("NOT PRIVATE - its accesses speak of different units (row, user)")
        assert "the number of rows and users" in told


class TestNoise:
    GRID, WEAK, TIMES = "exact Gaussian", "non-cryptographic", "the time that drawing noise takes"

    def test_it_is_told_of_what_it_holds_for(self, statement):
        secure = replace(TRAINED, terms=replace(TERMS, secure=True))
        for accesses, expected in {
            (TRAINED,): (0, 1, 0),
            (secure,): (1, 0, 1),
            (secure, TRAINED): (1, 1, 1),
            (): (0, 1, 0),
        }.items():
            told = told_of(statement, *accesses)
            assert (
                tuple(told.count(word) for word in (self.GRID, self.WEAK, self.TIMES)) == expected
            )


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
        ({"accesses": (replace(TRAINED, phase=Phase(1.0, 0.0, 1)), TRAINED)}, "no noise"),
        ({"reproducible": True}, "seed"),
        ({"accesses": (TRAINED, replace(MEAN, terms=Terms(seeded=True)))}, "seed"),
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
    assert replace(statement, accesses=(), epsilon=0.0).private


def test_replacement_is_named(statement):
    told = " ".join(str(replace(statement, adjacency="replace-one")).split())
    assert "one row is replaced by any other" in told


def test_the_library_has_a_version():
    assert accountant_library().split()[1][0].isdigit()
