import pytest

from lipdp.config import Component, RunConfig
from lipdp.errors import InvalidConfig

WHOLE = {
    "data": {"name": "adult"},
    "model": {"name": "linear"},
    "loss": {"name": "hkr"},
    "optimizer": {"name": "SGD", "learning_rate": 1},
    "privacy": {"epsilon": 1.0, "delta": 1e-5},
}

BAD = [
    ("data", {}),
    ("data", {"name": "adult", "path": "a.csv"}),
    ("data", {"name": "adult", "test_fraction": 0.0}),
    ("data", {"name": "adult", "test_fraction": 1.0}),
    ("data", {"name": "adult", "split_seed": -1}),
    ("data", {"name": "adult", "limit_rows": 0}),
    ("model", {}),
    ("model", "linear"),
    ("training", {"batch_size": 0}),
    ("training", {"batch_size": True}),
    ("training", {"epochs": 2.5}),
    ("training", {"epochs": "10"}),
    ("training", {"dtype": "float16"}),
    ("training", {"learning_rate_decay": "step"}),
    ("training", {"initial_seed": -1}),
    ("privacy", {}),
    ("privacy", {"delta": 1e-5}),
    ("privacy", {"epsilon": 0}),
    ("privacy", {"epsilon": float("nan")}),
    ("privacy", {"epsilon": float("inf")}),
    ("privacy", {"epsilon": True}),
    ("privacy", {"epsilon": "3"}),
    ("privacy", {"epsilon": 1, "delta": 0}),
    ("privacy", {"epsilon": 1, "delta": 1}),
    ("privacy", {"noise_multiplier": -1}),
    ("privacy", {"epsilon": 1, "seed": 0.5}),
    ("preprocess", {"kind": "pca"}),
    ("preprocess", {"share": 0}),
    ("preprocess", {"share": 1}),
    ("preprocess", {"radius": 0}),
    ("preprocess", {"noise_multiplier": -1}),
    ("certificates", {"radii": []}),
    ("certificates", {"radii": [-0.1]}),
    ("certificates", {"radii": 0.1}),
    ("extra", {}),
]


@pytest.mark.parametrize(("section", "value"), BAD)
def test_bad_sections_are_refused_by_name(section, value):
    with pytest.raises(InvalidConfig, match=section):
        RunConfig(**{**WHOLE, section: value})


def test_the_rest_has_defaults():
    assert RunConfig(**WHOLE).training.batch_size == 2048
    assert RunConfig(**WHOLE).preprocess.kind == "none"


@pytest.mark.parametrize("section", ["data", "model", "loss", "optimizer", "privacy"])
def test_sections_without_a_default_are_required(section):
    with pytest.raises(InvalidConfig, match=f"{section}: this key is required"):
        RunConfig(**{k: v for k, v in WHOLE.items() if k != section})


def test_options_of_a_component_are_all_but_the_name():
    assert Component(name="mlp", widths=[1, 2]).options == {"widths": [1, 2]}
    assert Component(name="mlp").options == {}
