"""What metrics of a private model are computed from, and when it has certified accuracy."""

import keras
import numpy as np
import pytest

import lipdp
from lipdp import losses
from lipdp.errors import InvalidValue
from lipdp.layers import BoundedInput, SpectralDense
from lipdp.training.metrics import (
    OF_PROBABILITIES,
    OnProbabilities,
    certified_metric,
    on_logits,
    probabilities,
    sums_over_rows,
)

HINGE = losses.MulticlassHinge()


@pytest.mark.parametrize(
    ("loss", "outputs", "radius"),
    [
        (losses.MeanAbsoluteError(), 3, 0.1),
        (losses.MultilabelBinaryCrossentropy(), 3, 0.1),
        (losses.PositionwiseLoss(HINGE, 4), 3, 0.1),
        (HINGE, 3, None),
        (HINGE, None, 0.1),
    ],
)
def test_none_where_a_record_has_not_one_class(loss, outputs, radius):
    assert certified_metric(outputs, loss, radius) is None


@pytest.mark.parametrize("loss", [HINGE, losses.TemperedBinaryCrossentropy()])
def test_one_class_a_record(loss):
    assert certified_metric(3, loss, 0.1) is not None


def test_sums_are_told_from_means():
    """Twice the same rows give twice the value, or the same."""
    kinds = keras.metrics
    sums = [kinds.Sum(), kinds.TruePositives(), kinds.TrueNegatives()]
    sums += [kinds.FalsePositives(), kinds.FalseNegatives()]
    means = [kinds.Mean(), kinds.BinaryAccuracy(), kinds.AUC(), kinds.Recall(), kinds.F1Score()]
    assert len(sums_over_rows({"a": sums, "b": [*means, None, "accuracy"]})) == len(sums)
    assert sums_over_rows(["true_positives", "TruePositives", "sum", "auc"]) == [
        "TruePositives",
        "TruePositives",
        "Sum",
    ]
    rows = [[1.0], [0.0], [1.0], [0.0]], [[0.9], [0.8], [0.2], [0.1]]
    of_values = (kinds.Sum, kinds.Mean)
    for metric in (*sums, *means):
        values = []
        for times in (1, 2):
            metric.reset_state()
            for _ in range(times):
                metric.update_state(*(rows[:1] if type(metric) in of_values else rows))
            values.append(float(keras.ops.sum(metric.result())))
        assert values[1] == pytest.approx(values[0] * (2 if metric in sums else 1)), metric.name


RNG = np.random.default_rng(0)
ROWS = 400
#: One logit: four rows of five have the right sign, and none of few is below 0 and above 1/2.
LABELS = RNG.integers(0, 2, (ROWS, 1))
LOGITS = ((2 * LABELS - 1) + 1.2 * RNG.normal(size=(ROWS, 1))).astype("float32")
CLASSES = RNG.integers(0, 3, ROWS)
ONE_HOT = np.eye(3)[CLASSES]
SCORES = (2.0 * ONE_HOT + RNG.normal(size=(ROWS, 3))).astype("float32")


def sigmoid(z):
    return 1.0 / (1.0 + np.exp(-np.asarray(z, dtype=float)))


def softmax(z):
    powers = np.exp(np.asarray(z, dtype=float))
    return powers / powers.sum(axis=-1, keepdims=True)


def confusion(y, p, threshold=0.5):
    """Counts tp, fp, fn, tn."""
    said, true = p > threshold, y > 0.5
    return [float(np.sum(one)) for one in (said & true, said & ~true, ~said & true, ~said & ~true)]


def ratio(part, *parts):
    return part / sum(parts) if sum(parts) else 0.0


def at_thresholds(y, p):
    """Precision, recall and specificity at 200 thresholds."""
    for threshold in np.linspace(0.0, 1.0, 200):
        tp, fp, fn, tn = confusion(y, p, threshold)
        yield ratio(tp, tp, fp), ratio(tp, tp, fn), ratio(tn, tn, fp)


def best(y, p, wanted, given, least):
    return max(row[wanted] for row in at_thresholds(y, p) if row[given] >= least)


def rank_auc(y, p):
    """The chance that a row of class 1 is above one of class 0."""
    above = p[y == 1][:, None] - p[y == 0][None]
    return float(np.mean((above > 0) + 0.5 * (above == 0)))


def f_beta(y, said, beta):
    tp, fp, fn, _ = confusion(y, said)
    return (1 + beta**2) * tp / ((1 + beta**2) * tp + beta**2 * fn + fp)


def overlap(y, said):
    tp, fp, fn, _ = confusion(y, said)
    return ratio(tp, tp, fp, fn)


def log_loss(y, p):
    return float(np.mean(-y * np.log(p) - (1 - y) * np.log(1 - p)))


def largest(p):
    return np.eye(p.shape[1])[p.argmax(axis=1)]


def columns(y, p):
    return zip(y.T, p.T, strict=True)


def among_two(classes, p):
    return float(np.mean([c in np.argsort(row)[-2:] for c, row in zip(classes, p, strict=True)]))


def correlation(y, z):
    rows = [np.corrcoef(a, b)[0, 1] for a, b in zip(y, z, strict=True)]
    return float(np.mean(rows))


def concordance(y, z):
    rows = [
        2 * np.cov(a, b, bias=True)[0, 1] / (a.var() + b.var() + (a.mean() - b.mean()) ** 2)
        for a, b in zip(y, z, strict=True)
    ]
    return float(np.mean(rows))


M = keras.metrics
#: Of each metric class: its options, what it is on one logit, from labels and probabilities.
ONE_LOGIT = {
    M.AUC: ({}, rank_auc),
    M.BinaryAccuracy: ({}, lambda y, p: np.mean((p > 0.5) == y)),
    M.BinaryCrossentropy: ({}, log_loss),
    M.BinaryIoU: ({"target_class_ids": (1,)}, lambda y, p: overlap(y, p > 0.5)),
    M.F1Score: ({"threshold": 0.5, "average": "micro"}, lambda y, p: f_beta(y, p > 0.5, 1.0)),
    M.FBetaScore: (
        {"beta": 2.0, "threshold": 0.5, "average": "micro"},
        lambda y, p: f_beta(y, p > 0.5, 2.0),
    ),
    M.TruePositives: ({}, lambda y, p: confusion(y, p)[0]),
    M.FalsePositives: ({}, lambda y, p: confusion(y, p)[1]),
    M.FalseNegatives: ({}, lambda y, p: confusion(y, p)[2]),
    M.TrueNegatives: ({"thresholds": 0.7}, lambda y, p: confusion(y, p, 0.7)[3]),
    M.Poisson: ({}, lambda y, p: np.mean(p - y * np.log(p))),
    M.Precision: ({}, lambda y, p: ratio(confusion(y, p)[0], *confusion(y, p)[:2])),
    M.Recall: ({}, lambda y, p: ratio(confusion(y, p)[0], *confusion(y, p)[:3:2])),
    M.PrecisionAtRecall: ({"recall": 0.8}, lambda y, p: best(y, p, 0, 1, 0.8)),
    M.RecallAtPrecision: ({"precision": 0.8}, lambda y, p: best(y, p, 1, 0, 0.8)),
    M.SensitivityAtSpecificity: ({"specificity": 0.8}, lambda y, p: best(y, p, 1, 2, 0.8)),
    M.SpecificityAtSensitivity: ({"sensitivity": 0.8}, lambda y, p: best(y, p, 2, 1, 0.8)),
}
#: The same for three classes, from one-hot labels and probabilities.
THREE_CLASSES = {
    M.CategoricalCrossentropy: ({}, lambda y, p: -np.mean(np.log(p[y > 0]))),
    M.KLDivergence: ({}, lambda y, p: -np.mean(np.log(p[y > 0]))),
    M.F1Score: ({"average": "micro"}, lambda y, p: f_beta(y, largest(p), 1.0)),
    M.AUC: ({"multi_label": True}, lambda y, p: np.mean([rank_auc(*c) for c in columns(y, p)])),
    M.Precision: (
        {"class_id": 1},
        lambda y, p: ratio(*(confusion(y[:, 1], p[:, 1])[i] for i in (0, 0, 1))),
    ),
    M.CategoricalAccuracy: ({}, lambda y, p: np.mean(p.argmax(1) == y.argmax(1))),
    M.TopKCategoricalAccuracy: ({"k": 2}, lambda y, p: among_two(y.argmax(1), p)),
    M.OneHotIoU: (
        {"num_classes": 3, "target_class_ids": [1]},
        lambda y, p: overlap(y[:, 1], largest(p)[:, 1]),
    ),
    M.OneHotMeanIoU: (
        {"num_classes": 3},
        lambda y, p: np.mean([overlap(*c) for c in columns(y, largest(p))]),
    ),
}
#: From class numbers.
NUMBERED = {
    M.SparseCategoricalCrossentropy: (
        {},
        lambda c, p: -np.mean(np.log(p[np.arange(len(c)), c])),
    ),
    M.SparseCategoricalAccuracy: ({}, lambda c, p: np.mean(p.argmax(1) == c)),
    M.SparseTopKCategoricalAccuracy: ({"k": 2}, among_two),
    M.IoU: (
        {"num_classes": 3, "target_class_ids": [1], "sparse_y_pred": False},
        lambda c, p: overlap(c == 1, p.argmax(1) == 1),
    ),
    M.MeanIoU: (
        {"num_classes": 3, "sparse_y_pred": False},
        lambda c, p: np.mean([overlap(c == k, p.argmax(1) == k) for k in range(3)]),
    ),
}
#: What takes no probabilities, from one-hot labels and the logits themselves.
FROM_LOGITS = {
    M.Accuracy: ({}, lambda y, z: np.mean(y == z)),
    M.CategoricalHinge: (
        {},
        lambda y, z: np.mean(
            np.maximum(0, 1 + np.max((1 - y) * z, axis=1) - np.sum(y * z, axis=1))
        ),
    ),
    M.ConcordanceCorrelation: ({}, concordance),
    M.CosineSimilarity: (
        {},
        lambda y, z: np.mean(np.sum(y * z, axis=1) / np.linalg.norm(z, axis=1)),
    ),
    M.Hinge: ({}, lambda y, z: np.mean(np.maximum(0, 1 - (2 * y - 1) * z))),
    M.LogCoshError: ({}, lambda y, z: np.mean(np.log(np.cosh(z - y)))),
    M.MeanAbsoluteError: ({}, lambda y, z: np.mean(np.abs(z - y))),
    M.MeanAbsolutePercentageError: (
        {},
        lambda y, z: np.mean(100 * np.abs(z - y) / np.maximum(np.abs(y), 1e-7)),
    ),
    M.MeanSquaredError: ({}, lambda y, z: np.mean((z - y) ** 2)),
    M.MeanSquaredLogarithmicError: (
        {},
        lambda y, z: np.mean((np.log1p(np.maximum(z, 1e-7)) - np.log1p(np.maximum(y, 1e-7))) ** 2),
    ),
    M.PearsonCorrelation: ({}, correlation),
    M.R2Score: (
        {},
        lambda y, z: np.mean(1 - ((z - y) ** 2).sum(0) / ((y - y.mean(0)) ** 2).sum(0)),
    ),
    M.RootMeanSquaredError: ({}, lambda y, z: np.sqrt(np.mean((z - y) ** 2))),
    M.SquaredHinge: ({}, lambda y, z: np.mean(np.maximum(0, 1 - (2 * y - 1) * z) ** 2)),
}
#: Of values, or of nothing: they are no metrics of labels and predictions.
NO_PREDICTIONS = {M.Metric, M.Mean, M.Sum, M.MeanMetricWrapper}

BINARY = losses.BinaryHinge()
MANY = losses.MulticlassHinge()


def value(metric, y, z, loss, weight=None):
    (found,) = on_logits(metric, loss)
    if not isinstance(found, keras.metrics.Metric):
        found = keras.metrics.MeanMetricWrapper(found)
    for part in (slice(0, 150), slice(150, None)):
        found.update_state(y[part], z[part], None if weight is None else weight[part])
    return float(found.result())


def cases(table):
    return pytest.mark.parametrize("kind", table, ids=lambda kind: kind.__name__)


def tolerance(kind):
    # AUC is an integral over 200 thresholds.
    return {"rel": 1e-2 if kind is M.AUC else 1e-4, "abs": 1e-6}


class TestEveryMetricOfKeras:
    def test_none_is_left_out(self):
        classes = {c for c in vars(keras.metrics).values() if isinstance(c, type)}
        known = {*ONE_LOGIT, *THREE_CLASSES, *NUMBERED, *FROM_LOGITS, *NO_PREDICTIONS}
        assert classes == known
        of_probabilities = OF_PROBABILITIES & classes
        assert not of_probabilities & set(FROM_LOGITS)
        assert set(ONE_LOGIT) <= of_probabilities

    @cases(ONE_LOGIT)
    @pytest.mark.parametrize("tau", [None, 3.0])
    def test_on_one_logit(self, kind, tau):
        loss = BINARY if tau is None else losses.TemperedBinaryCrossentropy(tau)
        options, expected = ONE_LOGIT[kind]
        wanted = expected(LABELS, sigmoid(LOGITS * (tau or 1.0)))
        assert value(kind(**options), LABELS, LOGITS, loss) == pytest.approx(
            wanted, **tolerance(kind)
        )

    @cases(ONE_LOGIT)
    def test_on_several_labels(self, kind):
        """Entries of a yes or no each, of which most metrics make one number."""
        options, expected = ONE_LOGIT[kind]
        loss = losses.MultilabelBinaryCrossentropy()
        y, z = LABELS.reshape(-1, 2), LOGITS.reshape(-1, 2)
        wanted = expected(y, sigmoid(z))
        assert value(kind(**options), y, z, loss) == pytest.approx(wanted, **tolerance(kind))

    @cases(THREE_CLASSES)
    @pytest.mark.parametrize("tau", [None, 3.0])
    def test_on_three_classes(self, kind, tau):
        loss = MANY if tau is None else losses.TemperedCrossentropy(tau)
        options, expected = THREE_CLASSES[kind]
        wanted = expected(ONE_HOT, softmax(SCORES * (tau or 1.0)))
        found = value(kind(**options), ONE_HOT, SCORES, loss)
        assert found == pytest.approx(wanted, **tolerance(kind))

    @cases(NUMBERED)
    def test_on_numbered_classes(self, kind):
        options, expected = NUMBERED[kind]
        found = value(kind(**options), CLASSES, SCORES, losses.OneVersusAllHinge())
        assert found == pytest.approx(expected(CLASSES, softmax(SCORES)), rel=1e-4)

    @cases(FROM_LOGITS)
    @pytest.mark.parametrize("loss", [MANY, losses.MeanAbsoluteError()])
    def test_what_takes_no_probabilities(self, kind, loss):
        options, expected = FROM_LOGITS[kind]
        found = value(kind(**options), ONE_HOT, SCORES, loss)
        assert found == pytest.approx(expected(ONE_HOT, SCORES.astype(float)), rel=1e-4)

    @cases(ONE_LOGIT)
    def test_in_regression_all_get_the_output(self, kind):
        options, expected = ONE_LOGIT[kind]
        targets = sigmoid(LOGITS).astype("float32")
        found = value(kind(**options), LABELS, targets, losses.MeanSquaredError(target_bound=1.0))
        assert found == pytest.approx(expected(LABELS, sigmoid(LOGITS)), **tolerance(kind))


class TestWhoGetsWhat:
    def accuracy(self, threshold):
        return np.mean(np.greater(LOGITS, threshold) == LABELS)

    @pytest.mark.parametrize("name", ["accuracy", "acc", "binary_accuracy", "BinaryAccuracy"])
    def test_names(self, name):
        assert value(name, LABELS, LOGITS, BINARY) == pytest.approx(self.accuracy(0.0))
        assert [m.name for m in on_logits([name], BINARY)] == [name]

    @pytest.mark.parametrize("name", ["recall", "Recall", M.Recall, M.Recall(), [M.Recall()]])
    def test_recall_counts_what_is_above_zero(self, name):
        """At a logit of 1/2 as threshold it would be much smaller."""
        tp, _, fn, _ = confusion(LABELS, LOGITS, 0.0)
        at_half, _, missed, _ = confusion(LABELS, LOGITS, 0.5)
        assert at_half / (at_half + missed) < tp / (tp + fn) - 0.1
        assert value(name, LABELS, LOGITS, BINARY) == pytest.approx(tp / (tp + fn))

    def test_accuracy_of_classes(self):
        wanted = np.mean(SCORES.argmax(1) == CLASSES)
        for labels in (CLASSES, CLASSES[:, None], ONE_HOT):
            assert value("accuracy", labels, SCORES, MANY) == pytest.approx(wanted)

    @pytest.mark.parametrize(
        "metric",
        [
            M.Precision(thresholds=0),
            M.Precision(thresholds=[0.0]),
            M.AUC(from_logits=True),
            M.BinaryAccuracy(threshold=0),
            M.BinaryAccuracy(threshold=-1.0),
            M.BinaryCrossentropy(from_logits=True),
            M.MeanMetricWrapper(M.binary_crossentropy, from_logits=True),
            losses.BinaryHinge(),
        ],
        ids=lambda metric: type(metric).__name__,
    )
    def test_who_asks_for_logits_gets_them(self, metric):
        assert not any(isinstance(m, OnProbabilities) for m in on_logits(metric, BINARY))

    def test_functions_and_losses_of_keras(self):
        y, p = LABELS, sigmoid(LOGITS)
        for metric in (M.binary_crossentropy, keras.losses.BinaryCrossentropy(), "bce"):
            assert value(metric, y, LOGITS, BINARY) == pytest.approx(log_loss(y, p), rel=1e-4)
        wrapped = M.MeanMetricWrapper(M.binary_accuracy, threshold=0.5)
        assert value(wrapped, y, LOGITS, BINARY) == pytest.approx(self.accuracy(0.0))

    def test_a_loss_does_not_count_rows_that_fill_a_batch(self):
        weight = np.concatenate([np.ones(100), np.zeros(300)])
        error = np.mean((LOGITS[:100] - LABELS[:100]) ** 2)
        for loss in (BINARY, losses.MeanAbsoluteError()):
            found = value(keras.losses.MeanSquaredError(), LABELS, LOGITS, loss, weight)
            assert found == pytest.approx(error, rel=1e-4)

    def test_those_of_the_user(self):
        """Functions and classes get logits; a subclass that only has another name does not."""

        class Mine(M.Mean):
            def update_state(self, y_true, y_pred, sample_weight=None):
                super().update_state(y_pred, sample_weight)

        class MyRecall(M.Recall):
            def update_state(self, y_true, y_pred, sample_weight=None):
                super().update_state(y_true, keras.ops.sigmoid(y_pred), sample_weight)

        class Renamed(M.Recall):
            pass

        def mean_logit(y_true, y_pred):
            return y_pred

        for metric in (Mine(), mean_logit):
            assert value(metric, LABELS, LOGITS, BINARY) == pytest.approx(LOGITS.mean(), rel=1e-4)
        recall = value("recall", LABELS, LOGITS, BINARY)
        assert value(MyRecall(), LABELS, LOGITS, BINARY) == pytest.approx(recall)
        assert value(Renamed(), LABELS, LOGITS, BINARY) == pytest.approx(recall)

    def test_temperatures_inside_wrappers(self):
        inner = losses.TemperedBinaryCrossentropy(5.0)
        for loss in (losses.ClippedLoss(inner, 0.1), losses.ClassWeighted(inner, [0.5, 1.0])):
            assert np.allclose(probabilities(loss, LOGITS), sigmoid(5.0 * LOGITS), atol=1e-6)

    def test_positions(self):
        loss = losses.PositionwiseLoss(losses.TemperedCrossentropy(2.0), 4)
        z = SCORES.reshape(-1, 4, 3)
        assert np.allclose(probabilities(loss, z), softmax(2.0 * z), atol=1e-6)

    @pytest.mark.parametrize("metric", ["nonsense", 3, ["accuracy", "recal"]])
    def test_what_is_no_metric_is_refused(self, metric):
        with pytest.raises(InvalidValue, match="no such metric"):
            on_logits(metric, BINARY)


BUDGET = lipdp.PrivacyBudget(epsilon=8.0, delta=1e-5, seed=0)


def one_logit(rows, metrics, built=True, privacy=BUDGET, loss=None):
    front = [BoundedInput((4,), radius=2.0)] if built else []
    model = lipdp.Sequential([*front, SpectralDense(1)])
    loss = losses.TemperedBinaryCrossentropy(4.0) if loss is None else loss
    model.compile("sgd", loss, metrics=metrics, privacy=privacy)
    model(rows[0][:1])
    model.layers[-1].kernel.assign([[0.6], [0.5], [0.0], [0.0]])
    return model


def expected_recall(model, x, y):
    said = model.predict(x, verbose=0)[:, 0] > 0
    return np.sum(said & (y == 1)) / np.sum(y == 1)


class TestInModels:
    NESTS = {
        "list": lambda: ["recall", "accuracy"],
        "tuple": lambda: (M.Recall(name="recall"), "accuracy"),
        "dict": lambda: {"out": M.Recall(name="recall"), "more": ["accuracy"]},
        "nest": lambda: {"out": [M.Recall(name="recall"), "accuracy"]},
        "object": lambda: M.Recall(name="recall"),
        "name": lambda: "recall",
        "none": lambda: None,
    }

    @pytest.mark.parametrize(("privacy", "built"), [(BUDGET, False), (None, True), (None, False)])
    def test_evaluate(self, rows, privacy, built):
        """Also before the model has a shape, and without privacy."""
        x, y = rows
        model = one_logit(rows, ["recall", "accuracy"], built, privacy)
        found = model.evaluate(x, y, verbose=0, return_dict=True)
        assert found["recall"] == pytest.approx(expected_recall(model, x, y))
        said = model.predict(x, verbose=0)[:, 0] > 0
        assert found["accuracy"] == pytest.approx(np.mean(said == y))

    @pytest.mark.parametrize("nest", NESTS)
    def test_fit(self, rows, nest):
        x, y = rows
        model = one_logit(rows, self.NESTS[nest]())
        history = model.fit(
            x[:150], y[:150], batch_size=50, verbose=0, validation_data=(x[150:], y[150:])
        ).history
        assert ("recall" in history) == ("val_recall" in history) == (nest != "none")
        if nest != "none":
            wanted = expected_recall(model, x[150:], y[150:])
            assert history["val_recall"][-1] == pytest.approx(wanted)

    def test_a_saved_model_has_the_metrics_that_were_given(self, rows, tmp_path):
        x, y = rows
        model = one_logit(rows, [M.Precision(thresholds=0.6, name="sure"), "recall"])
        config = model.get_compile_config()
        assert config["metrics"][0]["class_name"] == "Precision"
        assert config["metrics"][0]["config"]["thresholds"] == 0.6
        assert config["metrics"][1] == "recall"
        model.save(tmp_path / "model.keras")
        loaded = lipdp.load_model(tmp_path / "model.keras")
        assert loaded.get_compile_config()["metrics"] == config["metrics"]
        found = [m.evaluate(x, y, verbose=0, return_dict=True) for m in (model, loaded)]
        assert found[0] == pytest.approx(found[1])
        sure = sigmoid(4.0 * model.predict(x, verbose=0)[:, 0]) > 0.6
        assert found[1]["sure"] == pytest.approx(np.mean(y[sure]))

    def test_an_object_keeps_its_own_state(self, rows):
        recall = M.Recall()
        model = one_logit(rows, [recall])
        found = model.evaluate(*rows, verbose=0, return_dict=True)
        assert float(recall.result()) == pytest.approx(found[recall.name])

    def test_what_is_no_metric_is_refused_at_compile(self, rows):
        with pytest.raises(InvalidValue, match="no such metric"):
            one_logit(rows, ["nonsense"])
