"""Options of ``lipdp train`` that choose the mechanism."""

import json

import pytest
from click.testing import CliRunner

from lipdp.cli import COMMANDS
from lipdp.privacy import SAMPLERS

FAST = ["--set", "training.epochs=1", "--set", "training.batch_size=200", "--set"]


def run(*arguments):
    command = ["train", *FAST, "data.limit_rows=1000", "--json", *arguments]
    return CliRunner().invoke(COMMANDS, command, prog_name="lipdp")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--sampling", "shuffled", "--adjacency", "zero-out"], "without amplification"),
        (["--sampling", "fixed-size", "--adjacency", "replace-one"], "fixed size"),
        (["--secure-noise"], "cryptographic generator of the operating system"),
    ],
)
def test_the_statement_follows_the_choice(tmp_path, arguments, words):
    done = run(*arguments, "--output", str(tmp_path / "run"))
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert words in " ".join(result["statement"].split())
    assert result["spent"]["epsilon"] <= 8.0


def test_a_scheme_without_accounting_ends_with_a_sentence(tmp_path):
    done = run("--sampling", "fixed-size", "--output", str(tmp_path / "run"))
    assert done.exit_code == 2
    assert "replace-one" in done.output and "Traceback" not in done.output
    assert list(tmp_path.iterdir()) == []


def test_every_scheme_can_be_chosen():
    (option,) = [p for p in COMMANDS.get_command(None, "train").params if p.name == "sampling"]
    assert list(option.type.choices) == list(SAMPLERS)
