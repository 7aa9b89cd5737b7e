"""The Lipschitz counterpart of plain models: complete, announced, trainable, exportable."""

import keras
import numpy as np
import pytest

import lipdp
from lipdp.conversion import convert, counterpart
from lipdp.conversion.counterparts import Counterpart
from lipdp.errors import InvalidState, UnsupportedLayer
from lipdp.losses import MulticlassHinge

L = keras.layers


def plain_convnet():
    return keras.Sequential(
        [
            keras.Input((6, 6, 2)),
            L.RandomTranslation(0.1, 0.1),
            L.Rescaling(0.5),
            L.Conv2D(4, 3, padding="same", activation="relu", kernel_regularizer="l2"),
            L.BatchNormalization(),
            L.SeparableConv2D(4, 3, padding="same"),
            L.LayerNormalization(),
            L.MaxPooling2D(2),
            L.Dropout(0.2),
            L.Flatten(),
            L.Dense(3, activation="softmax"),
        ]
    )


def plain_residual():
    inputs = keras.Input((5,), name="record")
    x = L.Dense(4, name="stem")(inputs)
    inner = keras.Sequential([keras.Input((4,)), L.Dense(4, activation="gelu")], name="branch")
    shared = L.Dense(4, name="shared")
    x = L.Add(name="sum")([x, inner(x), shared(shared(x))])
    return keras.Model(inputs, L.Activation("softmax", name="head")(L.Dense(2, name="out")(x)))


def test_every_change_is_announced():
    _, changes = convert(plain_convnet())
    now = {change.was: change.now for change in changes}
    assert now["input"] == ("BoundedInput",)
    assert now["Conv2D"] == ("SpectralConv2D", "BoundedBias", "Activation")
    assert now["BatchNormalization"] == ()
    assert now["SeparableConv2D"] == ("SpectralDepthwiseConv2D", "SpectralConv2D", "BoundedBias")
    assert now["LayerNormalization"] == ("CenterNorm",)
    assert now["Dense"] == ("SpectralDense", "BoundedBias")
    assert not {"MaxPooling2D", "Dropout", "Flatten", "Rescaling"} & set(now)
    assert all(change.why and change.layer in str(change) for change in changes)
    assert "logits" in next(c.why for c in changes if c.was == "Dense")


def test_the_converted_model_trains_privately_and_exports():
    model, _ = convert(plain_convnet(), input_radius=3.0)
    assert isinstance(model, lipdp.Model)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 6, 6, 2)), rng.integers(0, 3, size=40)
    budget = lipdp.PrivacyBudget(noise_multiplier=1.0, delta=1e-5)
    model.compile(keras.optimizers.SGD(0.1), MulticlassHinge(margin=0.5), privacy=budget)
    model.fit(x, y, batch_size=20, epochs=1, verbose=0)
    assert model.ledger.steps == 2
    assert model.lipschitz_constant() < 10.0
    served = lipdp.export(model)
    np.testing.assert_allclose(
        served.predict(x, verbose=0), model.predict(x, verbose=0), rtol=1e-5, atol=1e-5
    )


def test_the_ball_lies_behind_augmentation_and_in_front_of_a_factor():
    model, changes = convert(plain_convnet(), input_radius=3.0)
    (ball,) = [layer for layer in model.layers if type(layer) is lipdp.layers.BoundedInput]
    behind = ball._inbound_nodes[0].input_tensors[0]._keras_history.operation
    assert type(behind) is L.RandomTranslation
    assert ball.radius == 6.0  # in front of a factor 0.5
    assert any("6" in change.why for change in changes if change.was == "input")


def test_the_ball_lies_behind_a_shift():
    shifted = [keras.Input((4,)), L.Rescaling(2.0, offset=-1.0), L.Dense(2)]
    model, _ = convert(keras.Sequential(shifted), input_radius=3.0)
    kinds = [type(layer) for layer in model.layers]
    assert kinds.index(L.Rescaling) < kinds.index(lipdp.layers.BoundedInput)
    assert model.layers[2].radius == 3.0


def test_converted_models_certify():
    model, _ = convert(plain_convnet(), input_radius=3.0)
    x = np.random.default_rng(0).normal(size=(6, 6, 6, 2)).astype("float32")
    assert np.all(lipdp.certify(model, x).radii > 0.0)


def test_residual_nested_and_shared_layers():
    plain = plain_residual()
    before = [w.copy() for w in plain.get_weights()]
    model, changes = convert(plain)
    by_name = {change.layer: change.now for change in changes}
    assert by_name["sum"] == ("Average",)
    assert by_name["head"] == ()
    # Five kernels and five biases: stem, branch, shared (once), out.
    assert len(model.trainable_variables) == 8
    bounds = lipdp.bounds.gradient_bounds(model, MulticlassHinge(margin=0.5))
    assert all(0.0 < d < np.inf for d in bounds.parameters)
    assert all(np.array_equal(a, b) for a, b in zip(before, plain.get_weights(), strict=True))
    assert model.output_shape == (None, 2)


def test_default_radius_is_the_norm_of_a_record_of_ones():
    model, _ = convert(keras.Sequential([keras.Input((4, 4, 1)), L.Flatten(), L.Dense(2)]))
    (ball,) = [layer for layer in model.layers if type(layer) is lipdp.layers.BoundedInput]
    assert ball.radius == 4.0


def test_an_embedding_reads_ids_without_a_ball():
    inputs = keras.Input((3,), dtype="int32")
    x = L.GlobalAveragePooling1D()(L.Embedding(7, 4)(inputs))
    model, changes = convert(keras.Model(inputs, L.Dense(2)(x)))
    assert {c.was: c.now for c in changes}["Embedding"] == ("BoundedEmbedding",)
    assert not [c for c in changes if c.was == "input"]
    lipdp.bounds.gradient_bounds(model, MulticlassHinge(margin=0.5))


def test_layers_without_a_counterpart_are_all_named():
    plain = keras.Sequential(
        [
            keras.Input((4, 4)),
            L.LSTM(3, return_sequences=True, name="memory"),
            L.Dense(3, activation="exponential", name="wild"),
            L.Flatten(),
            L.Dense(2),
        ]
    )
    with pytest.raises(UnsupportedLayer) as raised:
        convert(plain)
    assert "memory" in str(raised.value) and "wild" in str(raised.value)


def converted(shape, *layers, dtype=None):
    """The converted model of some layers in a row, and the reasons by the layer's class."""
    model, changes = convert(keras.Sequential([keras.Input(shape, dtype=dtype), *layers]))
    return model, {change.was: change.why for change in changes}


MAP = (6, 6, 4)
WITHOUT_COUNTERPART = {
    "depthwise dilation": (MAP, L.DepthwiseConv2D(3, dilation_rate=2), r"dilation_rate.*\(2, 2\)"),
    "separable dilation": (MAP, L.SeparableConv2D(2, 3, dilation_rate=2), "dilation_rate"),
    "1D transpose dilation": ((6, 4), L.Conv1DTranspose(2, 3, dilation_rate=2), "dilation_rate"),
    "transpose dilation": (MAP, L.Conv2DTranspose(2, 3, dilation_rate=2), "dilation_rate"),
    "output padding": (
        MAP,
        L.Conv2DTranspose(2, 3, strides=2, output_padding=1),
        r"output_padding.*\(1, 1\)",
    ),
    "convolution": (MAP, L.Conv2D(2, 3, data_format="channels_first"), "channels_first"),
    "1D convolution": ((4, 6), L.Conv1D(2, 3, data_format="channels_first"), "channels_first"),
    "depthwise": (MAP, L.DepthwiseConv2D(3, data_format="channels_first"), "channels_first"),
    "separable": (MAP, L.SeparableConv2D(2, 3, data_format="channels_first"), "channels_first"),
    "transpose": (MAP, L.Conv2DTranspose(2, 3, data_format="channels_first"), "channels_first"),
    "first axis": (MAP, L.LayerNormalization(axis=1), r"axis.*\(1,\)"),
    "several axes": (MAP, L.LayerNormalization(axis=(-2, -1)), "axis"),
    "low rank": (MAP, L.Dense(4, lora_rank=1), "LoRA"),
}


@pytest.mark.parametrize("name", WITHOUT_COUNTERPART)
def test_an_option_without_a_counterpart_is_refused_with_its_value(name):
    shape, layer, words = WITHOUT_COUNTERPART[name]
    layer = type(layer).from_config({**layer.get_config(), "name": "my_layer"})
    with pytest.raises(UnsupportedLayer, match=words) as raised:
        converted(shape, layer, L.Flatten(), L.Dense(2))
    assert "my_layer" in str(raised.value)


@pytest.mark.parametrize("axis", [-1, 3, (3,)])
def test_every_name_of_the_last_axis_is_centred(axis):
    model, why = converted(MAP, L.LayerNormalization(axis=axis), L.Flatten(), L.Dense(2))
    assert any(type(layer) is lipdp.layers.CenterNorm for layer in model.layers)
    assert "scale and shift are left out" in why["LayerNormalization"]


def test_a_normalisation_that_does_not_centre_is_no_centring():
    with pytest.warns(UserWarning, match="rms_scaling"):
        layer = L.LayerNormalization(rms_scaling=True)
    model, why = converted((4,), L.Dense(3), layer, L.Dense(2))
    assert not any(type(made) is lipdp.layers.CenterNorm for made in model.layers)
    assert "norm" in why["LayerNormalization"]


def test_dilation_of_a_convolution_is_kept():
    model, _ = converted(MAP, L.Conv2D(2, 3, dilation_rate=2), L.Flatten(), L.Dense(2))
    assert model.layers[2].dilation_rate == (2, 2)


@pytest.mark.parametrize("masks", [False, True])
def test_a_mask_that_is_not_made_is_named(masks):
    table = L.Embedding(7, 4, mask_zero=masks)
    _, why = converted((3,), table, L.Flatten(), L.Dense(2), dtype="int32")
    assert ("no mask" in why["Embedding"]) is masks


def test_a_mask_that_is_read_is_refused():
    table = L.Embedding(7, 4, mask_zero=True)
    with pytest.raises(UnsupportedLayer, match="mask_zero=False"):
        converted((3,), table, L.GlobalAveragePooling1D(), L.Dense(2), dtype="int32")


def test_operators_between_tensors_are_refused():
    inputs = keras.Input((4,))
    x = L.Dense(4)(inputs)
    with pytest.raises(UnsupportedLayer, match="merging layers"):
        convert(keras.Model(inputs, L.Dense(2)(x + L.Dense(4)(x))))


def test_a_regularizer_of_a_copied_layer_is_named():
    model, why = converted((4,), L.Dense(3), L.PReLU(alpha_regularizer="l2"), L.Dense(2))
    assert "alpha_regularizer" in why["PReLU"] and "weight_decay" in why["PReLU"]
    assert not model.losses


def test_an_activity_regularizer_of_a_copied_layer_is_named():
    _, why = converted((4,), L.Dense(3), L.ReLU(activity_regularizer="l2"), L.Dense(2))
    assert "activity_regularizer" in why["ReLU"]


def test_a_regularizer_of_a_replaced_layer_is_named_if_there_is_one():
    penalised = L.Conv2D(2, 3, kernel_regularizer="l2", bias_regularizer="l1")
    _, why = converted(MAP, penalised, L.Flatten(), L.Dense(2))
    assert "kernel_regularizer, bias_regularizer" in why["Conv2D"]
    assert "regularizer" not in why["Dense"]


def test_frozen_layers_that_become_trained_are_named():
    _, why = converted(MAP, L.Conv2D(2, 3, trainable=False), L.Flatten(), L.Dense(2))
    assert "frozen" in why["Conv2D"] and "frozen" not in why["Dense"]


def test_another_precision_is_named():
    _, why = converted((4,), L.ReLU(dtype="float16"), L.Dense(2, dtype="mixed_float16"))
    assert all("float32 instead of float16" in why[kind] for kind in ("Dense", "ReLU"))


class MyDense(L.Dense):
    def call(self, inputs):
        return 100.0 * super().call(inputs)


class MyHead(L.Activation):
    def call(self, inputs):
        return 100.0 * super().call(inputs)


class KnownDense(L.Dense):
    pass


@pytest.mark.parametrize("layer", [MyDense(2, name="mine"), MyHead("softmax", name="mine")])
def test_a_subclass_from_elsewhere_is_no_keras_layer(layer):
    with pytest.raises(UnsupportedLayer, match=rf"mine.*{type(layer).__name__}"):
        converted((4,), L.Dense(3), layer)


def test_a_subclass_from_elsewhere_may_have_a_rule():
    made = lipdp.layers.FrobeniusDense(2)
    counterpart.register(KnownDense, lambda layer: Counterpart((made,), "it is known"))
    _, why = converted((4,), L.Dense(3), KnownDense(2))
    assert why["KnownDense"] == "it is known"


def test_layers_of_the_package_are_copied():
    model, why = converted((4,), lipdp.layers.SpectralDense(4), lipdp.layers.MaxMin(), L.Dense(2))
    assert [type(layer) for layer in model.layers[2:4]] == [
        lipdp.layers.SpectralDense,
        lipdp.layers.MaxMin,
    ]
    assert set(why) == {"input", "Dense"}


def test_models_without_a_graph():
    with pytest.raises(InvalidState):
        convert(keras.Sequential([L.Dense(2)]))


def test_mixed_precision_becomes_float32():
    plain = keras.Sequential([keras.Input((4,)), L.Dense(2, dtype="mixed_float16")])
    model, _ = convert(plain)
    assert {layer.compute_dtype for layer in model.layers[1:]} == {"float32"}


class TestLayersWithoutACounterpart:
    """Each is named with a way out of its own, however it is called."""

    @pytest.mark.parametrize(
        ("shape", "layer", "words"),
        [
            ((6, 8), L.LSTM(4), "SpectralConv1D"),
            ((6, 8), L.Bidirectional(L.GRU(4)), "SpectralConv1D"),
            ((6, 8), L.TimeDistributed(L.Dense(4)), "Call the layer inside it directly"),
            ((6, 8), L.Normalization(mean=0.0, variance=1.0), "Rescaling"),
            ((6, 8), L.SpectralNormalization(L.Dense(4)), "SpectralDense"),
        ],
    )
    def test_of_one_input(self, shape, layer, words):
        plain = keras.Sequential([keras.Input(shape), layer, L.Flatten(), L.Dense(1)])
        with pytest.raises(UnsupportedLayer, match=f"{layer.name}.*{words}"):
            lipdp.convert(plain)

    @pytest.mark.parametrize(
        "call",
        [
            lambda x: L.MultiHeadAttention(2, 4)(x, x),
            lambda x: L.MultiHeadAttention(2, 4)(query=x, value=x),
            lambda x: L.Attention()([x, x]),
        ],
    )
    def test_attention(self, call):
        inputs = keras.Input((6, 8))
        plain = keras.Model(inputs, L.Dense(1)(L.Flatten()(call(inputs))))
        with pytest.raises(UnsupportedLayer, match=r"ttention.*lipdp\.models") as refused:
            lipdp.convert(plain)
        assert "KerasTensor" not in str(refused.value)

    def test_texts(self):
        texts = L.TextVectorization(max_tokens=10, output_sequence_length=4, name="words")
        texts.adapt(["a b", "b c"])
        inputs = keras.Input((1,), dtype="string")
        outputs = L.Dense(1)(L.Flatten()(L.Embedding(10, 4)(texts(inputs))))
        with pytest.raises(UnsupportedLayer, match=r"words.*beforehand|words.*before fit"):
            lipdp.convert(keras.Model(inputs, outputs))

    def test_a_mask_of_a_layer_with_a_counterpart(self):
        masked = L.Embedding(10, 4, mask_zero=True)
        plain = keras.Sequential([keras.Input((6,)), masked, L.LayerNormalization(), L.LSTM(2)])
        with pytest.raises(UnsupportedLayer) as refused:
            lipdp.convert(plain)
        assert "layer_normalization" not in str(refused.value)
