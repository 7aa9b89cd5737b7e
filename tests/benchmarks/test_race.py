"""Races of workers that sleep."""

import os

import pytest

from benchmarks.clock import Clock
from benchmarks.race import ROOT, Contender, Limits, race

WORKER = """
import time
from benchmarks.workers.turns import serve

serve(lambda cell: lambda: time.sleep(cell["seconds"] * cell["steps"]))
"""


@pytest.fixture
def contender(tmp_path):
    (tmp_path / "sleeper.py").write_text(WORKER)
    variables = {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}

    def make(seconds, steps=2):
        cell = {"seconds": seconds, "steps": steps}
        return Contender("sleeper", cell, variables=variables)

    return make


def test_costs_are_of_a_step_and_ratios_to_the_base(contender):
    found = race({"plain": contender(0.02), "slow": contender(0.1)}, "plain", 3)
    assert found["plain"]["turns"] == found["slow"]["turns"] == 3
    assert found["slow"]["wall_ms"] >= 100.0
    assert found["plain"]["wall_ratio"] == 1.0
    # Sleeps are never shorter, and on a loaded machine longer.
    assert 1.0 < found["slow"]["wall_ratio"] < 10.0


def test_who_is_too_slow_takes_no_more_turns_and_the_others_do(contender):
    limits = Limits(step_seconds=0.05)
    found = race({"plain": contender(0.001), "slow": contender(0.2)}, "plain", 2, limits=limits)
    assert found["plain"]["turns"] == 2
    assert list(found["slow"]) == ["skipped"]


@pytest.mark.parametrize(("turns", "taken"), [(1, 1), (5, 3)])
def test_without_time_three_turns_count(contender, turns, taken):
    found = race({"plain": contender(0.01)}, "plain", turns, clock=Clock(0.0))
    assert found["plain"]["turns"] == taken


def test_no_turn_begins_that_is_likely_to_pass_the_time(contender):
    plain = {"plain": contender(1.0, steps=1)}
    clock = Clock(6.9)
    turns = race(plain, "plain", 50, clock=clock)["plain"]["turns"]
    assert 3 <= turns <= 5
    # One turn longer at most, if the machine was slow to begin.
    assert clock.left > -2.0
