"""What trials are going to cost, before the first one."""

import math

import pytest

from lipdp.config import SweepSection, load_config
from lipdp.errors import InvalidConfig
from lipdp.sweep.costs import planned_ledgers
from lipdp.sweep.study import Settings
from tests.small_table import write_table

# 300 rows, of which 60 test and 48 choose.
ROWS = 192


@pytest.fixture
def settings(tmp_path):
    write_table(tmp_path)
    files = [f"data.path={tmp_path / 't.csv'}", f"data.schema_path={tmp_path / 't.toml'}"]
    base = ["data.name=", *files, "training.batch_size=30", "privacy.delta=1e-4"]

    def make(space, *more):
        return Settings(load_config(None, [*base, *more]), SweepSection(space=space), 3.0)

    return make


@pytest.mark.slow
def test_every_setting_has_its_cost(settings):
    space = {
        "training.batch_size": [30, 60],
        "privacy.epsilon": [1.0, 2.0],
        "optimizer.learning_rate": {"low": 0.1, "high": 1.0},
    }
    found = planned_ledgers(settings(space, "training.epochs=2"))
    assert [ledger.steps for ledger in found] == 2 * [2 * math.ceil(ROWS / 30)] + 2 * [
        2 * math.ceil(ROWS / 60)
    ]
    rates = [ledger.phases[0].sampling_rate for ledger in found]
    assert rates == pytest.approx(2 * [30 / ROWS] + 2 * [60 / ROWS])
    for ledger, epsilon in zip(found, [1.0, 2.0, 1.0, 2.0], strict=True):
        assert 0.98 * epsilon < ledger.epsilon(1e-4) <= epsilon


def test_private_statistics_are_in_it(settings):
    space = {"preprocess.kind": ["none", "private-standardize"]}
    none, some = planned_ledgers(settings(space, "training.epochs=2", "privacy.epsilon=1.0"))
    assert (len(none.other_accesses), len(some.other_accesses)) == (0, 1)


def test_without_a_finite_cost_nothing_begins(settings):
    space = {"optimizer.learning_rate": [1.0]}
    with pytest.raises(InvalidConfig, match="no finite epsilon"):
        planned_ledgers(settings(space, "privacy.epsilon=8.0", "training.epochs=2"))


def test_a_setting_that_no_trial_can_run_is_refused(settings):
    with pytest.raises(InvalidConfig, match=r"cannot be planned.*batch"):
        planned_ledgers(settings({"training.batch_size": [30, 500]}))
