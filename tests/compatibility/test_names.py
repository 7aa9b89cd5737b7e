"""Every public name that an earlier version offered is importable by its old path."""

import importlib
import warnings

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
