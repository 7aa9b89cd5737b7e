"""An unfinished run whose ledger is gone or too small is not continued, and nobody adds it up."""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from lipdp.cli import COMMANDS
from lipdp.errors import InvalidData, InvalidValue
from lipdp.privacy import PrivacyLedger
from lipdp.privacy.spent import unfinished_ledger
from lipdp.results import RunResult
from lipdp.results.unfinished import LEDGER_FILE, unfinished_folder
from lipdp.run import resume, train

EPOCHS, STEPS = 5, 6


class Interrupting:
    """Raises KeyboardInterrupt after some steps, and keeps the ledger's text at each."""

    def __init__(self, output, after):
        self._path, self._after, self.texts = unfinished_folder(output) / LEDGER_FILE, after, []

    def on_start(self, plan, total_epochs, steps_per_epoch):
        pass

    def on_step(self, epoch, step):
        self.texts.append(self._path.read_text())
        if len(self.texts) == self._after:
            raise KeyboardInterrupt

    def on_epoch(self, epoch, logs):
        pass

    def on_message(self, text):
        pass


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """``(folder, configuration, texts)``: a run that ended at step 16, with a backup of 12."""
    from lipdp.config import load_config
    from tests.small_table import write_table

    folder = tmp_path_factory.mktemp("begun")
    write_table(folder, 600)
    sources = [f"data.path={folder / 't.csv'}", f"data.schema_path={folder / 't.toml'}"]
    sizes = ["training.batch_size=80", f"training.epochs={EPOCHS}", "privacy.delta=1e-4"]
    config = load_config(None, ["data.name=", *sources, "data.target=y", *sizes])
    ears = Interrupting(folder / "run", 2 * STEPS + 4)
    with pytest.raises(KeyboardInterrupt):
        train(config, folder / "run", listener=ears)
    return folder, config, ears.texts


@pytest.fixture
def run(begun, tmp_path):
    """``(output, configuration, texts)`` of a copy of that run, which a test may damage."""
    folder, config, texts = begun
    shutil.copytree(unfinished_folder(folder / "run"), unfinished_folder(tmp_path / "run"))
    return tmp_path / "run", config, texts


def snapshot(folder):
    return {path: path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def delete(path, texts):
    path.unlink()


def roll_back(path, texts):
    path.write_text(texts[STEPS])


def cut(path, texts):
    path.write_text(texts[-1][:-9])


def of_another(path, texts):
    path.write_text(PrivacyLedger().to_json())


DAMAGES = {
    "missing": delete,
    "behind": roll_back,
    "cannot be read": cut,
    "holds less": of_another,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_it_is_refused_and_nothing_is_written(run, tmp_path, damage):
    output, config, texts = run
    path = unfinished_folder(output) / LEDGER_FILE
    assert PrivacyLedger.from_json(path.read_text()).steps == 2 * STEPS + 4
    DAMAGES[damage](path, texts)
    before = snapshot(tmp_path)
    for options in ({}, {"overwrite": True}):
        with pytest.raises(InvalidData, match=f"what the unfinished run spent.*{damage}") as error:
            train(config, output, **options)
    assert str(path) in str(error.value) and "--ledger-lost" in str(error.value)
    answer = CliRunner().invoke(COMMANDS, ["train", "--resume", str(output)])
    assert answer.exit_code == 2 and str(path) in " ".join(answer.output.split())
    assert "Traceback" not in answer.output
    assert snapshot(tmp_path) == before and not output.exists()


def test_a_run_without_a_backup_misses_its_ledger_too(run):
    """All steps of its first epoch may have run."""
    output, config, _ = run
    folder = unfinished_folder(output)
    shutil.rmtree(folder / "backup")
    (folder / LEDGER_FILE).unlink()
    with pytest.raises(InvalidData, match="is missing"):
        train(config, output)


def test_a_model_that_has_spent_more_than_the_ledger_knows(run):
    """What private statistics cost is in both."""
    from lipdp.training import load_model

    output, config, _ = run
    folder = unfinished_folder(output)
    model = load_model(folder / "start.keras", compile=False)
    model.ledger.record(1.0, 9.0, purpose="a private mean")
    model.save(folder / "start.keras")
    with pytest.raises(InvalidData, match="before the first step"):
        train(config, output)


def test_the_way_out_says_so_for_good(run):
    output, config, _ = run
    path = unfinished_folder(output) / LEDGER_FILE
    with pytest.raises(InvalidValue, match="No unfinished run"):
        train(config, output, ledger_lost=True)
    path.unlink()
    ears = Interrupting(output, 1)
    with pytest.raises(KeyboardInterrupt):
        resume(output, ledger_lost=True, listener=ears)
    # The new run goes on like any other, and what it says stays.
    assert PrivacyLedger.from_json(path.read_text()).steps == 1
    with pytest.raises(InvalidValue, match="No unfinished run"):
        resume(output, ledger_lost=True)
    result = resume(output).result
    assert result.spent.steps >= EPOCHS * STEPS
    words = " ".join(result.statement.split())
    assert "an earlier run read these rows, and its ledger was lost" in words
    assert RunResult.load(output / "result.json").statement == result.statement


@pytest.mark.parametrize("damage", ["missing", "cannot be read"])
def test_what_it_spent_counts_as_unknown(run, damage):
    from lipdp.reports.loading import check_all_counted
    from lipdp.sweep.trial import spent_in

    output, _, texts = run
    DAMAGES[damage](unfinished_folder(output) / LEDGER_FILE, texts)
    with pytest.raises(InvalidData):
        unfinished_ledger(output)
    assert spent_in(output, "add-remove").unknown_history
    answer = CliRunner().invoke(COMMANDS, ["account", "runs", str(output)])
    assert answer.exit_code == 2 and LEDGER_FILE in "".join(answer.output.split())
    with pytest.raises(InvalidData, match="ledger"):
        check_all_counted([output])


def test_a_run_that_spent_nothing_yet_has_an_empty_ledger(begun, tmp_path):
    """So that a missing one is told apart from it."""
    _, config, _ = begun

    class Look(Interrupting):
        def on_start(self, plan, total_epochs, steps_per_epoch):
            self.texts.append(self._path.read_text())
            raise KeyboardInterrupt

    ears = Look(tmp_path / "run", 1)
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "run", listener=ears)
    assert PrivacyLedger.from_json(ears.texts[0]).phases == ()
    assert list(tmp_path.iterdir()) == []
