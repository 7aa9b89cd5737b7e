"""Each sampling scheme under fit: what is drawn, what is counted, what is refused."""

import itertools

import numpy as np
import pytest

import lipdp
from lipdp.errors import InvalidValue
from lipdp.privacy import Draw, FixedSizeSampler, PoissonSampler, ShuffledSampler
from lipdp.training.batches import PrivateBatches, Slots
from lipdp.training.data import single_rows
from lipdp.training.plan import Request, make_plan

SCHEMES = {
    "poisson": "add-remove",
    "shuffled": "zero-out",
    "fixed-size": "replace-one",
    "full-batch": "add-remove",
}


def budget(sampling, noise_multiplier=1.3, **options):
    options = {"adjacency": SCHEMES.get(sampling, "add-remove"), "delta": 1e-5, **options}
    return lipdp.PrivacyBudget(noise_multiplier=noise_multiplier, sampling=sampling, **options)


@pytest.mark.slow
@pytest.mark.parametrize("sampling", SCHEMES)
def test_it_trains_and_says_how_it_sampled(make_model, rows, sampling):
    size = 200 if sampling == "full-batch" else 30
    model = make_model(budget(sampling))
    model.fit(*rows, batch_size=size, epochs=2, verbose=0)
    assert model.plan.sampler.title in model.privacy_statement()
    said = model.plan.sampler.assumption.format(unit="row", access="step")
    assert said in " ".join(model.privacy_statement().split())
    assert model.ledger.steps == {"shuffled": 2, "full-batch": 2}.get(sampling, 14)


def test_shuffled_batches_are_not_accounted_as_poisson(make_model, rows):
    """15 passes: 16.526, where Poisson sampling of the same size would cost 0.853 at N = 60000."""
    model = make_model(budget("shuffled"))
    model.fit(*rows, batch_size=20, epochs=15, verbose=0)
    assert model.ledger.epsilon(1e-5) == pytest.approx(16.526, abs=0.001)


@pytest.mark.parametrize(
    ("sampling", "adjacency"),
    [("shuffled", "add-remove"), ("fixed-size", "add-remove"), ("fixed-size", "zero-out")],
)
def test_schemes_without_accounting_are_refused(sampling, adjacency):
    with pytest.raises(InvalidValue, match="not accounted"):
        budget(sampling, adjacency=adjacency)


def test_a_full_batch_needs_every_row(make_model, rows):
    with pytest.raises(InvalidValue, match="every row"):
        make_model(budget("full-batch")).fit(*rows, batch_size=100, verbose=0)


def test_fixed_sizes_are_recorded_as_such(make_model, rows):
    model = make_model(budget("fixed-size"))
    model.fit(*rows, batch_size=50, verbose=0)
    (phase,) = model.ledger.phases
    assert phase.draw == Draw("fixed-size", 200, 50)
    assert model.plan.capacity.rows == 50 and model.ledger.overflow_delta == 0.0


def items(sampler, capacity, n=12):
    slots = Slots(units=capacity, micro_batches=1, rows=capacity)
    x = np.zeros((n, 1), "float32")
    return PrivateBatches(x, np.arange(n), single_rows(n), sampler, slots=slots)


def rows_of(data, index):
    _, y, mask = data[index]
    return y[mask > 0].tolist()


def test_shuffled_batches_part_the_rows_in_each_epoch_anew():
    data = items(ShuffledSampler(12, 5), 5)
    epochs = []
    for _ in range(6):
        # Keras reads some batches once more to learn their shape.
        rows_of(data, 0)
        batches = [rows_of(data, i) for i in range(data.micro_batches_per_epoch)]
        assert [len(b) for b in batches] == [5, 5, 2]
        assert sorted(itertools.chain(*batches)) == list(range(12))
        epochs.append(tuple(map(frozenset, batches)))
    assert len(set(epochs)) > 1


def test_fixed_size_batches_have_exactly_their_size():
    data = items(FixedSizeSampler(12, 5), 5)
    drawn = [frozenset(rows_of(data, 0)) for _ in range(50)]
    assert {len(d) for d in drawn} == {5}
    assert len(set(drawn)) > 10


@pytest.mark.parametrize("removed", [0, 1])
def test_the_divisor_and_the_rate_are_the_plan_s(make_model, rows, removed):
    """Batches that happen to be smaller or larger change no divisor; nor does a row less."""
    x, y = rows[0][removed:], rows[1][removed:]
    model = make_model(budget("poisson"))
    model.fit(x, y, batch_size=40, verbose=0)
    assert model.plan.mechanism.divisor == 40
    assert model.plan.sampler.sampling_rate == 40 / len(y)


def test_the_sampler_that_draws_is_the_sampler_that_is_accounted(make_model, rows):
    model = make_model(budget("poisson"))
    model.fit(*rows, batch_size=40, epochs=3, verbose=0)
    assert isinstance(model.plan.sampler, PoissonSampler)
    assert [p.steps for p in model.plan.phases] == [5, 5, 5]
    assert model.ledger.phases[0].sampling_rate == model.plan.sampler.sampling_rate


def test_sampling_comes_back_with_a_saved_model(make_model, rows, tmp_path):
    model = make_model(budget("shuffled", noise_schedule=((0, 1.0), (1, 0.5))))
    model.fit(*rows, batch_size=50, epochs=2, verbose=0)
    model.save(tmp_path / "m.keras")
    loaded = lipdp.load_model(tmp_path / "m.keras")
    assert loaded._private.budget == model._private.budget
    assert loaded.ledger.to_json() == model.ledger.to_json()


@pytest.mark.parametrize("steps", [150, 156, 160])
def test_counted_steps_cost_what_was_published(make_model, rows, steps):
    """N = 1000, b = 64, sigma 1.2."""
    published = {150: 3.8376, 156: 3.9112, 160: 3.9597}[steps]
    value = lipdp.privacy.epsilon(64 / 1000, 1.2, steps, 1e-5)
    assert published - 1e-4 <= value <= published + 0.01


def test_a_plan_needs_whole_positive_sizes(make_model):
    model = make_model(budget("poisson"))
    ledger = lipdp.privacy.PrivacyLedger()
    for request in (Request(10, 11, 1), Request(10, 5, 0), Request(10, 5, 1, micro_batch_size=0)):
        with pytest.raises(InvalidValue):
            make_plan(model, model.loss, budget("poisson"), ledger, request)
