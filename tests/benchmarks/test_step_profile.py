import json

import pytest
from click.testing import CliRunner

from benchmarks import step_profile


def test_operations_are_summed_up_by_kind_and_what_contains_them_is_left_out():
    events = [("a/b:MatMul", 4.0), ("c:MatMul", 2.0), ("d/e:Mul", 9.0), ("EagerExecute", 50.0)]
    events += [("ExecutorState::Process", 70.0), ("EagerLocalExecute: __inference_1", 3.0)]
    assert step_profile.by_operation(events, 2) == {"Mul": 4.5, "MatMul": 3.0}


def test_an_operation_has_one_name_on_every_processor():
    events = [("a:_MklMatMul", 1.0), ("b:MatMul", 1.0), ("c:_MklNativeFusedMatMul", 4.0)]
    events += [("d:_FusedMatMul", 4.0)]
    assert step_profile.by_operation(events, 2) == {"FusedMatMul": 4.0, "MatMul": 1.0}


def test_the_longest_operations_stand_side_by_side():
    cells = {"one": {"operations": {"A": 1.0, "B": 2.0}}, "two": {"operations": {"C": 4.0}}}
    lines = step_profile.table(cells).splitlines()
    assert lines[0] == "| ms of a step | one | two |"
    assert lines[2] == "| all operations | 3 | 4 |"
    assert [line.split()[1] for line in lines[3:]] == ["C", "B", "A"]
    assert lines[3] == "| C | - | 4 |"


@pytest.mark.slow
def test_a_profile_names_the_products(tmp_path):
    told = ["--quick", "--results", str(tmp_path)]
    CliRunner().invoke(step_profile.main, [*told, "--seconds", "0"], catch_exceptions=False)
    assert not list(tmp_path.iterdir())
    answer = CliRunner().invoke(step_profile.main, told, catch_exceptions=False)
    assert answer.exit_code == 0
    cells = json.loads((tmp_path / "step_profile_mlp.json").read_text())["cells"]
    assert all(cell["operations"]["MatMul"] > 0 for cell in cells.values())
    # Only the private step reads batches that are made in Python.
    assert "PyFunc" in cells["private"]["operations"]
    assert "PyFunc" not in cells["lipschitz"]["operations"]
    CliRunner().invoke(step_profile.main, [*told, "--net", "mlp-sorted"], catch_exceptions=False)
    cells = json.loads((tmp_path / "step_profile_mlp-sorted.json").read_text())["cells"]
    sorting = {name.split()[1]: "ReverseV2" in cells[name]["operations"] for name in cells}
    assert sorting == {"relu": False, "max_min": True, "group_sort": True}
    CliRunner().invoke(step_profile.main, [*told, "--net", "cnn"], catch_exceptions=False)
    cells = json.loads((tmp_path / "step_profile_cnn.json").read_text())["cells"]
    # Some processors make one operation of a plain convolution and its bias, backward too.
    assert all(cell["operations"]["Conv2DBackpropInput"] > 0 for cell in cells.values())
    # The norm of a window is made of an average of squares.
    assert "AvgPool" in cells["private max_min l2"]["operations"]
    assert "AvgPool" not in cells["private max_min max"]["operations"]
