"""Spaces of settings: what can be written, and what is refused."""

import pytest

from lipdp.config import dump_config, load_config, override_config
from lipdp.errors import InvalidConfig

BASE = """
[data]
name = "adult"
[model]
name = "mlp"
widths = [3]
[loss]
name = "tempered_binary_crossentropy"
[optimizer]
name = "SGD"
[privacy]
epsilon = 1.0
"""
SPACE = """
[sweep.space]
"optimizer.learning_rate" = { low = 0.01, high = 4.0, log = true }
"training.batch_size" = [1024, 2048]
"training.epochs" = { low = 2, high = 8, step = 2 }
"model.widths" = [[], [64], [128, 128]]
"""


def load(tmp_path, text):
    (tmp_path / "c.toml").write_text(BASE + text)
    return load_config(tmp_path / "c.toml")


def test_a_space_is_read_and_written(tmp_path):
    config = load(tmp_path, SPACE)
    space = config.sweep.space
    assert space["model.widths"] == [[], [64], [128, 128]]
    assert space["training.epochs"].is_whole and not space["optimizer.learning_rate"].is_whole
    (tmp_path / "again.toml").write_text(dump_config(config, with_sweep=True))
    assert load_config(tmp_path / "again.toml") == config


def test_a_run_does_not_know_it(tmp_path):
    config = load(tmp_path, SPACE)
    assert "sweep" not in config.model_dump(mode="json")
    assert "sweep" not in dump_config(config)
    changed = override_config(config, ["training.epochs=3", "model.widths=[5]"])
    assert (changed.training.epochs, changed.model.options) == (3, {"widths": [5]})
    assert changed.sweep is None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('"optimizer.learning_rate" = { low = 2.0, high = 1.0 }', "low must be less than high"),
        ('"optimizer.learning_rate" = { low = 0.0, high = 1.0, log = true }', "low above 0"),
        ('"optimizer.learning_rate" = { low = 1.0, high = inf }', "optimizer.learning_rate"),
        ('"training.epochs" = { low = 1, high = 5, step = 0.5 }', "must be whole"),
        ('"training.epochs" = { low = 1, high = 5, step = 9 }', "step must lie"),
        ('"training.epochs" = { low = 1, high = 5, step = 1, log = true }', "not both"),
        ('"training.epochs" = { low = 1, high = 5, lag = true }', "did you mean 'log'"),
        ('"training.epochs" = []', "training.epochs"),
        ('"training.epochs" = [3, 3]', "a value twice"),
        ('"training.epochs" = 5', "training.epochs"),
        ('"data.split_seed" = [0, 1]', "'data.split_seed' cannot vary"),
        ('"certificates.radii" = [[0.1]]', "cannot vary"),
        ('"epochs" = [1, 2]', "'epochs' cannot vary"),
        ('"privacy.seed" = [1, 2]', "not private"),
        ('"privacy.adjacency" = ["add-remove"]', "do not add up"),
        ('"training.method" = ["clipless"]', "lipdp compare"),
        ("", "at least 1"),
    ],
)
def test_what_cannot_be_tried_is_refused(tmp_path, line, words):
    with pytest.raises(InvalidConfig, match=words):
        load(tmp_path, f"[sweep.space]\n{line}\n")
