"""Private statistics of the training rows, as a configuration asks for them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import keras

from lipdp.config import RunConfig
from lipdp.errors import InvalidConfig
from lipdp.preprocessing.encodings import AnyEncoding
from lipdp.privacy import PrivacyLedger
from lipdp.run.build import build_budget
from lipdp.run.data import Rows
from lipdp.statistics.layers import (
    FeatureStatistics,
    PrivateKroneckerWhitening,
    PrivatePreprocessing,
    PrivateStandardization,
    PrivateWhitening,
    statistics_multiplier,
)

_OF_MAPS = "private-whiten-maps"
_OF_FEATURES: Mapping[str, type[FeatureStatistics]] = MappingProxyType(
    {"private-standardize": PrivateStandardization, "private-whiten": PrivateWhitening}
)
_KINDS: Mapping[str, type[PrivatePreprocessing]] = MappingProxyType(
    {**_OF_FEATURES, _OF_MAPS: PrivateKroneckerWhitening}
)


def private_statistics(config: RunConfig, rows: Rows) -> PrivatePreprocessing | None:
    """Releases the statistics of the training rows; None if the configuration wants none.

    A feature that is a public constant becomes 1, except in a map.

    Raises:
        InvalidConfig: If it wants maps whitened, and the rows are none.
        InvalidValue: If nothing sets the noise.
    """
    section, encoding = config.preprocess, rows.encoding
    if section.kind == "none":
        return None
    options: dict[str, Any] = {
        "radius": encoding.max_norm,
        "budget": build_budget(config),
        "share": section.share,
        "noise_multiplier": _noise_multiplier(config),
        "groups": rows.groups,
    }
    if section.kind == _OF_MAPS:
        check_maps(config, encoding)
        positions = encoding.num_features // encoding.shape[-1]
        return PrivateKroneckerWhitening.release(rows.x_train, positions=positions, **options)
    kind = _OF_FEATURES[section.kind]
    return kind.release(rows.x_train, constants=encoding.constants, **options)


def check_maps(config: RunConfig, encoding: AnyEncoding) -> None:
    """Refuses to whiten maps where a row, or its features, is none.

    Raises:
        InvalidConfig: If it has no positions with channels.
    """
    if config.preprocess.kind == _OF_MAPS and len(encoding.shape) < 2:
        raise InvalidConfig(
            f"{_OF_MAPS} needs maps, of positions with channels, and a row here is a vector",
            received=tuple(encoding.shape),
            fix='Use preprocess.kind = "private-whiten", or features that are maps',
        )


def first_layers(
    config: RunConfig, statistics: PrivatePreprocessing | None
) -> list[keras.layers.Layer]:
    """The layers that apply them to an encoded row, whose output has norm at most 1 again."""
    if statistics is None:
        return []
    return statistics.layers(clip_radius=config.preprocess.radius, dtype=config.training.dtype)


def planned_ledger(config: RunConfig, num_units: int) -> PrivacyLedger:
    """What the statistics are going to cost; nothing is released."""
    ledger, section = PrivacyLedger(config.privacy.adjacency), config.preprocess
    if section.kind != "none":
        z = statistics_multiplier(
            build_budget(config), num_units, section.share, _noise_multiplier(config)
        )
        ledger.record(1.0, z, purpose=_KINDS[section.kind].purpose)
    return ledger


def _noise_multiplier(config: RunConfig) -> float | None:
    return 0.0 if config.training.method == "none" else config.preprocess.noise_multiplier
