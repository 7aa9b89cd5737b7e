"""What a plan was proved for stays: whoever changes it is refused before the next access."""

import functools
import inspect

import keras
import numpy as np
import pytest

import lipdp
from lipdp.errors import InvalidState, LipdpError, UnsafeSetting
from lipdp.layers import (
    AdaptiveCotangentClip,
    BoundedInput,
    FrozenFeatures,
    MaxMin,
    NonExpansiveLayer,
    SpectralDense,
)
from lipdp.losses import HKR, ClassWeighted, ClippedLoss, LipschitzLoss, TemperedCrossentropy
from lipdp.projections import L2Ball, SpectralProjection
from lipdp.setting import Setting
from lipdp.testing.parts import KERAS_LAYERS, LAYERS, LOSSES, PROJECTIONS
from lipdp.training.unchanged import MAY_CHANGE, Unchanged

K = keras.layers
BUDGET = lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5)
#: Arguments that a constructor turns into something else, which is compared or cannot change.
TURNED = {
    *("name", "dtype", "radius"),  # the last one of a constraint
    *("shared_axes", "data_format", "factor", "seed", "value_range", "fill_mode", "fill_value"),
}


def compiled(model, loss=None, **options):
    loss = ClippedLoss(TemperedCrossentropy(4.0), 0.1) if loss is None else loss
    model.compile(keras.optimizers.SGD(0.1), loss, privacy=BUDGET, **options)
    return model


def model_of(part):
    """A model in which the part's layer is called once."""
    layer = part.make(dtype="float32")
    shapes = part.shape if isinstance(part.shape, list) else [part.shape]
    inputs = [keras.Input(shape) for shape in shapes]
    x = K.Flatten()(layer(inputs if len(inputs) > 1 else inputs[0]))
    return layer, compiled(lipdp.Model(inputs, SpectralDense(2)(x)))


def arguments(thing):
    """Names of the constructor's arguments."""
    named = inspect.signature(type(thing)).parameters.values()
    return [one.name for one in named if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)]


def refuse_every_change(thing, names):
    for name in names:
        before = getattr(thing, name)
        with pytest.raises(InvalidState, match=f"{name} of the .* cannot change any more"):
            setattr(thing, name, 7)
        with pytest.raises(InvalidState, match=f"{name} of the .* cannot change any more"):
            delattr(thing, name)
        assert getattr(thing, name) is before


class TestSettled:
    """Nothing of a loss, a projection or a layer of this package changes once it is made."""

    @pytest.mark.parametrize("part", LOSSES, ids=lambda part: part.name)
    def test_losses(self, part):
        loss = part.loss
        shared = (
            "name",
            "dtype",
            "reduction",
            "task",
            "positions",
            "scalable",
            "call",
            "lipschitz",
        )
        assert set(arguments(loss)) - TURNED <= set(dir(loss))
        refuse_every_change(loss, [n for n in arguments(loss) if hasattr(loss, n)])
        for name in shared:
            with pytest.raises(InvalidState, match=f"{name} of the loss"):
                setattr(loss, name, "other")
        copied = type(loss).from_config(loss.get_config())
        with pytest.raises(InvalidState, match="name of the loss"):
            copied.name = "other"
        for value in vars(loss).values():
            assert not isinstance(value, list | dict | set | np.ndarray)

    @pytest.mark.parametrize("part", PROJECTIONS, ids=lambda part: part.name)
    def test_projections(self, part):
        projection = part.projection
        refuse_every_change(projection, arguments(projection))
        for name in ("norm_bound", "bound_of", "spectral_bound", "__call__", "get_config"):
            with pytest.raises(InvalidState, match=f"{name} of the projection"):
                setattr(projection, name, 9.0)

    @pytest.mark.parametrize("part", LAYERS, ids=lambda part: part.name)
    def test_layers(self, part):
        layer = model_of(part)[0]
        names = arguments(layer)
        assert {n for n in names if not hasattr(layer, n)} <= TURNED
        refuse_every_change(layer, [name for name in names if hasattr(layer, name)])
        if "radius" in names and not hasattr(layer, "radius"):
            assert layer.constraint.norm_bound > 0.0
            refuse_every_change(layer, ["constraint"])

    def test_inner_objects(self):
        loss = ClassWeighted(HKR(2.0), [1.0, 0.5])
        for thing, name in ((loss, "loss"), (loss.loss, "alpha"), (loss, "class_weights")):
            refuse_every_change(thing, [name])
        assert isinstance(loss.class_weights, tuple)
        given = np.array([1.0, 0.5])
        loss = ClassWeighted(HKR(2.0), given)
        given[:] = 9.0
        assert loss.class_weights == (1.0, 0.5)
        refuse_every_change(SpectralDense(2).constraint, ["iterations"])

    def test_the_reference_of_an_adaptive_clip(self):
        clip = AdaptiveCotangentClip(0.5)
        with pytest.raises(InvalidState, match="reference of the layer"):
            clip.reference = 1e-9
        assert clip.reference == clip.minimum

    def test_a_user_class_may_set_what_it_wants_in_its_constructor(self):
        class Own(LipschitzLoss):
            def __init__(self, factor, **kwargs):
                super().__init__(**kwargs)
                self.factor = 1.0
                self.factor = factor

            def call(self, y_true, y_pred):
                return self.factor * y_pred[:, 0]

            def lipschitz(self, logit_bound, num_outputs):
                return self.factor

        class Child(Own):
            def __init__(self):
                super().__init__(2.0)
                self.factor = 3.0

        loss = Child()
        assert loss.factor == 3.0
        with pytest.raises(InvalidState, match="factor of the loss"):
            loss.factor = 4.0


class TestComparison:
    @pytest.mark.parametrize(
        "part",
        [
            pytest.param(p, id=p.name, marks=[] if p.plain else [pytest.mark.slow])
            for p in (*KERAS_LAYERS, *LAYERS)
        ],
    )
    def test_every_argument_of_every_layer(self, part):
        """Set behind the back of what refuses at once, too."""
        layer, model = model_of(part)
        unchanged = Unchanged(model)
        unchanged.check()
        held = vars(layer)
        names = [n for n in arguments(layer) if (n in held or f"_{n}" in held) and n != "name"]
        defaults = {
            n for n in arguments(layer) if isinstance(inspect.getattr_static(layer, n, 0), Setting)
        }
        assert set(arguments(layer)) - set(names) - defaults <= TURNED | {"extractor"}
        names = [n if n in held else f"_{n}" for n in names]
        for name in (
            *names,
            "call",
            "a_new_one",
            "_dtype_policy",
            "_trainable",
            "_build_shapes_dict",
        ):
            before = dict(held)
            held[name] = object()
            with pytest.raises(InvalidState, match=rf"{name} of {layer.name}"):
                unchanged.check()
            held.pop(name)
            if name in before:
                with pytest.raises(InvalidState, match=rf"{name} of {layer.name}"):
                    unchanged.check()
                held[name] = before[name]
            unchanged.check()

    @pytest.mark.parametrize(
        ("layer", "alter"),
        [
            (lambda: K.Rescaling(np.ones(4)), lambda one: one.scale.__setitem__(2, 9.0)),
            (
                lambda: K.Activation(functools.partial(keras.activations.gelu, approximate=True)),
                lambda one: one.activation.keywords.update(approximate=False),
            ),
            (MaxMin, lambda one: setattr(one.dtype_policy, "_compute_dtype", "float16")),
        ],
    )
    def test_what_is_altered_in_place(self, layer, alter):
        model = compiled(lipdp.Sequential([BoundedInput((4,), 1.0), layer(), SpectralDense(2)]))
        unchanged = Unchanged(model)
        unchanged.check()
        policy = model.layers[1].dtype_policy
        before = policy._compute_dtype
        try:
            alter(model.layers[1])
            with pytest.raises(InvalidState, match="no longer what its gradient bounds"):
                unchanged.check()
        finally:
            policy._compute_dtype = before

    def test_what_an_object_of_the_user_holds(self):
        class Options:
            factor = 1.0

        class Own(NonExpansiveLayer):
            def __init__(self, options, **kwargs):
                super().__init__(**kwargs)
                self.options = options

            def call(self, inputs):
                return self.options.factor * inputs

        options = Options()
        options.factor = 0.5
        model = compiled(lipdp.Sequential([BoundedInput((4,), 1.0), Own(options, name="own")]))
        unchanged = Unchanged(model)
        unchanged.check()
        options.factor = 9.0
        with pytest.raises(InvalidState, match="options of own"):
            unchanged.check()

    @pytest.mark.parametrize(
        "change",
        [
            lambda model: setattr(model, "optimizer", keras.optimizers.SGD(0.1)),
            lambda model: setattr(model, "loss", HKR()),
            lambda model: setattr(model, "compute_loss", lambda *args, **kwargs: 0.0),
            lambda model: setattr(model, "train_step", lambda *args: {}),
            lambda model: setattr(model.optimizer, "apply", lambda *args: None),
            lambda model: setattr(model.optimizer, "_mechanism", 1),
            lambda model: setattr(model.optimizer, "inner_optimizer", keras.optimizers.SGD(0.1)),
            lambda model: setattr(model.optimizer.inner_optimizer, "apply", lambda *args: None),
            lambda model: setattr(model.optimizer.noise, "add", lambda sums, *args: sums),
            lambda model: setattr(model.layers[1].kernel, "constraint", L2Ball(9.0)),
            lambda model: setattr(model.layers[1].kernel, "constraint", None),
            lambda model: setattr(model.layers[1].kernel, "trainable", False),
            lambda model: setattr(model.layers[2], "__class__", NonExpansiveLayer),
            lambda model: vars(model.loss.loss).update(inverse_temperature=-5.0),
            lambda model: vars(model.layers[1].constraint).update(iterations=0),
            lambda model: model.add(K.Rescaling(100.0)),
            lambda model: model.pop(),
            lambda model: keras.config.set_image_data_format("channels_first"),
        ],
    )
    def test_of_a_model(self, change):
        layers = [BoundedInput((4,), 1.0), SpectralDense(4), MaxMin(), SpectralDense(2)]
        model = compiled(lipdp.Sequential(layers))
        unchanged = Unchanged(model)
        unchanged.check()
        try:
            change(model)
            with pytest.raises(InvalidState, match="no longer what its gradient bounds"):
                unchanged.check()
        finally:
            keras.config.set_image_data_format("channels_last")

    def test_of_nested_models_and_extractors(self):
        inner = keras.Sequential([keras.Input((4,)), K.Dropout(0.1), MaxMin()])
        extractor = keras.Sequential([keras.Input((4,)), K.Dense(4, "relu"), K.LeakyReLU(0.1)])
        layers = [FrozenFeatures(extractor), lipdp.layers.ActivationClip(1.0), inner]
        model = compiled(lipdp.Sequential([keras.Input((4,)), *layers, SpectralDense(2)]))
        unchanged = Unchanged(model)
        unchanged.check()
        for thing, name, value in (
            (inner.layers[0], "rate", 0.9),
            (extractor.layers[1], "negative_slope", 9.0),
            (inner, "call", lambda inputs: inputs),
        ):
            before = vars(thing).get(name)
            setattr(thing, name, value)
            with pytest.raises(InvalidState, match=name):
                unchanged.check()
            delattr(thing, name)
            if before is not None:
                setattr(thing, name, before)
            unchanged.check()
        inner.add(K.Rescaling(100.0))
        with pytest.raises(InvalidState):
            unchanged.check()

    def test_what_may_change_is_listed(self):
        layers = [BoundedInput((4,), 1.0), AdaptiveCotangentClip(0.5), SpectralDense(2)]
        model = compiled(lipdp.Sequential(layers))
        unchanged = Unchanged(model)
        model.layers[1].threshold.assign(0.25)
        model.layers[2].kernel.assign(np.zeros((4, 2)))
        model.optimizer.learning_rate = 0.5
        model.optimizer.inner_optimizer.momentum = 0.9
        model.stop_training = True
        model.note = "of the user's"
        model(np.ones((2, 4), "float32"))
        unchanged.check()
        assert MAY_CHANGE.isdisjoint(vars(keras.losses.Loss()))
        for layer in model.layers:
            assert not any(name in MAY_CHANGE for name in arguments(layer))


WHEN = ("on_train_begin", "on_epoch_begin", "on_train_batch_begin", "on_train_batch_end")
#: Each with a model whose bounds follow from what is changed.
CHANGES = {
    "max_norm": lambda model: setattr(model.loss, "max_norm", 1e3),
    "max_norm at once": lambda model: vars(model.loss).update(max_norm=1e3),
    "alpha": lambda model: vars(model.loss.loss).update(alpha=1e3),
    "inverse_temperature": lambda model: vars(model.loss.loss).update(inverse_temperature=-5.0),
    "rate": lambda model: setattr(model.layers[1], "rate", 0.99),
    "negative_slope": lambda model: setattr(model.layers[2], "negative_slope", 9.0),
    "compute_loss": lambda model: setattr(
        model, "compute_loss", lambda x, y, y_pred, **kwargs: 1e3 * keras.ops.sum(y_pred)
    ),
    "call": lambda model: vars(model.loss).update(call=lambda y, z: 1e3 * z[:, 0]),
    "call of a layer": lambda model: setattr(model.layers[2], "call", lambda x: 1e3 * x),
    "optimizer": lambda model: setattr(model, "optimizer", keras.optimizers.SGD(0.1)),
    "apply": lambda model: setattr(model.optimizer, "apply", lambda *args: None),
    "train_function": lambda model: setattr(model, "train_function", lambda *args: {}),
    "run_eagerly": lambda model: (
        setattr(model, "run_eagerly", True),
        setattr(model.layers[1], "rate", 0.99),
    ),
}


class Change(keras.callbacks.Callback):
    """Changes the model once, at its second time."""

    def __init__(self, when, change):
        super().__init__()
        self.times, self.ran = 0, 0
        setattr(self, when, functools.partial(self._at, getattr(self, when), change))

    def _at(self, before, change, *args, **kwargs):
        before(*args, **kwargs)
        self.times += 1
        if self.times == 2 or before.__name__ == "on_train_begin":
            change(self.model)

    def on_train_batch_end(self, batch, logs=None):
        self.ran += 1


def network(loss=None, **options):
    keras.utils.set_random_seed(0)
    layers = [
        BoundedInput((4,), radius=2.0),
        K.Dropout(0.1),
        K.LeakyReLU(0.1),
        K.Dense(4, use_bias=False, kernel_constraint=SpectralProjection(1.0)),
        MaxMin(),
        SpectralDense(2),
    ]
    return compiled(lipdp.Sequential(layers), loss, **options)


def cases():
    """Each change once where steps run eagerly, each moment once where they are compiled."""
    late = "on_train_batch_begin"
    quick = {*((what, late, True) for what in CHANGES), *(("rate", when, False) for when in WHEN)}
    slow = {(what, when, eager) for what in CHANGES for when in WHEN for eager in (False, True)}
    for case in sorted(slow):
        marks = [] if case in quick else [pytest.mark.slow]
        yield pytest.param(*case, marks=marks, id="-".join(map(str, case)))


@pytest.mark.parametrize(("what", "when", "eager"), [*cases()])
def test_a_callback_that_changes_the_model(rows, what, when, eager):
    """The ledger has the accesses whose steps ran, and no step runs of anything else."""
    loss = ClippedLoss(HKR(2.0), 0.1) if what == "alpha" else None
    model, change = network(loss, run_eagerly=eager), Change(when, CHANGES[what])
    optimizer = model.optimizer
    with pytest.raises(LipdpError) as refused:
        model.fit(*rows, batch_size=50, epochs=2, verbose=0, callbacks=[change])
    steps = {"on_train_begin": 0, "on_epoch_begin": 4, "on_train_batch_begin": 1}.get(when, 2)
    if what == "train_function":
        # The step that somebody else ran is noticed at the next one.
        assert "train_function was replaced" in str(refused.value)
    assert model.ledger.steps == steps
    assert int(optimizer.iterations) == steps


def test_a_change_inside_a_step_ends_it_before_its_update(rows):
    """The last comparison is made while a step is traced, behind the layers."""

    class Meddling(NonExpansiveLayer):
        def call(self, inputs):
            if self.change:
                vars(model.loss)["max_norm"] = 1e3
            return inputs

    class Arm(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            Meddling.change, self.before = True, self.model.get_weights()

    Meddling.change = False
    model = compiled(
        lipdp.Sequential([BoundedInput((4,), 2.0), Meddling(), SpectralDense(2)]), run_eagerly=True
    )
    arm = Arm()
    with pytest.raises(InvalidState, match="max_norm of clipped_loss"):
        model.fit(*rows, batch_size=50, verbose=0, callbacks=[arm])
    assert int(model.optimizer.iterations) == 0
    for a, b in zip(arm.before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


class TestWeights:
    """Bounds are of the present weights where these are not trained."""

    def model(self, **options):
        keras.utils.set_random_seed(0)
        frozen = K.Dense(4, use_bias=False, kernel_initializer="orthogonal", trainable=False)
        return compiled(
            lipdp.Sequential([BoundedInput((4,), 2.0), frozen, SpectralDense(2)]), **options
        )

    @pytest.mark.parametrize(("eager", "steps"), [(False, 4), (True, 2)])
    def test_larger_ones_are_noticed(self, rows, eager, steps):
        """At the next epoch, and where steps run eagerly at the next access."""
        model = self.model(run_eagerly=eager)
        grown = Change(
            "on_train_batch_end", lambda one: one.layers[1].kernel.assign(9.0 * np.eye(4))
        )
        with pytest.raises(InvalidState, match="larger gradients"):
            model.fit(*rows, batch_size=50, epochs=2, verbose=0, callbacks=[grown])
        assert model.ledger.steps == steps

    def test_smaller_ones_train_on(self, rows):
        model = self.model()
        less = Change(
            "on_train_batch_end", lambda one: one.layers[1].kernel.assign(0.5 * np.eye(4))
        )
        model.fit(*rows, batch_size=50, epochs=2, verbose=0, callbacks=[less])
        assert model.ledger.steps == 8


class TestBeforeTraining:
    @pytest.mark.parametrize("name", ["compute_loss", "train_step", "make_train_function", "call"])
    def test_a_method_of_the_model(self, rows, name):
        model = network()
        setattr(model, name, lambda *args, **kwargs: 0.0)
        with pytest.raises(LipdpError, match=name):
            model.fit(*rows, batch_size=50, verbose=0)
        assert model.ledger.steps == 0
        delattr(model, name)
        model.fit(*rows, batch_size=50, verbose=0)

    @pytest.mark.parametrize("name", ["apply", "scale_loss", "_update"])
    def test_a_method_of_the_optimizer(self, rows, name):
        model = network()
        setattr(model.optimizer, name, lambda *args: None)
        with pytest.raises(UnsafeSetting, match=f"PrivateOptimizer.*{name}"):
            model.fit(*rows, batch_size=50, verbose=0)

    def test_a_method_of_the_inner_optimizer(self, rows):
        """It is what applies the constraints."""
        model = network()
        model.optimizer.inner_optimizer.apply = lambda *args: None
        with pytest.raises(UnsafeSetting, match=r"SGD.*apply"):
            model.fit(*rows, batch_size=50, verbose=0)

    def test_what_only_shows_may_be_hidden(self, rows):
        model = network()
        model.summary = lambda: "short"
        model.fit(*rows, batch_size=50, verbose=0)
        assert model.ledger.steps == 4

    def test_other_options_train_by_a_fit_of_their_own(self, rows):
        model = network()
        model.fit(*rows, batch_size=50, verbose=0)
        before = model.plan.bounds.parameters[0]
        model.layers[2].negative_slope = 3.0
        model.fit(*rows, batch_size=50, verbose=0)
        assert model.plan.bounds.parameters[0] > 2.9 * before
        assert model.ledger.steps == 8


def test_the_learning_rate_may_change(rows):
    model = network()
    schedule = keras.callbacks.LearningRateScheduler(lambda epoch, rate: 0.5 * rate)
    model.fit(*rows, batch_size=50, epochs=2, verbose=0, callbacks=[schedule])
    assert float(model.optimizer.learning_rate) == pytest.approx(0.025)
    assert model.ledger.steps == 8
