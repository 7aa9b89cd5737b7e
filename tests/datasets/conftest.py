"""Small files in the forms of the registered sets, from a module beside the tests."""

import importlib.util
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def made():
    """The functions that write them."""
    spec = importlib.util.spec_from_file_location(
        "made_datasets", Path(__file__).with_name("made.py")
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
