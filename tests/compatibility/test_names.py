"""Every public name that an earlier version offered is importable by its old path."""

import importlib
import json
import warnings
from pathlib import Path

import pytest

from tests.compatibility.public import public_names
from tests.compatibility.test_files import FACTS, VERSIONS

NAMES = {
    (package, name)
    for version in VERSIONS
    for package, names in FACTS[version]["names"].items()
    for name in names
}


@pytest.mark.parametrize("package", sorted({package for package, _ in NAMES}))
def test_old_names(package):
    now = public_names()
    for name in sorted(name for of, name in NAMES if of == package):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            assert getattr(importlib.import_module(package), name) is not None
        # What moved says where to.
        if name not in now.get(package, ()):
            assert any(issubclass(one.category, DeprecationWarning) for one in seen), name


#: Public names by the file that an earlier version kept them in, where that file is no more.
FILES = json.loads((Path(__file__).parent / "0.1.0.modules.json").read_text())


@pytest.mark.parametrize("module", sorted(FILES))
def test_names_by_their_old_file(module):
    """By which pickles know them, too; a warning says where they are."""
    package = module.rpartition(".")[0].replace("experiment", "run")
    for name in FILES[module]:
        with pytest.warns(DeprecationWarning, match=name):
            found = getattr(importlib.import_module(module), name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert found is getattr(importlib.import_module(package), name)


def test_an_old_package_has_no_copies_of_new_files():
    with pytest.warns(DeprecationWarning):
        from lipdp.experiment.compare import compare
    assert compare.__module__ == "lipdp.run.compare"
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("lipdp.experiment.evaluate")
