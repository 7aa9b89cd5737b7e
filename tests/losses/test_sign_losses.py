"""Kantorovich-Rubinstein, hinges and their sum, and the multiclass hinge."""

import numpy as np
import pytest

from lipdp.losses import (
    HKR,
    BinaryHinge,
    KantorovichRubinstein,
    MulticlassHinge,
    OneVersusAllHinge,
)

LOGITS = np.array([[1.0, -2.0, 0.5], [0.0, 0.0, 0.0], [3.0, 3.0, -1.0]])
IDS = np.array([1, 0, 0])
SIGNS = 2 * np.eye(3)[IDS] - 1


def test_labels_zero_and_one(gradient_of):
    z, y = np.array([[0.5], [0.5], [3.0]]), np.array([1, 0, 1])
    value, gradient = gradient_of(BinaryHinge(1.0), y, z)
    assert value == pytest.approx(0.5 + 1.5 + 0.0)
    np.testing.assert_array_equal(gradient[:, 0], [-1, 1, 0])
    value, gradient = gradient_of(KantorovichRubinstein(), y, z)
    assert value == pytest.approx(-0.5 + 0.5 - 3.0)
    np.testing.assert_array_equal(gradient[:, 0], [-1, 1, -1])
    value, _ = gradient_of(HKR(2.0, 1.0), y, z)
    assert value == pytest.approx(-3.0 + 2.0 * 2.0)


def test_label_minus_one_is_read_as_zero_and_others_are_clipped(gradient_of):
    z, y = np.ones((5, 1)), np.array([-1, 0, 0.5, 1, 7])
    _, gradient = gradient_of(KantorovichRubinstein(), y, z)
    np.testing.assert_array_equal(gradient[:, 0], [1, 1, 0, -1, -1])


def test_several_logits_mean_over_classes(gradient_of):
    value, gradient = gradient_of(KantorovichRubinstein(), IDS, LOGITS)
    assert value == pytest.approx(-(SIGNS * LOGITS).mean(axis=1).sum(), rel=1e-6)
    np.testing.assert_allclose(gradient, -SIGNS / 3, rtol=1e-6)
    hinge = np.maximum(0, 1 - SIGNS * LOGITS)
    value, gradient = gradient_of(OneVersusAllHinge(1.0), IDS, LOGITS)
    assert value == pytest.approx(hinge.mean(axis=1).sum(), rel=1e-6)
    np.testing.assert_allclose(gradient, -SIGNS * (hinge > 0) / 3, rtol=1e-6)
    value, gradient = gradient_of(HKR(2.0, 1.0), IDS, LOGITS)
    assert value == pytest.approx((2 * hinge - SIGNS * LOGITS).mean(axis=1).sum(), rel=1e-6)
    np.testing.assert_allclose(gradient, -SIGNS * (1 + 2 * (hinge > 0)) / 3, rtol=1e-6)


def test_soft_labels_scale_the_signs(gradient_of):
    _, gradient = gradient_of(OneVersusAllHinge(1.0), [[0.5, 0.25, 0.25]], [[9.0, 0.0, 0.0]])
    np.testing.assert_allclose(gradient, [[0, 0.5 / 3, 0.5 / 3]], rtol=1e-6)


@pytest.mark.parametrize("loss", [BinaryHinge(1.0), HKR(2.0, 1.0), OneVersusAllHinge(1.0)])
def test_hinge_is_flat_at_its_kink(gradient_of, loss):
    outputs = 2 if isinstance(loss, OneVersusAllHinge) else 1
    _, gradient = gradient_of(loss, [1], [[-1.0, 1.0][-outputs:]])
    flat = -1.0 if isinstance(loss, HKR) else 0.0
    np.testing.assert_array_equal(gradient, np.full((1, outputs), flat))


def test_one_versus_all_attains_its_constant(gradient_of):
    loss = OneVersusAllHinge(1.0, dtype="float64")
    _, gradient = gradient_of(loss, [2], np.zeros((1, 7)))
    assert np.linalg.norm(gradient) == pytest.approx(loss.lipschitz(0.0, 7), rel=1e-14)


def test_multiclass_hinge_formula_and_ties(gradient_of):
    value, gradient = gradient_of(MulticlassHinge(1.0), IDS, LOGITS)
    assert value == pytest.approx((1 + 1 + 2) + (1 + 0) + (1 + 3 - 3))
    np.testing.assert_array_equal(gradient, [[1, -1, 0], [-1, 1, 0], [-1, 1, 0]])


def test_multiclass_hinge_is_flat_beyond_the_margin(gradient_of):
    value, gradient = gradient_of(MulticlassHinge(1.0), [0], [[5.0, 1.0, 4.0]])
    assert value == 0
    np.testing.assert_array_equal(gradient, np.zeros((1, 3)))
