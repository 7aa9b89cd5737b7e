"""lipdp: differentially private Keras training without per-sample gradient clipping.

Lipschitz-constrained layers bound every sample's gradient, the bound calibrates the noise, and the
same constants certify every prediction. Nothing heavy is imported before it is used; once Keras is
imported, ``keras.models.load_model`` knows the classes of this package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from lipdp import _known_to_keras, _moved
from lipdp._version import __version__

if TYPE_CHECKING:
    from lipdp import bounds, certificates, layers, losses, privacy, projections, testing
    from lipdp.certificates import certify
    from lipdp.conversion import convert, export
    from lipdp.privacy import PrivacyBudget
    from lipdp.training import Model, Sequential, load_model

_LAZY = {
    "Model": "lipdp.training",
    "PrivacyBudget": "lipdp.privacy",
    "Sequential": "lipdp.training",
    "certify": "lipdp.certificates",
    "convert": "lipdp.conversion",
    "export": "lipdp.conversion",
    "load_model": "lipdp.training",
}
_PACKAGES = frozenset(
    {
        "audit",
        "bounds",
        "certificates",
        "config",
        "conversion",
        "datasets",
        "errors",
        "run",
        "layers",
        "losses",
        "models",
        "preprocessing",
        "privacy",
        "projections",
        "reports",
        "results",
        "statistics",
        "testing",
        "training",
    }
)

__all__ = [
    "Model",
    "PrivacyBudget",
    "Sequential",
    "__version__",
    "bounds",
    "certificates",
    "certify",
    "convert",
    "export",
    "layers",
    "load_model",
    "losses",
    "privacy",
    "projections",
    "testing",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    if name in _PACKAGES or f"lipdp.{name}" in _moved.MOVED:
        return importlib.import_module(f"lipdp.{name}")
    raise AttributeError(f"module 'lipdp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_PACKAGES})


_moved.keep_old_names()
# The last line: what it imports may import this package's names.
_known_to_keras.make_known()
