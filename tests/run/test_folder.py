"""The folder of a run: what it replaces, what it keeps, and what killed processes leave."""

import json
import os
import subprocess
import sys

import pytest

from lipdp.errors import InvalidValue
from lipdp.run.folder import RUN_FILES, RunFolder, locked
from lipdp.training.ledger_file import remove_lock
from tests.run.test_compare import EMPTY


def fill(folder, text="old"):
    folder.mkdir(parents=True, exist_ok=True)
    for name in RUN_FILES:
        (folder / name).write_text(text)
    (folder / "result.json").write_text(json.dumps({**EMPTY, "config": {}}))


def files(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def publish(path, overwrite=True, meanwhile=lambda: None):
    with RunFolder(path, overwrite=overwrite) as staging:
        fill(staging, "new")
        meanwhile()


@pytest.fixture
def dead():
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def thesis(folder):
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "thesis.txt").write_text("years")


def test_a_run_is_replaced(tmp_path):
    fill(tmp_path / "out")
    publish(tmp_path / "out")
    assert (tmp_path / "out" / "train.log").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_an_empty_folder_is_taken(tmp_path, overwrite):
    (tmp_path / "out").mkdir()
    publish(tmp_path / "out", overwrite)
    assert files(tmp_path / "out") == set(RUN_FILES)


@pytest.mark.parametrize("run", [False, True], ids=["no run", "beside a run"])
def test_foreign_files_are_never_replaced(tmp_path, run):
    out = tmp_path / "out"
    thesis(out)
    if run:
        fill(out)
    before = files(tmp_path)
    with pytest.raises(InvalidValue, match=r"sub/thesis\.txt.*Choose another --output, or move"):
        RunFolder(out, overwrite=True)
    assert files(tmp_path) == before


def test_names_of_runs_alone_make_no_run(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "config.toml").write_text("mine")
    (out / "result.json").write_text("{}")
    with pytest.raises(InvalidValue, match=r"config\.toml.*result\.json"):
        RunFolder(out, overwrite=True)
    assert files(out) == {"config.toml", "result.json"}


def test_a_folder_or_link_with_the_name_of_a_file_is_foreign(tmp_path):
    for kind in ("folder", "link"):
        out = tmp_path / kind
        fill(out)
        (out / "model.keras").unlink()
    thesis(tmp_path / "folder" / "model.keras")
    (tmp_path / "link" / "model.keras").symlink_to(tmp_path / "folder")
    for kind in ("folder", "link"):
        with pytest.raises(InvalidValue, match=r"model\.keras"):
            RunFolder(tmp_path / kind, overwrite=True)


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_came_while_it_trained_stays(tmp_path, overwrite):
    out = tmp_path / "out"
    with pytest.raises(InvalidValue, match="is finished") as caught:
        publish(out, overwrite, meanwhile=lambda: thesis(out))
    assert files(out) == {"sub/thesis.txt"}
    assert files(tmp_path / "out-2") == set(RUN_FILES)
    assert "out-2" in str(caught.value)
    assert {path.name for path in tmp_path.iterdir()} == {"out", "out-2"}


def test_a_run_that_came_while_another_trained_stays(tmp_path):
    out = tmp_path / "out"
    with pytest.raises(InvalidValue, match="not empty"):
        publish(out, overwrite=False, meanwhile=lambda: fill(out))
    assert (out / "train.log").read_text() == "old"
    assert (tmp_path / "out-2" / "train.log").read_text() == "new"


def test_a_link_leads_to_the_new_run(tmp_path):
    fill(tmp_path / "disk" / "run")
    (tmp_path / "out").symlink_to(tmp_path / "disk" / "run")
    publish(tmp_path / "out")
    assert (tmp_path / "out").is_symlink()
    assert (tmp_path / "disk" / "run" / "train.log").read_text() == "new"
    assert [path.name for path in (tmp_path / "disk").iterdir()] == ["run"]


def test_a_failure_leaves_nothing(tmp_path):
    def fail():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        publish(tmp_path / "a" / "out", meanwhile=fail)
    assert list(tmp_path.iterdir()) == []


def test_leftovers_of_dead_processes_go(tmp_path, dead):
    # A process of a container may have had the number of this one.
    left = [tmp_path / f".out.{number}.partial" for number in (dead, os.getpid())]
    for folder in left:
        fill(folder)
    with RunFolder(tmp_path / "out", overwrite=False) as staging:
        assert not left[0].exists() and list(staging.iterdir()) == []
        fill(left[0])
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_nothing_else_goes(tmp_path, dead):
    kept = (
        f".out.{os.getppid()}.partial",
        f".out.0{dead}.partial",
        f".out.{dead}.partial.zip",
        f".out.{10**30}.partial",
        ".out.mine.partial",
        f".xout.{dead}.partial",
        f".out.b.{dead}.partial",
        f"out.{dead}.partial",
        ".out.unfinished",
    )
    for name in kept:
        fill(tmp_path / name)
    (tmp_path / f".out.{dead}.partial").symlink_to(tmp_path / kept[0])
    publish(tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} == {*kept, "out", f".out.{dead}.partial"}
    assert all(len(files(tmp_path / name)) == len(RUN_FILES) for name in kept)


def test_a_locked_folder_stays_whatever_its_number(tmp_path, dead):
    """Another machine or container has numbers of its own."""
    folder = tmp_path / f".out.{dead}.partial"
    fill(folder)
    held = locked(folder)
    publish(tmp_path / "out")
    assert folder.is_dir()
    remove_lock(held)
    publish(tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_run_holds_the_lock_of_its_files(tmp_path):
    with RunFolder(tmp_path / "out", overwrite=False) as staging:
        assert locked(staging) is None
        fill(staging)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
