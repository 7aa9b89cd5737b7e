"""TensorBoard files of a run hold epsilon and held-out metrics, and no exact training numbers."""

import importlib.util

import pytest

from lipdp.errors import InvalidConfig
from lipdp.experiment import train


def test_files_hold_public_numbers_alone(make_config, tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    board = tmp_path / "board"
    train(make_config(f"training.tensorboard={board}", "training.epochs=2"), tmp_path / "run")
    found = {}
    for part in ("train", "validation"):
        events = accumulator.EventAccumulator(str(board / part))
        events.Reload()
        found[part] = set(events.Tags()["tensors"]) | set(events.Tags()["scalars"])
    assert found["train"] == {"epoch_epsilon", "epoch_learning_rate"}
    assert {"epoch_loss", "epoch_accuracy", "evaluation_loss_vs_iterations"} <= found["validation"]
    # Beside these two folders there is nothing that could hold more.
    assert sorted(p.name for p in board.iterdir()) == ["train", "validation"]


def test_without_the_package_the_error_says_what_to_install(make_config, tmp_path, monkeypatch):
    whole = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "tensorboard" else whole(name)
    )
    with pytest.raises(InvalidConfig, match="pip install tensorboard"):
        train(make_config("training.tensorboard=board"), tmp_path / "run")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["t.csv", "t.toml"]
