import json

from benchmarks import speed_figure, speed_page
from benchmarks.record import write

CELLS = {
    "64": {
        "plain": {"turns": 5, "wall_ms": 2.0, "wall_ratio": 1.0, "growth_mb": 100.0},
        "private relu": {"wall_ms": 3.0, "wall_ratio": 1.5, "growth_mb": 150.0},
        "hooks": {"skipped": "over 8 GB"},
    },
    "256": {"skipped": "no time left"},
}


def results(folder):
    for name in ("step_time_mlp_opacus", "step_time_mlp_tensorflow"):
        write(name, CELLS, "", command="c", packages={"keras": "3.1"}, folder=folder)
    return folder


def test_the_page_names_the_machine_versions_ratios_and_reasons(tmp_path):
    page = speed_page.page(results(tmp_path))
    machine = json.loads((tmp_path / "step_time_mlp_opacus.json").read_text())["machine"]
    assert machine["processor"] in page
    assert page.count("Machine:") == 1
    assert "keras 3.1" in page
    assert "| 64 | 5 | 2.00 | 100.00 | 1.50 | over 8 GB |" in page
    assert "| 64 | 1.50 | over 8 GB |" in page
    assert page.index("lipdp on tensorflow") < page.index("opacus")


def test_growth_is_no_ratio_to_a_process_that_hardly_grew():
    small = {"plain": {"growth_mb": 0.4}, "private relu": {"growth_mb": 42.0}}
    assert "| 64 | 42 MB |" in speed_page.memory_table({"64": small})


def test_peaks_of_private_processes_stand_over_those_of_the_same_network():
    cell = {"private relu": {"peak_mb": 950.0}, "lipschitz relu": {"peak_mb": 1000.0}}
    table = speed_page.peak_table({"64": cell, "256": {"skipped": "no time left"}})
    assert "| 64 | 0.95 |" in table and "| 256 | - |" in table
    assert speed_page.peak_table({"64": {"hooks": {"peak_mb": 1.0}}}) == ""


def test_parts_without_a_result_have_no_section(tmp_path):
    assert "## Certificates" not in speed_page.page(results(tmp_path))
    write("certificates", {}, "", command="c", packages={}, folder=tmp_path)
    assert "## Certificates" in speed_page.page(tmp_path)


def test_only_private_steps_that_ran_are_drawn(tmp_path):
    assert list(speed_figure.lines(CELLS)) == [("private relu", [64], [1.5])]
    path = tmp_path / "new" / "speed.png"
    speed_figure.draw({"MLP": {"opacus": CELLS}, "CNN": {}}, path)
    assert path.read_bytes().startswith(b"\x89PNG")
