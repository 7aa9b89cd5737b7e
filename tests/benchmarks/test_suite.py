import sys
import time

import pytest

from benchmarks import __main__ as suite


def test_the_plan_ends_within_the_hour_with_time_to_spare():
    ends = suite.ends(suite.PARTS, suite.WHOLE - suite.SPARE)
    assert ends == sorted(ends)
    assert ends[-1] == pytest.approx(60 * (suite.WHOLE - suite.SPARE))
    assert suite.WHOLE <= 60.0
    assert all(part.name in suite.plan(suite.PARTS, 55.0) for part in suite.PARTS)


def test_parts_that_are_named_run_in_the_order_of_the_suite():
    last, first = suite.PARTS[-1], suite.PARTS[0]
    assert suite.chosen([last.name, first.name]) == [first, last]
    assert suite.chosen([]) == list(suite.PARTS)


def test_a_part_is_told_its_time_and_only_options_that_it_has(tmp_path):
    told = suite.Told(tmp_path, tmp_path / "environments", tmp_path, quick=True)
    for part in suite.PARTS:
        command = suite.command(part, 61.7, told)
        assert command[command.index("--seconds") + 1] == "62"
        assert ("--environments" in command) == part.environments
        assert ("--data-dir" in command) == part.data
        assert "--quick" in command


def test_a_part_that_fails_or_hangs_is_named_and_ended():
    assert suite.run_part([sys.executable, "-c", ""], 30.0) == ""
    assert "3" in suite.run_part([sys.executable, "-c", "raise SystemExit(3)"], 30.0)
    start = time.monotonic()
    assert suite.run_part([sys.executable, "-c", "import time; time.sleep(60)"], 0.5)
    assert time.monotonic() - start < 30


def test_what_a_part_started_ends_with_it(tmp_path):
    late = tmp_path / "late"
    worker = f"import pathlib, time; time.sleep(3); pathlib.Path({str(late)!r}).touch()"
    part = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {worker!r}])"
    assert suite.run_part([sys.executable, "-c", part], 1.0) == "took too long"
    time.sleep(3)
    assert not late.exists()


def test_time_that_a_part_leaves_goes_to_the_next(monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr(suite, "run_part", lambda told, _: seen.append(told) or "")
    told = suite.Told(tmp_path, tmp_path)
    parts = [suite.Part("a", "a", 1), suite.Part("b", "b", 1)]
    assert suite.run_parts(parts, 2.0, told) == []
    first, second = (float(one[one.index("--seconds") + 1]) for one in seen)
    assert first == pytest.approx(60, abs=5)
    assert second == pytest.approx(120, abs=5)


@pytest.mark.parametrize(
    ("part", "made"),
    [
        ("sampler", set()),
        ("mlp-jax", {"jax"}),
        ("parts-tensorflow", set()),
        ("parts-jax", {"jax"}),
        ("mlp-peers", {"opacus", "jax-privacy", "tensorflow-privacy"}),
    ],
)
def test_only_environments_that_are_needed_are_made_and_a_failure_is_said(
    part, made, monkeypatch, tmp_path, capsys
):
    seen = set()

    def interpreter(name, _):
        seen.add(name)
        raise RuntimeError(f"no {name}")

    monkeypatch.setattr(suite, "interpreter", interpreter)
    suite.make_environments(suite.chosen([part]), tmp_path)
    assert seen == made
    said = capsys.readouterr().err
    assert all(f"no {name}" in said for name in made)
