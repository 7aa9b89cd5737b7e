"""``lipdp predict``: a whole file or none, and never over another one unasked."""

from __future__ import annotations

from pathlib import Path

import pytest

from lipdp.errors import InvalidData

WRITTEN = "predicted,radius\na,0.25\nb,0.5\n"


@pytest.fixture
def inputs(tmp_path) -> tuple[Path, Path]:
    (tmp_path / "trained").mkdir()
    (tmp_path / "new.csv").write_text("a\n1\n2\n")
    return Path("trained"), Path("new.csv")


def names(folder: Path) -> set[str]:
    return {p.name for p in folder.iterdir()}


def test_predictions_are_written(run, experiment, inputs, tmp_path):
    folder, data = inputs
    result = run("predict", folder, "--data", data, "-o", "out.csv")
    assert result.exit_code == 0, result.output
    assert "2 rows written to out.csv" in result.stdout
    assert experiment.calls == [{"run": folder, "data": data}]
    assert (tmp_path / "out.csv").read_text() == WRITTEN
    assert names(tmp_path) == {"trained", "new.csv", "out.csv"}


def test_an_existing_output_is_kept(refused, experiment, inputs, tmp_path):
    (tmp_path / "out.csv").write_text("mine")
    text = refused("predict", inputs[0], "--data", inputs[1], "-o", "out.csv")
    assert "'out.csv'" in text
    assert "--overwrite" in text
    assert experiment.calls == []


def test_an_output_that_appears_meanwhile_is_kept(run, experiment, inputs, tmp_path, monkeypatch):
    inner = experiment.predict

    def slow(folder, data):
        (tmp_path / "out.csv").write_text("mine")
        return inner(folder, data)

    import lipdp.run

    monkeypatch.setattr(lipdp.run, "predict", slow)
    result = run("predict", inputs[0], "--data", inputs[1], "-o", "out.csv")
    assert result.exit_code == 2
    assert "already exists" in result.stderr
    assert (tmp_path / "out.csv").read_text() == "mine"
    assert names(tmp_path) == {"trained", "new.csv", "out.csv"}


def test_overwrite_replaces(run, experiment, inputs, tmp_path):
    (tmp_path / "out.csv").write_text("mine")
    result = run("predict", inputs[0], "--data", inputs[1], "-o", "out.csv", "--overwrite")
    assert result.exit_code == 0
    assert (tmp_path / "out.csv").read_text() == WRITTEN


def test_the_data_itself_is_never_the_output(refused, experiment, inputs):
    text = refused("predict", inputs[0], "--data", inputs[1], "-o", "./new.csv", "--overwrite")
    assert "data file itself" in text
    assert experiment.calls == []


def test_a_failed_write_leaves_nothing(run, experiment, inputs, tmp_path, monkeypatch):
    import pandas as pd

    def broken(self, path, **kwargs):
        Path(path).write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_csv", broken)
    result = run("predict", inputs[0], "--data", inputs[1], "-o", "out.csv")
    assert result.exit_code == 2
    assert "No space left on device" in result.stderr
    assert names(tmp_path) == {"trained", "new.csv"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere", "--data", "new.csv", "-o", "o.csv"], ["'nowhere'", "does not exist"]),
        (["trained", "--data", "no.csv", "-o", "o.csv"], ["'no.csv'", "does not exist"]),
        (["trained", "--data", "new.csv"], ["--output"]),
        (["trained", "-o", "o.csv"], ["--data"]),
        (["trained", "--data", "new.csv", "-o", "a/o.csv"], ["a/o.csv", "Create the folder"]),
    ],
)
def test_bad_input_is_refused_first(refused, experiment, inputs, arguments, words):
    text = refused("predict", *arguments)
    assert all(word in text for word in words), text
    assert experiment.calls == []


def test_data_that_does_not_fit_writes_nothing(refused, experiment, inputs):
    experiment.error = InvalidData("A column is missing", received="age", fix="Add it")
    text = refused("predict", inputs[0], "--data", inputs[1], "-o", "out.csv")
    assert "A column is missing. Received: 'age'. Add it." in text
