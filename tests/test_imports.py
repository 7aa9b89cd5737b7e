"""Which file of the library may import which: no circle, nothing private, no name twice."""

import ast
import importlib
from collections import Counter
from pathlib import Path

import pytest

from tests.compatibility.public import packages

ROOT = Path(__file__).parent.parent
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((ROOT / "lipdp").rglob("*.py"))
}


def imports_of(body):
    """Import statements that run when the module is imported."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from imports_of(node.orelse)
        elif isinstance(node, ast.If | ast.Try | ast.With):
            yield from imports_of(
                [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.stmt)]
            )


def read_by(module):
    """Modules of the library that an import of this one reads names from."""
    found = set()
    for node in imports_of(ast.parse(MODULES[module].read_text()).body):
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {name if name in MODULES else node.module for name in names}
        else:
            found |= {alias.name for alias in node.names}
    return (found & MODULES.keys()) - {module}


def test_no_circle():
    left = {module: read_by(module) for module in MODULES}
    while True:
        free = {module for module, needed in left.items() if not needed & left.keys()}
        if not free:
            break
        left = {module: needed for module, needed in left.items() if module not in free}
    assert not left, f"import each other: {sorted(left)}"


@pytest.mark.parametrize("module", MODULES)
def test_private_modules_are_of_their_package(module):
    package = module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lipdp"):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            for name in {name if name in MODULES else node.module for name in names}:
                owner, _, last = name.rpartition(".")
                private = last.startswith("_") and not last.startswith("__")
                assert not private or package == owner or package.startswith(f"{owner}."), name


@pytest.mark.parametrize("package", [p for p in packages() if p.count(".") == 1])
def test_no_file_name_twice_in_a_package(package):
    folder = MODULES[package].parent
    names = Counter(path.name for path in folder.rglob("*.py"))
    assert not {n for n, count in names.items() if count > 1} - {"__init__.py", "base.py"}


@pytest.mark.parametrize("package", packages())
def test_public_names_are_reachable(package):
    module = importlib.import_module(package)
    assert sorted(set(module.__all__)) == sorted(module.__all__)
    for name in module.__all__:
        assert getattr(module, name) is not None


@pytest.mark.parametrize(
    ("package", "names"),
    [
        ("layers", {"LipschitzLayer", "NonExpansiveLayer"}),
        ("losses", {"LipschitzLoss"}),
        ("projections", {"Projection"}),
    ],
)
def test_a_file_of_bases_holds_nothing_else_that_can_be_extended(package, names):
    """Classes of these files state no bounds yet: only they may be subclassed by anyone."""
    tree = ast.parse(MODULES[f"lipdp.{package}.base"].read_text())
    assert {node.name for node in tree.body if isinstance(node, ast.ClassDef)} == names
