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

    def call(settings, place):
        config = settings.config.model_copy(update={"sweep": settings.sweep})
        output = Path(place.output)
        sweep(config, output, trials=1, storage=place.storage, study=place.study)
        return json.loads((output / "sweep.json").read_text())["choosing"]

    return call


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
