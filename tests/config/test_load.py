import math
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lipdp.config import DEFAULT_PATH, RunConfig, dump_config, load_config, override_config
from lipdp.errors import InvalidConfig

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.booleans() | st.integers() | st.floats() | TEXT | st.lists(st.floats() | TEXT)
OPTIONS = st.dictionaries(
    st.from_regex(r"[a-z_]{1,8}", fullmatch=True).filter(lambda key: key != "name"),
    st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT | st.lists(st.integers()),
    max_size=3,
)
POSITIVE = st.floats(min_value=0, exclude_min=True, allow_infinity=False)


@st.composite
def configs(draw):
    name = draw(st.fixed_dictionaries({"name": TEXT}))
    privacy = {"epsilon": draw(POSITIVE), "seed": draw(st.none() | st.integers(0, 2**64))}
    return RunConfig(
        data={draw(st.sampled_from(["name", "path"])): draw(TEXT)},
        model={**draw(OPTIONS), **name},
        loss={**draw(OPTIONS), **name},
        optimizer={**draw(OPTIONS), **name},
        privacy=privacy,
        certificates={"radii": draw(st.lists(st.floats(0, 10), min_size=1))},
    )


@given(configs())
def test_what_is_dumped_is_loaded(tmp_path_factory, config):
    path = tmp_path_factory.mktemp("config") / "run.toml"
    path.write_text(dump_config(config), encoding="utf-8", newline="")
    assert load_config(path, []) == config


def test_the_packaged_default():
    config = load_config(None, [])
    assert (config.data.name, config.model.name) == ("adult", "mlp")
    assert config == load_config(DEFAULT_PATH)


def test_the_shown_default_is_the_packaged_one():
    shown = Path(__file__).parents[2] / "configs" / "adult.toml"
    assert shown.read_bytes() == DEFAULT_PATH.read_bytes()


def test_overrides_are_toml_or_words():
    config = load_config(
        None,
        [
            "model.name=mlp",
            "model.widths=[128, 128]",
            "model.bias = true",
            'model.note="a=b"',
            "privacy.epsilon=3",
            "training.dtype=float32",
            "training.epochs=1_000",
        ],
    )
    assert config.model.options == {"widths": [128, 128], "bias": True, "note": "a=b"}
    assert config.privacy.epsilon == 3.0
    assert (config.training.dtype, config.training.epochs) == ("float32", 1000)


@pytest.mark.parametrize("key", ["training.batch_size", '"training.batch_size"'])
def test_one_domain_of_a_sweep_can_be_overridden(tmp_path, key):
    path = tmp_path / "sweep.toml"
    sweep = (
        "\n[sweep.space]\n'training.batch_size' = [64]\n'optimizer.momentum' = {low = 0, high = 1}"
    )
    path.write_text(DEFAULT_PATH.read_text() + sweep)
    space = load_config(path, [f"sweep.space.{key}=[256, 512]"]).sweep.space
    assert space["training.batch_size"] == [256, 512] and len(space) == 2
    low = load_config(path, ["sweep.space.optimizer.momentum.low=0.5"]).sweep.space
    assert low["optimizer.momentum"].low == 0.5


def test_the_later_override_wins():
    assert load_config(None, ["training.epochs=1", "training.epochs=2"]).training.epochs == 2


def test_an_empty_value_removes_a_key():
    config = load_config(None, ["data.name=", "data.path=some rows.csv"])
    assert (config.data.name, config.data.path) == (None, "some rows.csv")


@given(TEXT)
@example('quote " backslash \\ = # [x]')
@example("")
@example("1e5")
@example("\x7f")
def test_a_value_is_text_whatever_is_in_it(text):
    values = {"data.name": None, "data.path": text}
    assert load_config(None, values=values).data.path == text
    assert override_config(load_config(None), values=values).data.path == text


@given(VALUES)
def test_an_option_keeps_its_type(value):
    found = load_config(None, values={"model.note": value}).model.options["note"]
    assert repr(found) == repr(value)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_none_arrive_and_are_refused(number):
    with pytest.raises(InvalidConfig, match=rf"privacy\.epsilon.*{number}"):
        load_config(None, values={"privacy.epsilon": number})
    assert repr(load_config(None, values={"model.note": number}).model.options["note"]) == repr(
        number
    )


def test_an_override_wins_over_a_value():
    config = load_config(None, ["training.epochs=2"], values={"training.epochs": 1})
    assert config.training.epochs == 2


def test_a_value_of_another_component_drops_the_options_of_the_old_one():
    config = load_config(None, values={"loss.alpha": 2, "loss.name": "hkr"})
    assert config.loss.options == {"alpha": 2}


def test_an_override_can_open_a_section_and_a_nested_option():
    config = load_config(None, ["optimizer.schedule.decay=0.5"])
    assert config.optimizer.options["schedule"] == {"decay": 0.5}


def test_another_component_drops_the_options_of_the_old_one():
    config = load_config(None, ["loss.alpha=2", "loss.name=hkr"])
    assert config.loss.options == {"alpha": 2}
    same = load_config(None, ["loss.name=tempered_binary_crossentropy"])
    assert same.loss.options == load_config(None, []).loss.options != {}


def test_another_data_set_keeps_the_split():
    assert load_config(None, ["data.split_seed=5", "data.name=other"]).data.split_seed == 5


def test_a_value_cannot_smuggle_in_a_second_key():
    config = load_config(None, ["model.note=1\nx = 2"])
    assert config.model.options == {"widths": [], "note": "1\nx = 2"}


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("privacy.epsilon", "key=value"),
        ("=3", "key=value"),
        ("privacy..epsilon=3", "key=value"),
        ("", "key=value"),
        ("model.widths=[1, 2", "not valid TOML"),
        ('model.note="open', "not valid TOML"),
        ("privacy.epsilon.x=3", "not a section"),
        ("privacy.epsilon=three", "privacy.epsilon.*'three'"),
        ("privacy.epsilom=3", "did you mean 'epsilon'"),
        ("trainning.epochs=3", "did you mean 'training'"),
        ("training.dtype=float16", "'float32' or 'float64'.*'float16'"),
        ("model=linear", "model.*'linear'"),
        ("privacy=3", "privacy.*3"),
        ("model.name=", "model.name: this key is required"),
        ("data.path=x.csv", "data.name="),
    ],
)
def test_bad_overrides(override, words):
    with pytest.raises(InvalidConfig, match=words):
        load_config(None, [override])
