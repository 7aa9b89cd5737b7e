"""Users as the unit: at most m rows each, drawn together, at m times the sensitivity."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lipdp
from lipdp.errors import InvalidData, InvalidValue
from lipdp.privacy import PoissonSampler
from lipdp.training.batches import PrivateBatches, Slots
from lipdp.training.data import grouped_rows, single_rows

BUDGET = lipdp.PrivacyBudget(noise_multiplier=1.5, delta=1e-3)


@settings(deadline=None, max_examples=60)
@given(groups=st.lists(st.integers(0, 6), min_size=1, max_size=40), most=st.integers(1, 5))
def test_a_unit_holds_the_rows_of_one_group_and_at_most_m(groups, most):
    units = grouped_rows(groups, most)
    assert len(units) == len(set(groups))
    seen = []
    for unit in range(len(units)):
        rows, places = units.rows_of(np.array([unit]))
        assert 1 <= len(rows) <= most
        assert len({groups[row] for row in rows}) == 1
        assert len(rows) == min(most, groups.count(groups[rows[0]]))
        assert places.tolist() == list(range(len(rows)))
        seen += rows.tolist()
    assert len(set(seen)) == len(seen)


@settings(deadline=None, max_examples=40)
@given(
    groups=st.lists(st.integers(0, 6), min_size=4, max_size=40),
    most=st.integers(1, 5),
    seed=st.integers(0, 99),
)
def test_several_units_take_blocks_of_their_own(groups, most, seed):
    units = grouped_rows(groups, most, seed)
    drawn = np.random.default_rng(seed).permutation(len(units))[:3]
    rows, places = units.rows_of(drawn)
    assert len(set(places.tolist())) == len(places)
    for row, place in zip(rows, places, strict=True):
        assert row in units.rows_of(drawn[place // most][None])[0]


def test_the_rows_that_stay_are_a_random_part():
    counts = np.zeros(10)
    for seed in range(2000):
        rows, _ = grouped_rows(np.zeros(10), 3, seed).rows_of(np.array([0]))
        counts[rows] += 1
    # Binomial(2000, 0.3) each, 5 sigma.
    assert np.abs(counts / 2000 - 0.3).max() < 5 * np.sqrt(0.21 / 2000)


def test_another_group_changes_no_unit():
    """Only the kept rows of the group itself are random: sets of the others stay whole."""
    groups = np.array([1, 1, 2, 2, 2, 3])
    for values in (groups, np.append(groups, [9] * 5)):
        units = grouped_rows(values, 3)
        kept = {frozenset(units.rows_of(np.array([u]))[0].tolist()) for u in range(3)}
        assert kept == {frozenset({0, 1}), frozenset({2, 3, 4}), frozenset({5})}


def test_single_rows_are_units():
    rows, places = single_rows(5).rows_of(np.array([4, 1]))
    assert rows.tolist() == [4, 1] and places.tolist() == [0, 1]


@pytest.mark.parametrize("parts", [1, 3])
def test_all_rows_of_a_drawn_user_are_in_the_batch(parts):
    groups = np.repeat(np.arange(20), 3)
    units = grouped_rows(groups, 2)
    slots = Slots(units=9, micro_batches=parts, rows=18 // parts)
    x = np.arange(60, dtype="float32")[:, None]
    data = PrivateBatches(x, groups, units, PoissonSampler(20, 4, seed=1), slots=slots)
    for _ in range(30):
        items = [data[part] for part in range(parts)]
        users = np.concatenate([y[mask > 0] for _, y, mask in items])
        counts = np.bincount(users, minlength=20)
        assert set(counts.tolist()) <= {0, 2}


def test_sensitivity_and_divisor_grow_with_the_rows_of_a_user(make_model, rows):
    found = {}
    for most in (1, 3):
        model = make_model(BUDGET, dtype="float64")
        users = np.arange(200) // 4
        model.fit(*rows, batch_size=10, verbose=0, groups=users, max_examples_per_user=most)
        plan = model.plan
        assert plan.num_examples == 50 and plan.sampling_rate == 0.2
        assert plan.mechanism.divisor == 10 * most
        found[most] = np.array(plan.sensitivities)
        spent = sum((d / s) ** 2 for d, s in zip(plan.sensitivities, plan.stddevs, strict=True))
        assert spent <= 1 / 1.5**2
    assert found[3] == pytest.approx(3 * found[1], rel=1e-6)
    text = " ".join(model.privacy_statement().split())
    assert "all rows of one user, of which at most 3 take part" in text
    assert "one user is added or removed" in text


def test_a_user_moves_the_sum_by_no_more_than_the_sensitivity(make_model, rows):
    """The gradients of one user's rows, aligned as badly as they come."""
    from lipdp.bounds.probe import per_sample_gradient_norms

    x, y = np.repeat(rows[0][:1] * 100, 200, axis=0), np.repeat(rows[1][:1], 200)
    model = make_model(BUDGET, dtype="float64")
    model.fit(x, y, batch_size=10, verbose=0, groups=np.arange(200) // 4, max_examples_per_user=3)
    norms = per_sample_gradient_norms(model, model.loss, x[:2], np.array([0, 1]))
    assert (3 * norms <= np.array(model.plan.sensitivities)).all()
    assert norms.max() > 0


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"groups": np.zeros(200)}, InvalidValue),
        ({"max_examples_per_user": 2}, InvalidValue),
        ({"groups": np.zeros(7), "max_examples_per_user": 2}, InvalidData),
        ({"groups": np.zeros(200), "max_examples_per_user": 0}, InvalidValue),
        ({"groups": np.zeros(200), "max_examples_per_user": 1.5}, InvalidValue),
        ({"groups": [None] * 200, "max_examples_per_user": 2}, InvalidData),
        ({"groups": np.full(200, np.nan), "max_examples_per_user": 2}, InvalidData),
    ],
)
def test_bad_groups_are_refused(make_model, rows, options, error):
    model = make_model(BUDGET)
    with pytest.raises(error):
        model.fit(*rows, batch_size=10, verbose=0, **options)
    assert model.ledger.steps == 0


def test_delta_is_held_against_the_number_of_users(make_model, rows):
    model = make_model(lipdp.PrivacyBudget(noise_multiplier=1.5, delta=0.01))
    with pytest.raises(InvalidValue, match="delta"):
        model.fit(*rows, batch_size=10, verbose=0, groups=np.arange(200), max_examples_per_user=1)


def test_users_that_are_numbers_and_texts_are_refused(make_model, rows):
    """NumPy would make one user of 1 and "1"."""
    model = make_model(lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5))
    groups = [1, "1"] * (len(rows[1]) // 2)
    with pytest.raises(InvalidData, match="str after int at position 1"):
        model.fit(*rows, batch_size=20, groups=groups, max_examples_per_user=2, verbose=0)


@pytest.mark.parametrize(
    "groups",
    [
        [2**63 + 1, 2**63 + 2, 11, 12, 13, 14],
        [2**53, 2**53 + 1, 0, 7, 8, 9],
        [np.int64(2**62), np.uint64(2**62 + 1), 11, 12, 13, 14],
        ["a", "a\0", "b", "c", "d", ""],
        [b"a", b"a\0", b"b", b"c", b"d", b""],
    ],
    ids=repr,
)
def test_distinct_users_stay_distinct(make_model, rows, groups):
    """One row a user, all in the batch: epsilon of one step at z = 1 speaks of one user of six."""
    model = make_model(lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5))
    x, y = rows[0][:6], rows[1][:6]
    model.fit(x, y, batch_size=6, verbose=0, groups=groups, max_examples_per_user=1)
    assert model.plan.num_examples == 6 and model.plan.sampling_rate == 1.0
    assert model.ledger.epsilon(1e-5) == pytest.approx(4.3772, abs=1e-3)


@pytest.mark.parametrize("groups", [[2**53, 2**53 + 1, 0.5, 7, 8, 9], ["a", b"a", "b", "c", "d"]])
def test_users_of_several_kinds_are_refused(make_model, rows, groups):
    model = make_model(lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5))
    x, y = rows[0][: len(groups)], rows[1][: len(groups)]
    with pytest.raises(InvalidData, match=r"after .* at position"):
        model.fit(x, y, batch_size=3, verbose=0, groups=groups, max_examples_per_user=1)
    assert model.ledger.steps == 0


def test_no_error_of_fit_shows_a_user(make_model, rows):
    model = make_model(BUDGET)
    with pytest.raises(InvalidValue, match="belong together") as found:
        model.fit(*rows, batch_size=10, verbose=0, groups=["mallory"] * 200)
    assert "mallory" not in str(found.value)
