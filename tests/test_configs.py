"""Every file under configs/ is one that a person can run: it loads, and its model has bounds."""

from pathlib import Path

import numpy as np
import pytest

from lipdp.bounds import gradient_bounds, lipschitz_constant
from lipdp.config import load_config
from lipdp.datasets import DATASETS
from lipdp.preprocessing import encoding_from_toml
from lipdp.run.build import (
    build_budget,
    build_loss,
    build_model,
    build_optimizer,
    check_options,
)
from lipdp.run.features import features_of

PATHS = sorted((Path(__file__).parents[1] / "configs").glob("*.toml"))


def build(config):
    """The model of a configuration, by the public facts of its data set alone."""
    encoding = encoding_from_toml(DATASETS[config.data.name].schema())
    features = features_of(config, encoding)
    seen = encoding if features is None else features.encoding
    outputs = 1 if len(encoding.classes) == 2 else len(encoding.classes)
    model = build_model(config, seen.num_features, outputs, shape=seen.shape)
    return encoding, features, model


#: One of each kind of model is quick.
QUICK = {"adult", "adbench-yeast", "mnist-certified"}


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=[] if path.stem in QUICK else [pytest.mark.slow])
        for path in PATHS
    ],
)
def test_a_configuration_loads_and_builds(path):
    config = load_config(path)
    check_options(config)
    encoding, features, model = build(config)
    loss = build_loss(config.loss)
    bounds = gradient_bounds(model, loss).parameters
    assert len(bounds) == len(model.trainable_variables) > 0
    assert all(0 < bound < np.inf for bound in bounds)
    assert build_optimizer(config, 100).learning_rate is not None
    assert build_budget(config).epsilon == config.privacy.epsilon > 0
    whole = model if features is None else features.in_front_of(model)
    assert whole.input_shape == (None, encoding.num_features)
    assert 0 <= lipschitz_constant(whole) < np.inf


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_configuration_says_how_to_run_it_and_what_it_reaches(path):
    comment = [line for line in path.read_text().splitlines() if line.startswith("#")]
    text = " ".join(line.lstrip("# ") for line in comment).replace("AUROC", "accuracy").lower()
    command = "sweep" if load_config(path).sweep is not None else "train"
    assert f"lipdp {command} configs/{path.name}" in text
    assert command == "sweep" or "accuracy" in text


def test_every_data_set_has_a_configuration():
    assert {load_config(path).data.name for path in PATHS} == set(DATASETS.names())
