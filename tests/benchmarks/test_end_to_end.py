import sys

import pytest

from benchmarks import end_to_end
from lipdp.results.run import peak_memory_bytes


def test_ratios_are_of_the_same_turn():
    private = [{"wall": 4.0, "cpu": 1.0, "peak": 3.0}, {"wall": 30.0, "cpu": 1.0, "peak": 3.0}]
    plain = [{"wall": 2.0, "cpu": 1.0, "peak": 2.0}, {"wall": 15.0, "cpu": 1.0, "peak": 2.0}]
    found = end_to_end.summary({"clipless": private, "none": plain})
    assert (found["wall_ratio"], found["peak_ratio"], found["turns"]) == (2.0, 1.5, 2)
    assert found["clipless_wall"] == 17.0


def test_a_command_that_fails_says_what_it_said():
    with pytest.raises(RuntimeError, match="no rows"):
        end_to_end.one_run([sys.executable, "-c", "import sys; sys.exit('no rows')"])


def test_memory_is_in_megabytes():
    found = end_to_end.one_run([sys.executable, "-c", "bytearray(2**29)"])
    # What a process was started from counts in its peak, and this one may be large.
    own = (peak_memory_bytes() or 0) / 2**20
    assert 512 < found["peak"] < 2048 + 2 * own
    assert found["wall"] > 0


def test_methods_differ_in_nothing_else(tmp_path):
    private, plain = (
        end_to_end.command("mnist", method, 3, tmp_path, tmp_path) for method in end_to_end.METHODS
    )
    assert [(a, b) for a, b in zip(private, plain, strict=True) if a != b] == [("clipless", "none")]
