"""What a command leaves behind that shares its storage with another one."""

import json
import math
from datetime import timedelta
from pathlib import Path

import pytest

from lipdp.sweep import sweep
from lipdp.sweep.claims import claim
from lipdp.sweep.trial import run_trial
from lipdp.sweep.worker import run_name, work


@pytest.fixture
def command(monkeypatch):
    """The command after its trials, without a report of runs that were never trained."""
    monkeypatch.setattr("lipdp.sweep.run._report", lambda result, place: None)

    def call(settings, place, trials=1):
        config = settings.config.model_copy(update={"sweep": settings.sweep})
        output = Path(place.output)
        sweep(config, output, trials=trials, storage=place.storage, study=place.study)
        return json.loads((output / "sweep.json").read_text())["choosing"]

    return call


class Killed(BaseException):
    """The end of a process that can do nothing more."""


@pytest.fixture
def die(monkeypatch):
    """Kills the command where it would call something."""

    def killed(*given, **options):
        raise Killed

    return lambda where: monkeypatch.setattr(where, killed)


@pytest.fixture
def ended(make_settings, begin, training, command):
    """A sweep of one trial that has ended, and its files that say what was spent."""
    settings = make_settings()
    study, place = begin(settings, trials=1)
    work(study, settings, place, training())
    assert command(settings, place)["final"]
    output = Path(place.output)
    names = ("sweep.json", "report.html", "report.json", "trials/000/guarantee.txt")
    claims = [output / name for name in names]
    for report in claims[1:3]:
        report.write_text("What the only trial cost.\n")
    assert all(path.is_file() for path in claims)
    return settings, place, claims


def test_what_was_said_is_withdrawn_before_more_trials_begin(ended, command, die):
    settings, place, claims = ended
    # Of a trial that was chosen by an earlier command.
    earlier = place.folder / "another" / "guarantee.txt"
    earlier.parent.mkdir()
    earlier.write_text("An old one.\n")
    die("lipdp.sweep.run.Workers")
    with pytest.raises(Killed):
        command(settings, place, trials=3)
    assert [path.name for path in [*claims, earlier] if path.exists()] == []


def test_what_was_said_stands_where_no_trial_begins(ended, command, die):
    settings, place, claims = ended
    die("lipdp.sweep.run._result")
    with pytest.raises(Killed):
        command(settings, place, trials=1)
    assert all(path.is_file() for path in claims)


def test_a_guarantee_is_written_whole_or_not_at_all(ended, command, die, monkeypatch):
    settings, place, (*_, guarantee) = ended
    guarantee.write_text("An old one.\n")
    monkeypatch.setattr("lipdp.sweep.SweepResult.save", lambda result, path: None)
    die("pathlib.Path.replace")
    with pytest.raises(Killed):
        command(settings, place)
    assert guarantee.read_text() == "An old one.\n"


def test_no_guarantee_is_written_while_another_machine_trains(
    make_settings, begin, training, tmp_path, command
):
    settings = make_settings()
    study, place = begin(settings, trials=2)
    theirs = claim(study, 2, tmp_path / "other", run_name)
    work(study, settings, place, training(reaches=lambda config, epoch: 1.0))
    guarantee = place.folder / "001" / "guarantee.txt"
    guarantee.write_text("An old one.\n")
    cost = command(settings, place)
    assert not cost["final"] and cost["together"] == "inf" and cost["unknown_trials"] == [0]
    assert not guarantee.exists()

    run_trial(study, theirs, settings, training())
    cost = command(settings, place)
    assert cost["final"] and math.isfinite(cost["together"])
    assert "among 2 trials" in guarantee.read_text()


def test_a_trial_that_was_never_claimed_keeps_no_guarantee_back(
    make_settings, begin, training, command, monkeypatch
):
    settings = make_settings()
    study, place = begin(settings, trials=1)
    work(study, settings, place, training())
    study.ask()
    assert not command(settings, place)["final"]
    monkeypatch.setattr("lipdp.sweep.claims._UNCLAIMED", timedelta(-1))
    assert command(settings, place)["final"]
