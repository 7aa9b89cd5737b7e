import pytest

from lipdp.errors import BoundViolation
from lipdp.layers import BoundedBias, CotangentClip, SpectralDense
from lipdp.testing.check_layer import check_growth


class Rule:
    def __init__(self, backward):
        self.backward = backward

    def backward_bound(self, x, g):
        return self.backward(g)

    def parameter_bounds(self, x, g):
        return [g]


@pytest.mark.parametrize("layer", [SpectralDense(3), BoundedBias(1.0), CotangentClip(0.5)])
def test_real_layers_grow_as_they_must(layer):
    layer.build((None, 4))
    check_growth("layer", layer, 1.0)


@pytest.mark.parametrize(
    "backward",
    [lambda g: g * g, lambda g: 1.0 / g, lambda g: max(0, g - 1)],
)
def test_wrong_growth_is_caught(backward):
    with pytest.raises(BoundViolation, match="grow"):
        check_growth("layer", Rule(backward), 1.0)
