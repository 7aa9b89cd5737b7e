import json
import math
import subprocess
import sys

import pytest

from lipdp.errors import InvalidValue, UnknownName
from lipdp.privacy import PrivacyBudget


def test_epsilon_and_delta_by_position():
    budget = PrivacyBudget(8.0, 1e-5)
    assert (budget.epsilon, budget.delta, budget.noise_multiplier) == (8.0, 1e-5, None)
    assert (budget.accountant, budget.allocation, budget.adjacency) == (
        "pld",
        "optimal",
        "add-remove",
    )
    with pytest.raises(TypeError):
        PrivacyBudget(8.0, 1e-5, 1.0)


def test_no_noise_is_allowed():
    assert PrivacyBudget(noise_multiplier=0.0).noise_multiplier == 0.0
    assert PrivacyBudget(8.0, noise_multiplier=1.0).epsilon == 8.0


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({}, "epsilon or noise_multiplier"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": "8"}, "epsilon"),
        ({"epsilon": 1.0, "delta": 0.0}, "delta"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta"),
        ({"epsilon": 1.0, "delta": -1e-5}, "delta"),
        ({"noise_multiplier": -0.1}, "noise multiplier"),
        ({"noise_multiplier": math.inf}, "noise multiplier"),
        ({"epsilon": 1.0, "seed": -1}, "seed"),
        ({"epsilon": 1.0, "seed": 1.5}, "seed"),
        ({"epsilon": 1.0, "seed": True}, "seed"),
    ],
)
def test_values_are_refused_by_name(arguments, word):
    with pytest.raises(InvalidValue, match=word):
        PrivacyBudget(**arguments)


@pytest.mark.parametrize("field", ["accountant", "allocation", "adjacency"])
def test_unknown_names_are_refused(field):
    with pytest.raises(UnknownName, match=field):
        PrivacyBudget(1.0, **{field: "nothing"})


@pytest.mark.parametrize(
    ("rows", "delta"),
    [(10, 1e-5), (60000, 1e-5), (99999, 1e-5), (100000, 1e-6), (1281167, 1e-7), (10**7, 1e-8)],
)
def test_default_delta(rows, delta):
    assert PrivacyBudget(1.0).resolve_delta(rows) == delta


def test_delta_must_stay_below_one_over_rows():
    budget = PrivacyBudget(1.0, 1e-4)
    assert budget.resolve_delta(9999) == 1e-4
    with pytest.raises(InvalidValue, match="1e-05"):
        budget.resolve_delta(10000)
    with pytest.raises(InvalidValue):
        budget.resolve_delta(0)


def test_configuration_round_trip():
    budget = PrivacyBudget(1.0, 1e-6, noise_multiplier=2.0, accountant="rdp", seed=3)
    assert PrivacyBudget.from_config(json.loads(json.dumps(budget.to_config()))) == budget
    with pytest.raises(InvalidValue, match="clip"):
        PrivacyBudget.from_config({"epsilon": 1.0, "clip": 2})


def test_importing_the_package_loads_no_heavy_library():
    code = (
        "import sys, lipdp.privacy;"
        "heavy = {'dp_accounting', 'keras', 'tensorflow', 'jax', 'torch'} & set(sys.modules);"
        "sys.exit(str(sorted(heavy)) if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
