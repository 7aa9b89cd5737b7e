import pytest

from benchmarks import scale


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0])
def test_growth_is_the_exponent(exponent):
    values = [10, 100, 1000]
    assert scale.growth(values, [3.0 * v**exponent for v in values]) == pytest.approx(exponent)


def test_a_cell_tells_growth_at_the_end_from_that_of_the_whole():
    found = scale.cell([1, 10, 100], [1.0, 1.0, 10.0])
    assert found["growth"] == pytest.approx(0.5)
    assert found["growth_at_the_end"] == pytest.approx(1.0)
    assert "growth" not in scale.cell([1], [1.0])


def test_values_without_a_time_are_left_out():
    raced = [{"plain": {"wall_ms": 1.0}}, {"skipped": "no time left"}]
    assert scale.step_cells("width", (2, 4), raced) == {
        "plain step by width": {"values": [2], "ms": [1.0]}
    }


def test_one_number_changes_at_a_time():
    for kind, one in scale.contenders("width", 512, 3).items():
        told = {"depth": 2, "width": 512, "classes": 10, "batch": scale.BATCH, "steps": 3}
        assert one.cell == {**told, "kind": kind}


def test_the_table_has_a_row_a_cost():
    found = scale.table({"draw by rows": scale.cell([10, 1000], [1.0, 100.0])})
    assert "| draw by rows | 10, 1,000 | 1, 100 | 1 | 1 |" in found
