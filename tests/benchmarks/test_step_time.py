import json
import sys
from pathlib import Path

import pytest

from benchmarks import cells, step_time


@pytest.mark.parametrize("net", step_time.STYLES)
def test_each_style_runs_with_and_without_privacy_and_all_else_is_equal(net):
    found = step_time.contenders(net, 256, 7, "jax", "/some/python")
    assert len(found) == 1 + 2 * len(step_time.STYLES[net])
    for one in found.values():
        assert (one.python, one.variables) == ("/some/python", {"KERAS_BACKEND": "jax"})
        assert (one.cell["net"], one.cell["batch"], one.cell["steps"]) == (net, 256, 7)
    kinds = [one.cell["kind"] for one in found.values()]
    assert kinds.count("private") == kinds.count("lipschitz") == len(step_time.STYLES[net])


def test_without_environments_the_running_interpreter_races(tmp_path, monkeypatch):
    raced = []
    monkeypatch.setattr(cells, "race", lambda all_of, *_, **__: raced.append(all_of) or {})
    path = step_time.run("mlp", "jax", (64, 256), 3, None, folder=tmp_path)
    assert path == Path(tmp_path, "step_time_mlp_jax.json")
    assert {one.python for found in raced for one in found.values()} == {sys.executable}
    assert [found["plain"].cell["batch"] for found in raced] == [64, 256]
    assert json.loads(path.read_text())["versions"]["keras"]
