"""``lipdp train --method``."""

import pytest


def test_the_method_is_part_of_the_configuration(run, experiment):
    run("train")
    run("train", "--method", "dp-sgd", "--set", "dp_sgd.clip_norm=0.5", "--output", "b")
    run("train", "--method", "none", "--set", "training.method=clipless", "--output", "c")
    found = [call["config"] for call in experiment.calls]
    assert [config.training.method for config in found] == ["clipless", "dp-sgd", "clipless"]
    assert [config.dp_sgd.clip_norm for config in found] == [None, 0.5, None]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--method", "magic"], ["--method", "dp-sgd"]),
        (["--set", "dp_sgd.clip_norm=0"], ["dp_sgd.clip_norm", "0"]),
        (["--set", "dp_sgd.activation=tanh"], ["dp_sgd.activation", "relu"]),
    ],
)
def test_bad_methods_are_refused(refused, experiment, arguments, words):
    text = refused("train", *arguments)
    assert all(word in text for word in words), text
    assert experiment.calls == []
