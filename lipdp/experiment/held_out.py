"""What a model reaches on held-out rows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import pandas as pd

from lipdp.bounds import numerical_error
from lipdp.certificates import (
    Certificates,
    UncertifiedWarning,
    auroc,
    certified_accuracy,
    certified_auroc,
    certify,
    macro_auroc,
)
from lipdp.config import load_config
from lipdp.experiment.features import provable_part, with_facts
from lipdp.experiment.rows import Rows, prepare_rows
from lipdp.results import Certified, TestMetrics
from lipdp.training import load_model


def held_out_metrics(certificates: Certificates, rows: Rows) -> TestMetrics:
    """Exact metrics on the held-out rows.

    Args:
        certificates: Of these rows.
        rows: The rows of the run.
    """
    labels = rows.y_test
    counts = pd.Series(labels).value_counts(normalize=True)
    logits = certificates.logits
    binary = logits.shape[1] == 1
    return TestMetrics(
        rows=len(labels),
        accuracy=float((certificates.predictions == labels).mean()),
        auroc=auroc(logits[:, 0], labels) if binary else macro_auroc(logits, labels),
        majority_accuracy=float(counts.iloc[0]),
    )


def certificates_of(model: keras.Model, x: Any, y: Any = None) -> Certificates:
    """As ``certify``, without its warning: whoever calls this says the reason."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UncertifiedWarning)
        return certify(model, x, y, task=getattr(model, "task", None))


def certified_at(
    model: keras.Model, certificates: Certificates, rows: Rows, radii: Sequence[float]
) -> list[Certified]:
    """What stays right at each radius; empty if nothing can be proved about any row.

    Args:
        model: The model.
        certificates: Of the held-out rows.
        rows: The rows of the run.
        radii: In the unit of the rows' encoding.
    """
    if not certificates.proved.any():
        return []
    error = numerical_error(model)
    return [_certified(certificates, rows, radius, error) for radius in radii]


def measure_on_test_rows(run: Path) -> tuple[TestMetrics, list[Certified]]:
    """Measures a finished run that held out validation rows on the test rows.

    Args:
        run: Its folder.
    """
    config = load_config(run / "config.toml", ["data.validation_fraction="])
    rows = prepare_rows(config)
    model = load_model(run / "model.keras", compile=False)
    part, x_test = provable_part(model, rows.x_test)
    certificates = certificates_of(part, x_test, rows.y_test)
    rows, radii = with_facts(config, rows), config.certificates.radii
    return held_out_metrics(certificates, rows), certified_at(part, certificates, rows, radii)


def _certified(certificates: Certificates, rows: Rows, radius: float, error: float) -> Certified:
    binary = certificates.logits.shape[1] == 1
    everywhere = math.isfinite(certificates.lipschitz) and math.isfinite(error)
    scores = certificates.logits[:, 0]
    return Certified(
        radius=radius,
        unit=rows.encoding.unit,
        accuracy=certified_accuracy(certificates.radii, radius),
        auroc=certified_auroc(
            scores, rows.y_test, lipschitz=certificates.lipschitz, radius=radius, error=error
        )
        if binary and everywhere
        else None,
    )
