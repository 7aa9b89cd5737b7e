"""Modules that had another name in an earlier version; it still works, and says the new one."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import MappingProxyType, ModuleType
from typing import Any

#: Files of one class or function each that are files of families now: their packages offer it.
_FILES: Mapping[str, str] = MappingProxyType(
    {
        "lipdp.bounds": "rounding_error thresholds",
        "lipdp.conversion": "changes rules",
        "lipdp.layers": (
            "absolute_value activation_clip adaptive_cotangent_clip bounded_bias bounded_embedding "
            "bounded_input bounded_scale center_norm centering cotangent_clip depth_to_space "
            "frobenius_dense frozen_features full_sort global_l2_norm_pooling group_sort "
            "householder_activation l2_norm_pooling1d l2_norm_pooling2d l2_norm_pooling3d max_min "
            "scaled_average_pooling1d scaled_average_pooling2d scaled_average_pooling3d "
            "scaled_global_average_pooling scattering2d space_to_depth spectral_conv1d "
            "spectral_conv1d_transpose spectral_conv2d spectral_conv2d_transpose spectral_conv3d "
            "spectral_conv3d_transpose spectral_dense spectral_depthwise_conv2d "
            "sphere_normalization"
        ),
        "lipdp.losses": (
            "binary_hinge class_weighted clipped_loss cosine_loss hkr huber kantorovich_rubinstein "
            "mean_absolute_error mean_squared_error multiclass_hinge "
            "multilabel_binary_crossentropy one_versus_all_hinge positionwise_loss "
            "tempered_binary_crossentropy tempered_crossentropy"
        ),
        "lipdp.preprocessing": "image_encoding infer_arrays load vector_encoding",
        "lipdp.privacy": (
            "counts fixed_sampler noise_grid poisson_sampler rounded_gaussian sampler "
            "samplers schedule"
        ),
        "lipdp.projections": (
            "aol_projection bjorck_projection channel_ball frobenius_projection l2_ball max_ball "
            "spectral_projection unit_columns"
        ),
        "lipdp.reports": "unseen",
        "lipdp.training": "files",
    }
)
#: Files of ``lipdp.run`` that had the same name in ``lipdp.experiment``.
_RUN = "bounds build child compare dp_sgd features folder outcome preprocess unfinished"
#: Packages and files that people import from, or whose classes lie in pickles, by their old names.
MOVED: Mapping[str, str] = MappingProxyType(
    {
        **{
            f"{package}.{file}": package
            for package, files in _FILES.items()
            for file in files.split()
        },
        **{f"lipdp.experiment.{file}": f"lipdp.run.{file}" for file in _RUN.split()},
        **{
            f"lipdp.{package}.{file}": "lipdp.statistics"
            for package in ("privacy", "training")
            for file in ("kronecker", "statistics")
        },
        "lipdp.bounds.table": "lipdp.bounds.engine",
        "lipdp.experiment": "lipdp.run",
        "lipdp.preprocessing.columns": "lipdp.preprocessing.schema",
        "lipdp.privacy._entries": "lipdp.privacy.entries",
        "lipdp.privacy.remarks": "lipdp.privacy.ledger",
        "lipdp.rounding": "lipdp.numerics",
    }
)


class _Moved(ModuleType):
    """Hands out what the module under the new name holds."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            return getattr(importlib.import_module(MOVED[self.__name__]), name)
        return name_that_moved(self.__name__, name, {name: MOVED[self.__name__]}, stacklevel=3)


def name_that_moved(
    module: str, name: str, moved: Mapping[str, str], *, stacklevel: int = 3
) -> Any:
    """What a module's ``__getattr__`` answers for a name that lies elsewhere now.

    Args:
        module: Where the name was looked for.
        name: The name.
        moved: By name, the package that has it now.
        stacklevel: Of the warning, for whoever imports the name.

    Raises:
        AttributeError: If it did not move.
    """
    if name not in moved:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    message = f"{name} is now in {moved[name]}, no longer in {module}: import it from there"
    warnings.warn(message, DeprecationWarning, stacklevel=stacklevel)
    return getattr(importlib.import_module(moved[name]), name)


class _OldNames(MetaPathFinder, Loader):
    """Finds modules by their old names, where nothing else has them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A package without files, so that modules of an old package are asked for here, too."""
        return ModuleSpec(fullname, self, is_package=True) if fullname in MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """A module that forwards."""
        module = _Moved(spec.name)
        # Not that of the new package, whose files would be loaded a second time by old names.
        module.__path__ = []
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: the module has no code of its own."""


def keep_old_names() -> None:
    """Lets the old names be imported."""
    if not any(isinstance(finder, _OldNames) for finder in sys.meta_path):
        sys.meta_path.append(_OldNames())
