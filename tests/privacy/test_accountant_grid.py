"""Settings of ``benchmarks.accountant_grid``: quick, sparing, monotone, above lower bounds."""

import itertools
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import accountant_grid as grid

ROOT = Path(__file__).parent.parent.parent

# In a process of its own: the peak memory of this one is that of all its tests.
_RUN = """
import itertools, sys
from benchmarks import accountant_grid as grid
from lipdp.privacy import epsilon

epsilon(0.1, 1.0, 1, 1e-5)
first, last = int(sys.argv[1]), int(sys.argv[2])
for number, setting in enumerate(itertools.islice(grid.settings(last), first, last)):
    for changed in grid.PARAMETERS if number % 5 == 0 else [grid.PARAMETERS[number % 4]]:
        found = grid.answer(setting, changed, compare=number % 4 == 0)
        assert not found.faults, found
"""


@pytest.mark.parametrize(("first", "last"), [(0, 8), pytest.param(8, 60, marks=pytest.mark.slow)])
def test_every_setting_answers_quickly_and_sparingly(first, last):
    command = [sys.executable, "-c", _RUN, str(first), str(last)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_settings_are_the_same_in_every_run():
    assert list(grid.settings(3)) == list(itertools.islice(grid.settings(1000), 3))
    for one in grid.settings(100):
        assert 1e-5 <= one.rate <= 1 and 0.3 <= one.noise <= 100
        assert 1 <= one.steps <= 10**6 and 1e-12 <= one.delta <= 1e-2


def test_every_fault_is_named():
    setting = grid.Setting(0.01, 1.0, 1000, 1e-5)
    right = grid.Answer(setting, 1.83, "", 0.1, 2**28, "rate", 1.9, 127.0, 127.0, 1.8282)
    assert right.faults == []
    wrong = {
        "negative": {"epsilon": -1.0},
        "no number": {"epsilon": float("nan")},
        "took more than 10 s": {"seconds": 11.0},
        "1 GiB": {"peak": 2**31},
        "monotone in rate": {"neighbour": 1.82},
        "monotone in noise": {"changed": "noise"},
        "monotone in delta": {"changed": "delta"},
        "closed form": {"full_batch": 126.0},
        "above the full batch": {"full_batch": 1.0, "closed_form": 1.0},
        "independent": {"epsilon": 1.82},
    }
    for word, change in wrong.items():
        assert any(word in fault for fault in replace(right, **change).faults), word


def test_fewer_orders_excuse_a_small_rise_there_alone():
    below = grid.Setting(0.01, 3.9, 1000, 1e-5)
    found = grid.Answer(below, 1.0, "", 0.1, 2**28, "noise", 1.005, 9.0, 9.0, None)
    assert found.faults == []
    assert replace(found, neighbour=1.02).faults
    assert replace(found, setting=replace(below, noise=3.0)).faults


def test_the_table_names_versions_and_worst_cases(monkeypatch):
    setting = grid.Setting(0.01, 1.0, 1000, 1e-5)
    found = grid.Answer(setting, 1.83, "m", 0.1, 2**28, "rate", 1.9, 127.0, 127.0, 1.8282)
    text = grid.table([found, replace(found, seconds=99.0)], "command")
    for word in ("dp-accounting", "slowest", "took more than 10 s", "seed", "`command`"):
        assert word in text
