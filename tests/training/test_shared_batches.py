"""Batches of several processes, read one beside the other in this one."""

import numpy as np
import pytest

from lipdp.errors import InvalidState
from lipdp.privacy import find_sampler
from lipdp.training.batches import Slots
from lipdp.training.data import grouped_rows, single_rows
from lipdp.training.devices import Devices
from lipdp.training.processes import Processes, Seeds, SharedBatches, digest_of_rows
from tests.privacy.conftest import needs_truncation

ROWS = np.arange(1, 201)
RANDOM_DRAWS = [
    "poisson",
    pytest.param("truncated-poisson", marks=needs_truncation),
    "fixed-size",
    "shuffled",
]


class Plan:
    """The part of a plan that batches read."""

    def __init__(self, sampling="poisson", micro_batches=1):
        self.slots = Slots(60, micro_batches, 60 // micro_batches, (24,))
        self.budget = type("Budget", (), {"sampling": sampling})
        self.request = type("Request", (), {"num_units": 200, "batch_size": 20})

    @property
    def sampler(self):
        return find_sampler(self.budget.sampling)(200, 20)


def batches_of(plan, number, seeds=(5, 6, 7, 8), count=3):
    processes = object.__new__(Processes)
    processes._devices = Devices(parts=count, processes=count, process=number)
    processes.seeds = Seeds(*seeds)
    return SharedBatches(ROWS[:, None], ROWS, single_rows(200), plan, processes)


def read(batches, index):
    """The rows of an item, and its slots."""
    x, y, mask = batches[index]
    assert np.array_equal(x[:, 0], y) and np.array_equal(y > 0, mask > 0)
    return y[y > 0].tolist(), len(y)


@pytest.mark.parametrize("sampling", ["poisson", "fixed-size", "shuffled"])
@pytest.mark.parametrize("parts", [1, 2])
def test_each_row_is_read_by_one_process(sampling, parts):
    plan = Plan(sampling, parts)
    three = [batches_of(plan, number) for number in range(3)]
    alone = batches_of(plan, 0, count=1)
    for index in range(20 * parts):
        together = [read(one, index) for one in three]
        whole, slots = read(alone, index)
        assert [row for rows, _ in together for row in rows] == whole
        assert {size for _, size in together} == {slots // 3}


@pytest.mark.parametrize("sampling", RANDOM_DRAWS)
def test_a_reader_begins_with_the_seeds(sampling):
    """What was read ahead to learn the shape changes nothing."""
    one, other = batches_of(Plan(sampling), 0), batches_of(Plan(sampling), 0)
    for index in range(3):
        read(one, index)
    first = [read(one, index) for index in range(15)]
    assert first == [read(other, index) for index in range(15)]
    assert len({tuple(rows) for rows, _ in first}) > 10
    strange = batches_of(Plan(sampling), 0, (1, 2, 3, 4))
    assert first != [read(strange, index) for index in range(15)]


def test_out_of_order_is_refused():
    batches = batches_of(Plan(), 0)
    read(batches, 0)
    with pytest.raises(InvalidState, match="out of order"):
        read(batches, 2)


def test_seeds_are_not_shown():
    # The random name of the session would hold "77" in one run of seventeen.
    assert repr(Seeds(77, 77, 77, 77, session="one")) == "Seeds(session='one')"


def test_one_process_keeps_the_seed_of_the_budget():
    alone = Processes(Devices(), 4)
    assert alone.seeds == Seeds(4, 4, (4, 1), 4) and alone.is_first and not alone.several
    assert Processes(Devices(), None).seeds == Seeds(None, None, None, None)


def test_digests_see_every_row():
    x = np.random.default_rng(0).normal(size=(3000, 2))
    found = {digest_of_rows(x), digest_of_rows(x[::-1]), digest_of_rows(x.astype("float32"))}
    for row in (0, 1023, 1024, 2999):
        other = x.copy()
        other[row, 1] += 1e-9
        found.add(digest_of_rows(other))
    assert len(found) == 7
    assert digest_of_rows(x) == digest_of_rows(np.asfortranarray(x))
    words = np.array(["a", "b"], dtype=object)
    assert digest_of_rows(words) != digest_of_rows(words[::-1])
    groups = grouped_rows([0, 0, 0, 1], 2, 1).rows_of(np.arange(2))
    assert digest_of_rows(*groups) == digest_of_rows(*groups)
