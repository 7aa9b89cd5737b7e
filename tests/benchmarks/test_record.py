import importlib
import json
import sys

import numpy as np
import pytest

from benchmarks import record


def test_a_result_names_command_machine_versions_and_cells(tmp_path):
    cells = {"64": {"plain": {"wall_ms": 1.0}}}
    path = record.write(
        "one",
        cells,
        "| a |\n",
        command="python -m one",
        packages={"numpy": "2"},
        folder=tmp_path / "new",
        unit="seconds",
    )
    found = json.loads(path.read_text())
    assert found["cells"] == cells
    assert (found["command"], found["versions"]) == ("python -m one", {"numpy": "2"})
    assert found["unit"] == "seconds"
    assert found["machine"]["cores"] >= 1
    assert found["machine"]["memory_gib"] > 0
    assert (tmp_path / "new" / "one.md").read_text() == "| a |\n"


def test_versions_are_those_of_the_interpreter_and_leave_out_what_it_lacks():
    found = record.versions(("numpy", "no-such-package"), sys.executable)
    assert set(found) == {"python", "numpy"}
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))


def test_a_table_shows_numbers_shortly_and_what_is_missing():
    assert record.markdown(["a", "b"], [[1.23456, None], [12345.6, "x"]]) == (
        "| a | b |\n| --- | --- |\n| 1.23 | - |\n| 12,346 | x |\n"
    )


@pytest.mark.parametrize("module", ["accounting", "sampler", "certificates", "scale", "end_to_end"])
def test_a_part_without_time_keeps_what_was_measured_before(tmp_path, monkeypatch, module):
    part = importlib.import_module(f"benchmarks.{module}")
    if module == "sampler":
        monkeypatch.setattr(part, "make_rows", lambda path, count: np.zeros((1, 1)))
    cells = {"earlier": {"values": [1], "ms": [2.0]}, "other": record.NO_TIME}
    told = {"command": "c", "folder": tmp_path, "measured": {"earlier": "2026-01-01"}}
    path = record.write(module, cells, "", packages=record.versions(), **told)
    part.main(["--seconds", "0", "--results", str(tmp_path)], standalone_mode=False)
    found = json.loads(path.read_text())
    assert found["cells"]["earlier"] == cells["earlier"]
    assert found["measured"]["earlier"] == "2026-01-01"
