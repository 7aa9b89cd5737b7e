"""What is kept of a comparison."""

import json

import pandas as pd
import pytest
from click.testing import CliRunner

from benchmarks import comparison


def test_each_run_is_kept_by_the_name_of_its_folder():
    table = pd.DataFrame(
        {
            "folder": ["runs/c/clipless-epsilon1-seed0", "runs/c/none-seed0"],
            "name": ["adult", "adult"],
            "epsilon": [0.99, float("inf")],
            "auroc": [0.9, None],
        }
    )
    kept = comparison.told_of(table)
    assert kept["clipless-epsilon1-seed0"] == {"epsilon": 0.99, "auroc": 0.9}
    assert kept["none-seed0"] == {"epsilon": None, "auroc": None}


def test_the_table_has_means_with_intervals_and_memory_in_mb():
    shares = {"mean": 0.85, "interval": [0.8, 0.9]}, {"mean": 0.8, "interval": None}
    cells = [
        {"method": "clipless", "accuracy": one, "peak_memory_bytes": 941_862_912} for one in shares
    ]
    head, _, *rows = comparison.summary(cells).splitlines()
    assert head == "| method | accuracy | MB |"
    assert rows == ["| clipless | 0.8500 (0.8000-0.9000) | 942 |", "| clipless | 0.8000 | 942 |"]


@pytest.mark.slow
def test_a_comparison_of_one_run(tmp_path):
    told = ["configs/adbench-magic.toml", "--results", str(tmp_path), "--folder"]
    told += [str(tmp_path / "runs"), "--methods", "none", "--seeds", "1"]
    told += ["--set", "training.epochs=1", "--set", f"data.dir={tmp_path / 'none'}"]
    answer = CliRunner().invoke(comparison.main, told)
    # No data there: nothing is written of a comparison that failed.
    assert answer.exit_code != 0 and not list(tmp_path.glob("*.json"))
    told = ["lipdp/config/defaults/adult.toml", *told[1:-2], "--set", "training.batch_size=2048"]
    answer = CliRunner().invoke(comparison.main, told, catch_exceptions=False)
    assert answer.exit_code == 0
    record = json.loads((tmp_path / "comparison_adult.json").read_text())
    assert record["cells"]["none-seed0"]["accuracy"] > 0.7
    assert record["means"][0]["method"] == "none" and record["versions"]["lipdp"]
    assert "| none |" in (tmp_path / "comparison_adult.md").read_text()
