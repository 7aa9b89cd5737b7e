from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lipdp.config import SweepSection, load_config
from lipdp.errors import InvalidConfig
from lipdp.sweep.space import accounted_settings, check_space, suggest, trial_config, values

CONFIG = load_config(None)


class FirstChoice:
    """A trial that takes the first value of everything."""

    def suggest_categorical(self, name, choices):
        return choices[0]

    def suggest_int(self, name, low, high, *, step, log):
        return low

    def suggest_float(self, name, low, high, *, step, log):
        return low


def section(**space):
    return SweepSection(space={key.replace("__", "."): value for key, value in space.items()})


@given(
    st.lists(st.integers(1, 9), max_size=3),
    st.floats(1e-300, 1e300, exclude_max=True),
    st.sampled_from(["cosine", "linear"]),
)
def test_a_trial_gets_what_the_space_says(widths, rate, decay):
    sweep = section(
        model__widths=[widths, [50]],
        optimizer__learning_rate={"low": rate, "high": 1e300},
        training__epochs={"low": 3, "high": 5},
        training__learning_rate_decay=[decay],
    )
    parameters = suggest(FirstChoice(), sweep.space)
    config = trial_config(CONFIG, sweep, parameters)
    assert config.model.options["widths"] == widths
    assert config.optimizer.options["learning_rate"] == rate
    assert config.training.epochs == 3 and isinstance(config.training.epochs, int)
    assert config.training.learning_rate_decay == decay
    assert config.data.validation_fraction == sweep.validation_fraction
    assert values(parameters)["model.widths"] == widths


@pytest.mark.parametrize(
    ("space", "words"),
    [
        ({"training__batchsize": [1]}, "training.batchsize"),
        ({"training__batch_size": [64, 0]}, "training.batch_size"),
        ({"training__epochs": {"low": 0, "high": 5}}, "training.epochs"),
        ({"training__epochs": {"low": 1.0, "high": 5.5}}, "training.epochs"),
        ({"model__width": [[1]]}, "model.width.* no option of mlp"),
        ({"loss__tau": [1.0]}, "loss.tau.* no option"),
        ({"loss__name": ["no_such_loss"]}, "no loss"),
        ({"model__widths": [date(2020, 1, 1)]}, r"model\.widths.*cannot keep"),
        ({"optimizer__name": ["Nothing"]}, "optimizer.name"),
        ({"optimizer__learningrate": [1.0]}, "optimizer.learningrate"),
        ({"model__name": ["linear", "mlp"], "model__depth": [1]}, "model.depth"),
    ],
)
def test_unknown_keys_and_values_are_named_before_any_trial(space, words):
    with pytest.raises(InvalidConfig, match=words):
        check_space(CONFIG, section(**space))


def test_options_of_one_of_several_models_are_fine():
    check_space(CONFIG, section(model__name=["linear", "mlp"], model__widths=[[4]]))
    check_space(CONFIG, section(loss__max_norm=[0.1], optimizer__learning_rate=[0.1]))


@pytest.mark.parametrize("choice", ["a=b", 'quote "', "1", "true", "\x7f", [], {"a": [1.5]}, 1e300])
def test_a_choice_keeps_its_type(choice):
    parameters = suggest(FirstChoice(), section(model__note=[choice, 2]).space)
    config = trial_config(CONFIG, section(model__note=[choice]), parameters)
    assert config.model.options["note"] == choice == values(parameters)["model.note"]
    assert type(config.model.options["note"]) is type(choice)


def test_all_costs_are_listed():
    sweep = section(
        training__batch_size=[64, 128],
        privacy__epsilon=[1.0, 2.0, 3.0],
        optimizer__learning_rate={"low": 0.1, "high": 1.0},
    )
    found = accounted_settings(sweep)
    assert len(found) == 6 and {"training.batch_size": "64", "privacy.epsilon": "3.0"} in found


def test_a_range_of_costs_has_no_list():
    with pytest.raises(InvalidConfig, match=r"training\.epochs.*list"):
        accounted_settings(section(training__epochs={"low": 1, "high": 9}))
