"""What Keras refuses while it builds and traces is found before the first access."""

import keras
import numpy as np
import pytest

import lipdp
from lipdp.errors import InvalidValue, LipdpError
from lipdp.layers import AdaptiveCotangentClip, BoundedInput, MaxMin, SpectralDense
from lipdp.losses import MulticlassHinge
from lipdp.privacy import calibrate_noise_multiplier
from lipdp.training import model as model_module
from lipdp.training.batches import PrivateBatches

RNG = np.random.default_rng(0)
LEFT, RIGHT = RNG.normal(size=(40, 4)), RNG.normal(size=(40, 3))
Y = (LEFT[:, 0] > 0).astype("int64")
BUDGET = lipdp.PrivacyBudget(epsilon=2.0, delta=1e-5)


def compiled(model, optimizer="sgd", budget=BUDGET, **options):
    model.compile(optimizer, MulticlassHinge(margin=0.5), privacy=budget, **options)
    return model


def small(*layers, **options):
    keras.utils.set_random_seed(0)
    parts = [BoundedInput((4,), radius=2.0), *layers, SpectralDense(2)]
    return compiled(lipdp.Sequential(parts), **options)


def of_two(**options):
    left, right = keras.Input((4,), name="left"), keras.Input((3,), name="right")
    branches = [
        SpectralDense(4)(BoundedInput((4,), radius=2.0)(left)),
        SpectralDense(4)(BoundedInput((3,), radius=1.0)(right)),
    ]
    joined = MaxMin()(keras.layers.Concatenate()(branches))
    inputs = {"left": left, "right": right}
    return compiled(lipdp.Model(inputs, SpectralDense(2)(joined)), **options)


def fails(y_true, y_pred):
    raise TypeError("no such metric")


class BadSchedule(keras.optimizers.schedules.LearningRateSchedule):
    def __call__(self, step):
        raise ZeroDivisionError("no such rate")


class BadOptimizer(keras.optimizers.SGD):
    def update_step(self, gradient, variable, learning_rate):
        raise RuntimeError("no such update")


#: Model, inputs, words of Keras.
REFUSED = {
    "wrong keys": (of_two, {"l": LEFT, "right": RIGHT}, "Missing data for input"),
    "swapped inputs": (of_two, (RIGHT, LEFT), "incompatible"),
    "swapped names": (of_two, {"left": RIGHT, "right": LEFT}, "incompatible"),
    "shapes of a metric": (
        lambda **o: small(metrics=[keras.metrics.Precision(thresholds=[0.1, 0.2, 0.3])], **o),
        LEFT,
        "",
    ),
    "arguments of a metric": (
        lambda **o: small(metrics=[keras.metrics.Mean(name="m")], **o),
        LEFT,
        "update_state",
    ),
    "a metric that raises": (lambda **o: small(metrics=[fails], **o), LEFT, "no such metric"),
    "a schedule that raises": (
        lambda **o: small(optimizer=keras.optimizers.SGD(BadSchedule()), **o),
        LEFT,
        "no such rate",
    ),
}


@pytest.mark.parametrize("eager", [False, True], ids=["traced", "eager"])
@pytest.mark.parametrize("name", REFUSED)
def test_what_keras_refuses(name, eager, tmp_path):
    make, x, words = REFUSED[name]
    model = make(run_eagerly=eager)
    for _ in range(2):
        with pytest.raises(InvalidValue, match=f"nothing was recorded.*{words}"):
            model.fit(x, Y, batch_size=10, verbose=0, ledger_file=tmp_path / "ledger.json")
    assert model.ledger.steps == 0 and model.ledger.epsilon(1e-5) == 0.0
    assert not list(tmp_path.iterdir())


def test_an_optimizer_that_keras_cannot_trace():
    model = small(optimizer=BadOptimizer(0.1))
    with pytest.raises(InvalidValue, match="no such update"):
        model.fit(LEFT, Y, batch_size=10, verbose=0)
    assert model.ledger.steps == 0
    # Nothing is left behind: a step outside fit is refused as ever.
    with pytest.raises(LipdpError, match=r"inside fit\(\) alone"):
        model.optimizer.apply([np.zeros((4, 2), "float32")], model.trainable_variables)
    assert all(v.constraint is not None for v in model.trainable_variables)


def test_an_earlier_ledger_stays_as_it_was(tmp_path):
    """A ledger file that holds four steps of another run keeps its bytes, and its count."""
    file = tmp_path / "ledger.json"
    small().fit(LEFT, Y, batch_size=10, verbose=0, ledger_file=file)
    before = file.read_bytes()
    model = small(metrics=[fails])
    with pytest.raises(InvalidValue):
        model.fit(LEFT, Y, batch_size=10, verbose=0, ledger_file=file)
    assert file.read_bytes() == before and model.ledger.steps == 4


def test_a_plan_that_never_ran_does_not_set_the_noise():
    model = of_two()
    with pytest.raises(InvalidValue):
        model.fit((RIGHT, LEFT), Y, batch_size=40, epochs=9, verbose=0)
    model.fit((LEFT, RIGHT), Y, batch_size=40, verbose=0)
    alone = calibrate_noise_multiplier(2.0, 1e-5, 1.0, 1)
    assert model.plan.noise_multiplier == pytest.approx(alone, rel=1e-3)
    assert model.ledger.steps == 1


@pytest.mark.parametrize(
    "options",
    [{}, {"run_eagerly": True}, pytest.param({"jit_compile": True}, marks=pytest.mark.slow)],
    ids=repr,
)
def test_a_rehearsal_changes_nothing(monkeypatch, options):
    """Nor does it read a row: all states before and after are the same bits."""
    states = []

    def all_states(model):
        found = [*model.variables, *model.optimizer.variables, *model.metrics_variables]
        clips = [layer.threshold for layer in model.layers if hasattr(layer, "threshold")]
        return {id(v): keras.ops.convert_to_numpy(v).copy() for v in [*found, *clips]}

    def watched(model, batch, **kwargs):
        before = all_states(model)
        rehearse(model, batch, **kwargs)
        after, metrics = all_states(model), {id(v) for v in model.metrics_variables}
        model.reset_metrics()
        states.append((before, after, all_states(model), metrics))

    rehearse, read = model_module.rehearse, []
    monkeypatch.setattr(model_module, "rehearse", watched)
    get = PrivateBatches.__getitem__

    def reading(self, index):
        assert states
        read.append(index)
        return get(self, index)

    monkeypatch.setattr(PrivateBatches, "__getitem__", reading)
    options = {**options, "budget": lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5)}
    layers = (
        SpectralDense(4),
        keras.layers.Dropout(0.5),
        AdaptiveCotangentClip(0.1, count_noise=0.5),
    )
    model = small(*layers, optimizer=keras.optimizers.Adam(0.1), metrics=["accuracy"], **options)
    for _ in range(2):
        model.fit(LEFT, Y, batch_size=10, verbose=0)
        before, after, fresh, metrics = states[-1]
        # Metrics are built by the first one.
        assert set(after) - set(before) <= metrics
        for key, value in after.items():
            assert np.array_equal(value, before.get(key, fresh[key]), equal_nan=True)
        assert read


def test_a_stream_rehearses_too():
    class Stream:
        def __iter__(self):
            return iter(zip(LEFT, Y, strict=True))

    budget = lipdp.PrivacyBudget(
        noise_multiplier=1.0, delta=1e-5, sampling="shuffled", adjacency="zero-out"
    )
    model = small()
    model.compile("sgd", MulticlassHinge(margin=0.5), metrics=[fails], privacy=budget)
    with pytest.raises(InvalidValue, match="no such metric"):
        model.fit(Stream(), batch_size=10, verbose=0)
    assert model.ledger.steps == 0
