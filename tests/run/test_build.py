"""Options of a loss section."""

import math

import pytest

from lipdp.config import Component, load_config
from lipdp.errors import InvalidConfig, InvalidValue
from lipdp.run.build import build_loss, build_optimizer, check_options


def test_weights_lie_inside_the_clip():
    section = {"name": "multiclass_hinge", "margin": 0.5, "class_weights": [1.0, 3.0, 0.5]}
    weighted = build_loss(Component(**section))
    assert weighted.lipschitz(math.inf, 3) == pytest.approx(3.0 * math.sqrt(2.0))
    clipped = build_loss(Component(**section, max_norm=0.7))
    assert clipped.lipschitz(math.inf, 3) == 0.7
    assert clipped.loss.loss.margin == 0.5


def test_wrong_options_are_named():
    with pytest.raises(InvalidConfig, match="margins"):
        build_loss(Component(name="multiclass_hinge", margins=1.0))
    with pytest.raises(InvalidValue, match="class weight"):
        build_loss(Component(name="multiclass_hinge", class_weights=[1.0, -1.0]))


@pytest.mark.parametrize("rate", [math.inf, math.nan, 1e39, 0.0, -0.1, "fast", True, [0.1]])
@pytest.mark.parametrize("decay", ["constant", "cosine", "linear"])
def test_learning_rates_are_finite_and_positive(rate, decay):
    config = load_config(None, [f"training.learning_rate_decay={decay}"])
    options = {**config.optimizer.options, "learning_rate": rate}
    optimizer = Component(name=config.optimizer.name, **options)
    config = config.model_copy(update={"optimizer": optimizer})
    for refuse in (check_options, lambda config: build_optimizer(config, 10)):
        with pytest.raises(InvalidConfig, match="learning_rate") as caught:
            refuse(config)
        assert repr(rate) in str(caught.value)
