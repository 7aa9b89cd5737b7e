"""Private statistics of the training rows, as a configuration asks for them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import keras

from lipdp.config import RunConfig
from lipdp.experiment.build import build_budget
from lipdp.experiment.rows import Rows
from lipdp.privacy import PrivacyLedger
from lipdp.training.statistics import (
    PrivatePreprocessing,
    PrivateStandardization,
    PrivateWhitening,
    statistics_multiplier,
)

_KINDS: Mapping[str, type[PrivatePreprocessing]] = MappingProxyType(
    {"private-standardize": PrivateStandardization, "private-whiten": PrivateWhitening}
)


def private_statistics(config: RunConfig, rows: Rows) -> PrivatePreprocessing | None:
    """Releases the statistics of the training rows; None if the configuration wants none.

    A feature that is a public constant becomes 1.

    Raises:
        InvalidValue: If nothing sets the noise.
    """
    section = config.preprocess
    if section.kind == "none":
        return None
    return _KINDS[section.kind].release(
        rows.x_train,
        radius=rows.encoding.max_norm,
        budget=build_budget(config),
        share=section.share,
        noise_multiplier=_noise_multiplier(config),
        groups=rows.groups,
        constants=rows.encoding.constants,
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
