"""TensorBoard files hold epsilon and held-out metrics, no exact numbers, and lie in no run."""

import importlib.util
from pathlib import Path

import pytest

from lipdp.errors import InvalidConfig, InvalidValue
from lipdp.run import train
from lipdp.run.callbacks import check_board, check_board_of_runs
from lipdp.run.compare import compare, planned_runs


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


@pytest.fixture
def places(tmp_path, monkeypatch):
    """The present folder holds ``disk``, in which ``run`` is not there yet, and a link to it."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to("disk")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("output", ["disk/run", "link/run", "disk/../link/run"])
@pytest.mark.parametrize("board", ["disk/run", "link/run/", "disk/run/a/b", "link/../disk/run/a"])
@pytest.mark.parametrize("whole", [False, True])
def test_a_board_in_the_run_is_refused(places, output, board, whole):
    output = Path(output).absolute() if whole else Path(output)
    with pytest.raises(InvalidValue, match=f"{output}, .*{board}.*outside it"):
        check_board(board, output)


@pytest.mark.parametrize("board", [None, ".", "disk", "link", "disk/run-2", "disk/run/../board"])
def test_a_board_beside_or_around_the_run_is_not(places, board):
    check_board(board, Path("link/run"))


def test_a_link_as_output_is_what_it_leads_to(places):
    Path("out").symlink_to("disk/run")
    for board in ("disk/run/board", "out/board", "out"):
        with pytest.raises(InvalidValue):
            check_board(board, Path("out"))


def test_a_board_where_runs_will_lie_is_refused(places):
    for board in ("disk/000", "link/000/board"):
        with pytest.raises(InvalidValue, match="disk, "):
            check_board_of_runs(board, Path("disk"))
    for board in (None, ".", "disk", "board"):
        check_board_of_runs(board, Path("link"))


def test_nothing_is_trained_into_a_board(make_config, tmp_path):
    before = sorted(tmp_path.iterdir())
    with pytest.raises(InvalidValue, match="TensorBoard"):
        train(make_config(f"training.tensorboard={tmp_path / 'run' / 'board'}"), tmp_path / "run")
    assert sorted(tmp_path.iterdir()) == before


def test_no_run_of_a_comparison_may_be_a_board(make_config, tmp_path):
    """The other runs would write into the place of that one."""
    board, before = tmp_path / "out" / "none-seed1", sorted(tmp_path.iterdir())
    config = make_config(f"training.tensorboard={board}")
    with pytest.raises(InvalidValue, match="none-seed1, "):
        compare(planned_runs(config, [1.0], 2, ["none"]), tmp_path / "out")
    assert sorted(tmp_path.iterdir()) == before
