import subprocess
import sys

import pytest

from lipdp.errors import UnknownName
from lipdp.registry import Registry


@pytest.mark.parametrize(
    ("package", "kind"),
    [("losses", "loss"), ("layers", "layer"), ("models", "model"), ("datasets", "data set")],
)
def test_every_listed_name_is_there(package, kind):
    import lipdp

    registry = getattr(__import__(f"lipdp.{package}", fromlist=["x"]), package.upper(), None)
    registry = registry or Registry(f"lipdp.{package}", kind)
    assert registry.names() == sorted(registry.names())
    for name in registry.names():
        assert registry[name].__module__.startswith("lipdp.") or registry[name]
    assert lipdp.__version__


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(UnknownName, match="multiclass_hinge"):
        Registry("lipdp.losses", "loss")["mse"]


def test_listing_imports_no_keras():
    script = (
        "import sys; from lipdp.registry import Registry; "
        "assert 'max_min' in Registry('lipdp.layers', 'layer').names(); "
        "assert 'keras' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
