import json
import tomllib

from lipdp.config import load_config


def test_what_is_shown_is_a_configuration(run, tmp_path):
    changed = run("config", "show", "--set", "privacy.epsilon=2.5", "--set", "model.widths=[7]")
    assert changed.exit_code == 0
    (tmp_path / "mine.toml").write_text(changed.stdout)
    config = load_config(tmp_path / "mine.toml")
    assert config == load_config(None, ["privacy.epsilon=2.5", "model.widths=[7]"])
    # Defaults that no file names are there to be edited.
    assert 'sampling = "poisson"' in changed.stdout
    again = run("config", "show", "mine.toml", "--json")
    assert json.loads(again.stdout)["privacy"]["epsilon"] == 2.5


def test_a_sweep_is_shown_too(run, tmp_path):
    text = run("config", "show").stdout
    (tmp_path / "s.toml").write_text(text + '\n[sweep.space]\n"training.epochs" = [1, 2]\n')
    shown = run("config", "show", "s.toml").stdout
    assert tomllib.loads(shown)["sweep"]["space"] == {"training.epochs": [1, 2]}


def test_a_bad_override_is_refused(refused):
    assert "did you mean 'epochs'" in refused("config", "show", "--set", "training.epoch=3")
