import numpy as np
import pytest

from benchmarks import sampler

COUNT, BATCH = 3_000, 64


def test_all_ways_read_whole_rows_of_the_file(tmp_path):
    x = sampler.make_rows(tmp_path / "rows.npy", COUNT)
    assert isinstance(x, np.memmap)
    assert x.shape == (COUNT, sampler.COLUMNS)
    ways = sampler.actions(x, BATCH)
    np.testing.assert_array_equal(ways["file_order"](), x[:BATCH])
    np.testing.assert_array_equal(ways["file_order"](), x[BATCH : 2 * BATCH])
    known = set(map(bytes, x))
    assert all(bytes(row) in known for row in ways["random_rows"]())
    rows, _, mask = ways["private_batch"]()
    taken = mask.astype(bool)
    assert 0 < taken.sum() < 4 * BATCH
    assert all(bytes(row) in known for row in rows[taken])
    assert not rows[~taken].any()


def test_a_result_says_what_a_drawn_row_costs(tmp_path):
    found = sampler.measured(sampler.make_rows(tmp_path / "rows.npy", COUNT), BATCH, turns=1)
    assert found["draw_ns_per_row"] * BATCH == pytest.approx(1e6 * found["draw_ms"])
    # The table writes large numbers in another way, which a busy machine reaches.
    assert "| 321 |" in sampler.table({"x": {**found, "draw_ns_per_row": 321.0}})
