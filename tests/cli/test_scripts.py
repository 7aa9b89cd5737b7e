"""What a script relies on: JSON alone on stdout, silence, errors on stderr, exit codes."""

from __future__ import annotations

import json

import pytest

ACCOUNT = ["--sampling-rate", 0.01, "--noise-multiplier", 1, "--steps", 10, "--delta", 1e-5]
JSON = {
    "train": ["train", "--output", "out"],
    "train --resume": ["train", "--resume", "out"],
    "predict": ["predict", "run", "--data", "my.csv", "-o", "p.csv"],
    "bounds": ["bounds"],
    "list": ["list"],
    "list losses": ["list", "losses"],
    "account epsilon": ["account", "epsilon", *ACCOUNT],
    "account curve": ["account", "curve", *ACCOUNT, "--points", 2],
    "account noise": [
        "account",
        "noise",
        "--epsilon",
        3,
        "--accountant",
        "rdp",
        *ACCOUNT[:2],
        *ACCOUNT[4:],
    ],
}


@pytest.fixture
def folder(experiment, run, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "my.csv").write_text("a,y\n1,0\n")
    return tmp_path


@pytest.mark.parametrize("command", JSON)
def test_json_is_all_there_is_on_stdout(folder, run, command):
    result = run(*JSON[command], "--json")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    assert json.loads(result.stdout)


@pytest.mark.parametrize("command", ["train", "train --resume", "predict"])
def test_quiet_writes_nothing(folder, run, command):
    result = run(*JSON[command], "--quiet")
    assert (result.exit_code, result.output) == (0, "")


@pytest.mark.parametrize("command", JSON)
def test_an_error_leaves_stdout_empty(folder, run, command):
    result = run(*JSON[command], "--json", "--surely-no-option")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--surely-no-option" in result.stderr


@pytest.mark.parametrize("command", sorted({words.split()[0] for words in JSON} | {"schema"}))
def test_help_says_what_a_command_does_and_shows_its_options(run, command):
    result = run(command, "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: lipdp {command} ")
    assert "--help" in result.stdout and len(result.stdout.splitlines()) > 6
