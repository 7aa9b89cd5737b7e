import json

import pytest

from benchmarks import cells, clock, record
from benchmarks.clock import Clock

PLAIN = {"turns": 5, "wall_ms": 2.0, "wall_ratio": 1.0, "cpu_ratio": 1.0, "growth_mb": 100.0}
PRIVATE = {"wall_ms": 3.0, "wall_ratio": 1.5, "cpu_ratio": 1.4, "growth_mb": 120.0}


def run(tmp_path, batches, within=None):
    path = cells.run_cells(
        "one", lambda batch: {}, batches, 3, command="c", packages={}, clock=within, folder=tmp_path
    )
    return json.loads(path.read_text())["cells"]


@pytest.mark.parametrize("net", cells.BATCHES)
def test_a_turn_has_two_to_a_hundred_steps_and_fewer_of_larger_batches(net):
    counts = [cells.steps_of(net, batch) for batch in sorted(cells.BATCHES[net])]
    assert counts == sorted(counts, reverse=True)
    assert min(counts) >= 2
    assert max(counts) <= 100


def test_cells_are_in_order_of_size_whatever_order_they_ran_in(tmp_path, monkeypatch):
    monkeypatch.setattr(cells, "race", lambda *_, **__: {"plain": PLAIN, "private": PRIVATE})
    found = run(tmp_path, (1024, 64))
    assert list(found) == ["64", "1024"]
    assert found["64"]["private"] == PRIVATE


def test_without_time_nothing_runs_and_the_cell_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(cells, "race", lambda *_, **__: pytest.fail("ran"))
    assert run(tmp_path, (64,), Clock(0.0)) == {"64": {"skipped": "no time left"}}


@pytest.mark.parametrize(("seconds", "begun"), [(140.0, 1), (151.0, 2), (251.0, 3), (1e6, 3)])
def test_none_begins_that_would_pass_its_time_by_half_of_the_longest(
    tmp_path, monkeypatch, seconds, begun
):
    now = [0.0]
    monkeypatch.setattr(clock.time, "monotonic", lambda: now[0])

    def race(*_, **__):
        now[0] += 100.0
        return {"plain": PLAIN}

    monkeypatch.setattr(cells, "race", race)
    found = run(tmp_path, (64, 256, 1024), Clock(seconds, start=0.0))
    assert ["plain" in cell for cell in found.values()] == [i < begun for i in range(3)]


def test_cells_of_an_earlier_run_stay_unless_measured_anew_or_made_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(cells, "race", lambda *_, **__: {"plain": PLAIN})
    run(tmp_path, (64, 1024))
    monkeypatch.setattr(cells, "race", lambda *_, **__: {"plain": PLAIN, "private": PRIVATE})
    found = run(tmp_path, (256, 64))
    assert list(found) == ["64", "256", "1024"]
    assert "private" in found["64"] and "private" not in found["1024"]
    assert run(tmp_path, (64,), Clock(0.0)) == found
    days = json.loads((tmp_path / "one.json").read_text())["measured"]
    assert set(days) == {"64", "256", "1024"} and len(set(days.values())) == 1
    monkeypatch.setattr(
        record, "machine", lambda: {"processor": "x", "cores": 2, "memory_gib": 1.0}
    )
    assert run(tmp_path, (64,), Clock(0.0)) == {"64": {"skipped": "no time left"}}


def test_a_race_that_fails_leaves_its_reason_and_the_others(tmp_path, monkeypatch):
    results = iter([RuntimeError("a worker\nended"), {"plain": PLAIN}])

    def race(*_, **__):
        found = next(results)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(cells, "race", race)
    assert run(tmp_path, (64, 256)) == {
        "64": {"skipped": "a worker ended"},
        "256": {"plain": PLAIN},
    }


def test_the_table_shows_ratios_and_reasons():
    found = cells.table(
        {
            "64": {"plain": PLAIN, "private": PRIVATE, "hooks": {"skipped": "over 8 GB"}},
            "256": {"skipped": "no time left"},
        }
    )
    lines = found.splitlines()
    assert lines[0] == "| batch | turns | plain: ms | MB | private | hooks |"
    assert lines[2] == "| 64 | 5 | 2.00 | 100.00 | 1.50 | over 8 GB |"
    assert lines[3].count("no time left") == 5
