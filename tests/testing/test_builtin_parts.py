"""The harnesses, turned on every part of this package."""

import keras
import pytest

from lipdp import layers, losses, projections
from lipdp.bounds.rules import lookup
from lipdp.layers.base import LipschitzLayer
from lipdp.privacy import PoissonSampler
from lipdp.testing import check_sampler
from lipdp.testing.parts import KERAS_LAYERS, LAYERS, LOSSES, PROJECTIONS

QUICK = {"MaxMin", "Concatenate", "TemperedBinaryCrossentropy", "MulticlassHinge"}


def cases(parts, variants):
    """Every part in every variant; all are slow but the first ones of the quick parts."""
    for part in parts:
        for i, variant in enumerate(variants(part)):
            quick = part.name in QUICK and i == 0
            marks = [] if quick else [pytest.mark.slow]
            yield pytest.param(part, variant, marks=marks, id=f"{part.name}-{variant}")


def dtypes(part):
    """Float64 where a layer has arithmetic of its own and the search is quick."""
    both = part.plain and "Conv" not in part.name
    return ("float32", "float64") if both else ("float32",)


@pytest.mark.parametrize(
    ("part", "dtype"),
    [
        *cases(LAYERS, dtypes),
        *cases(KERAS_LAYERS, lambda part: ("float32",)),
    ],
)
def test_layer(part, dtype):
    # Each bound is attained, so none is needlessly loose.
    assert part.check(dtype).best > part.least


@pytest.mark.parametrize(("part", "bound"), [*cases(LOSSES, lambda part: part.logit_bounds)])
def test_loss(part, bound):
    assert part.check(bound).best > part.least


@pytest.mark.parametrize(
    ("part", "dtype"),
    [
        pytest.param(p, d, marks=marks, id=f"{p.name}-{d}")
        for p in PROJECTIONS
        for d, marks in (("float32", []), ("float64", [pytest.mark.slow]))
    ],
)
def test_projection(part, dtype):
    assert part.check(part.shapes[0], dtype).best > part.least


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "shape"),
    [pytest.param(p, s, id=f"{p.name}-{s}") for p in PROJECTIONS for s in p.shapes[1:]],
)
def test_projection_at_other_shapes(part, shape):
    for dtype in ("float32", "float64"):
        assert part.check(shape, dtype).best > part.least


def names(parts):
    return {part.name.split()[0] for part in parts}


def test_no_layer_is_forgotten():
    public = {n for n in layers.__all__ if issubclass(getattr(layers, n), LipschitzLayer)}
    assert public - {"LipschitzLayer", "NonExpansiveLayer"} <= names(LAYERS)


#: They stand in front of a bounded input and have no bound of their own.
AUGMENTATIONS = {
    *("RandomBrightness", "RandomContrast", "RandomErasing", "RandomRotation", "RandomShear"),
    *("RandomTranslation", "RandomZoom"),
}


def test_no_plain_layer_with_a_rule_is_forgotten():
    known = {*lookup._RULES, *lookup.structure.MERGE_RULES}
    assert {t.__name__ for t in known} <= names(KERAS_LAYERS) | AUGMENTATIONS
    assert all(hasattr(keras.layers, name) for name in names(KERAS_LAYERS))


def test_no_loss_is_forgotten():
    assert set(losses.__all__) - {"LOSSES", "LipschitzLoss"} <= names(LOSSES)


def test_no_projection_is_forgotten():
    public = {n for n in projections.__all__ if n[0].isupper()}
    assert public - {"Projection"} <= names(PROJECTIONS)


def test_no_part_is_listed_twice():
    for parts in (LAYERS, KERAS_LAYERS, LOSSES, PROJECTIONS):
        listed = [part.name for part in parts]
        assert len(listed) == len(set(listed))


@pytest.mark.parametrize(("rows", "batch"), [(100, 20), (20_000, 2_000)])
def test_sampler(rows, batch):
    """Both ways in which NumPy draws a set: of few rows or a small share, and of a large one."""
    assert check_sampler(PoissonSampler(rows, batch, seed=0)).draws >= 2000
