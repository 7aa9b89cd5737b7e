import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lipdp.errors import InvalidData, InvalidValue
from lipdp.preprocessing import group_split, limited, train_test_split

# Two rows of each class that occurs.
LABELS = st.lists(st.integers(0, 3), min_size=1, max_size=60).map(lambda x: np.array(x + x))
FRACTIONS = st.floats(0, 1, exclude_min=True, exclude_max=True)
SEEDS = st.integers(0, 2**70)


@given(LABELS, FRACTIONS, SEEDS)
@example(np.array([0, 0, 1, 1]), 1e-9, 0)
@example(np.array([0, 0, 1, 1]), 1 - 1e-9, 0)
def test_every_row_is_on_one_side_and_every_class_on_both(labels, fraction, seed):
    train, test = train_test_split(labels, fraction, seed)
    assert sorted([*train, *test]) == list(range(len(labels)))
    assert set(labels[train]) == set(labels[test]) == set(labels)


@given(LABELS, FRACTIONS, SEEDS)
def test_classes_are_split_alike(labels, fraction, seed):
    _, test = train_test_split(labels, fraction, seed)
    for label in np.unique(labels):
        rows = np.sum(labels == label)
        exact = min(max(fraction * rows, 1), rows - 1)
        assert abs(np.sum(labels[test] == label) - exact) <= 0.5


@given(LABELS, FRACTIONS, SEEDS, st.integers(0, 3))
def test_one_more_row_moves_at_most_two_training_rows(labels, fraction, seed, new):
    if new not in labels:
        return
    before, _ = train_test_split(labels, fraction, seed)
    after, _ = train_test_split(np.append(labels, new), fraction, seed)
    assert len(set(before) ^ set(after)) <= 2


def test_the_seed_decides_and_nothing_else():
    labels = np.arange(200) % 2
    first, again, other = (train_test_split(labels, 0.2, seed)[1] for seed in (1, 1, 2))
    assert (first == again).all()
    assert set(first) != set(other)


def test_the_split_is_random_in_position():
    labels = np.zeros(10000, dtype=int)
    _, test = train_test_split(labels, 0.2, 0)
    first_half = np.sum(test < 5000)
    assert abs(first_half - 1000) < 5 * np.sqrt(10000 * 0.2 * 0.8 / 4)


@pytest.mark.parametrize("fraction", [0, 1, -0.1, 1.5, float("nan"), float("inf")])
def test_bad_fractions(fraction):
    with pytest.raises(InvalidValue, match="fraction"):
        train_test_split(np.array([0, 0, 1, 1]), fraction, 0)


@pytest.mark.parametrize("seed", [-1, 0.5, True, "0", None])
def test_bad_seeds(seed):
    with pytest.raises(InvalidValue, match="seed"):
        train_test_split(np.array([0, 0, 1, 1]), 0.5, seed)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([], "class ids"),
        ([[0, 1]], "class ids"),
        (["a", "b"], "class ids"),
        ([0.0, 1.0], "class ids"),
        ([0, 0, 1], "Class 1 has a single row"),
    ],
)
def test_bad_labels(labels, words):
    with pytest.raises(InvalidData, match=words):
        train_test_split(np.array(labels), 0.5, 0)


class TestGroups:
    def test_a_group_is_on_one_side(self):
        names = np.random.default_rng(0).integers(0, 50, 400).astype(str)
        train, test = group_split(names, 0.3, 0)
        assert not set(names[train]) & set(names[test])
        assert sorted([*train, *test]) == list(range(400))

    def test_another_group_moves_no_other(self):
        names = np.array([f"u{i % 40}" for i in range(200)])
        before = set(names[group_split(names, 0.3, 0)[1]])
        more = np.array([*names, "new", "new"])
        after = set(more[group_split(more, 0.3, 0)[1]])
        assert after - {"new"} == before

    def test_about_the_fraction_tests(self):
        names = np.array([f"u{i}" for i in range(4000)])
        share = len(group_split(names, 0.3, 7)[1]) / 4000
        assert abs(share - 0.3) < 5 * np.sqrt(0.21 / 4000)

    def test_one_sided_splits_are_refused(self):
        with pytest.raises(InvalidData, match="one side"):
            group_split(np.array(["a", "a"]), 0.5, 0)


@given(rows=st.integers(1, 60), limit=st.integers(1, 80), seed=st.integers(0, 5))
def test_a_row_at_the_end_moves_at_most_one_of_those_that_stay(rows, limit, seed):
    kept, more = limited(rows, limit, seed), limited(rows + 1, limit, seed)
    assert len(kept) == min(rows, limit)
    assert (np.diff(kept) > 0).all() and kept.max() < rows
    assert len(set(kept) - set(more)) <= 1
