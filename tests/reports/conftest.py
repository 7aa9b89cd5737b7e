"""A whole result and its history, as a run leaves them behind."""

from __future__ import annotations

import copy
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest

from lipdp.privacy import TRAINING, Access, Phase, PrivacyLedger, PrivacyStatement, Terms
from lipdp.reports import LoadedRun
from lipdp.results import RunResult

_TERMS = Terms(
    sampler="poisson",
    num_units=10240,
    batch_size=512,
    rows_per_unit=1,
    capacity=640,
    mechanism="Gaussian noise on the sum of the per-row gradients",
)
STATEMENT = str(
    PrivacyStatement(
        adjacency="add-remove",
        epsilon=1.987,
        delta=1e-5,
        accountant="privacy loss distribution",
        accountant_library="dp-accounting 0.6.0",
        overflow_delta=8e-9,
        accesses=(Access(TRAINING, Phase(0.05, 1.31, 200), 4e-11, _TERMS),),
    )
)
UNIT = "L2 distance of encoded rows (an encoded row has norm at most 1)"


def variable(layer: str, name: str, bound: float, noise: float, size: int) -> dict[str, object]:
    return {
        "layer": layer,
        "variable": name,
        "bound": bound,
        "noise_stddev": noise,
        "size": size,
    }


def sample() -> dict[str, object]:
    """The fields of a result, to be changed at will."""
    return {
        "name": "breast_cancer",
        "created": "2026-03-01T12:00:00+00:00",
        "config": {
            "data": {"name": "breast_cancer", "path": None, "test_fraction": 0.2},
            "model": {"name": "mlp", "units": [64, 32]},
            "loss": {"name": "tempered_crossentropy", "inverse_temperature": 16.0},
            "optimizer": {"name": "sgd", "learning_rate": 0.5},
            "training": {"batch_size": 512, "steps": 200, "dtype": "float64"},
            "privacy": {"epsilon": 2.0, "delta": 1e-5, "seed": None},
            "certificates": {"radii": [0.05, 0.1, 0.2]},
        },
        "plan": {
            "sampling_rate": 0.05,
            "noise_multiplier": 1.31,
            "expected_batch_size": 512,
            "num_examples": 10240,
            "steps": 200,
            "capacity": 640,
            "delta": 1e-5,
            "accountant": "pld",
            "variables": [
                variable("spectral_dense", "kernel", 1.4142, 3.21, 1920),
                variable("bounded_bias", "bias", 1.0, 2.27, 64),
                variable("spectral_dense_1", "kernel", 1.4142, 3.02, 2048),
                variable("spectral_dense_2", "kernel", 1.2, 2.02, 64),
            ],
        },
        "statement": STATEMENT,
        "spent": {
            "epsilon": 1.987,
            "delta": 1e-5,
            "steps": 200,
            "sampling_rate": 0.05,
            "noise_multiplier": 1.31,
            "accountant": "pld",
            "adjacency": "add-remove",
        },
        "test": {"rows": 2560, "accuracy": 0.912, "auroc": 0.9641, "majority_accuracy": 0.627},
        "certified": [
            {"radius": 0.05, "unit": UNIT, "accuracy": 0.881, "auroc": 0.941},
            {"radius": 0.1, "unit": UNIT, "accuracy": 0.842, "auroc": 0.909},
            {"radius": 0.2, "unit": UNIT, "accuracy": 0.731, "auroc": 0.804},
        ],
        "lipschitz_constant": 1.0001,
        "training_rows": 10240,
        "seconds": 42.3,
        "versions": {"lipdp": "0.1.0", "keras": "3.15.0", "tensorflow": "2.21.0"},
    }


@pytest.fixture
def fields() -> dict[str, object]:
    return sample()


@pytest.fixture
def result() -> RunResult:
    return RunResult.model_validate(sample())


@pytest.fixture
def history() -> pd.DataFrame:
    epochs = range(1, 11)
    return pd.DataFrame(
        {
            "epoch": list(epochs),
            "epsilon": [0.62 * e**0.5 for e in epochs],
            "val_loss": [0.7 / e for e in epochs],
            "val_accuracy": [0.92 - 0.3 / e for e in epochs],
            "val_certified_accuracy": [0.85 - 0.33 / e for e in epochs],
        }
    )


def epochs(accuracy: float) -> pd.DataFrame:
    """A history that ends at an accuracy."""
    return pd.DataFrame(
        {
            "epoch": [1, 2, 3],
            "epsilon": [0.5, 0.8, 1.0],
            "val_accuracy": [accuracy - 0.1, accuracy - 0.05, accuracy],
            "val_certified_accuracy": [accuracy - 0.3, accuracy - 0.2, accuracy - 0.1],
        }
    )


def ledger(noise: float = 1.0, steps: int = 1000, rate: float = 0.01) -> str:
    """The text of the ledger of some steps."""
    book = PrivacyLedger()
    book.record(rate, noise, steps)
    return book.to_json()


@pytest.fixture
def make_run() -> Callable[..., LoadedRun]:
    """``make_run(name, epsilon=, accuracy=, seed=, edit=...)``: a run as it was loaded."""

    def make(name="a", epsilon=1.0, accuracy=0.85, seed=0, edit=None, history=None, **top):
        fields = copy.deepcopy(sample())
        fields |= {"name": name, **top}
        fields["config"]["training"]["initial_seed"] = seed
        fields["config"]["data"]["split_seed"] = seed
        fields["config"]["privacy"]["epsilon"] = epsilon
        fields["spent"]["epsilon"] = epsilon * 0.999
        fields["spent"]["ledger"] = ledger()
        fields["test"]["accuracy"] = accuracy
        for certified in fields["certified"]:
            certified["accuracy"] = max(0.0, accuracy - certified["radius"])
        if edit:
            edit(fields)
        shown = epochs(accuracy) if history is None else history
        return LoadedRun(Path("runs") / name, RunResult.model_validate(fields), shown)

    return make


VOID = {"meta", "br", "path", "use", "rect", "circle", "line"}


class Page(HTMLParser):
    """Collects tags and text, and checks that tags are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += f"{data} ".replace("\u00a0", " ")

    def attributes(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]


@pytest.fixture
def read_page() -> Callable[[Path], tuple[str, Page]]:
    """Reads an HTML file, whose tags must all be closed."""

    def read(path):
        html = path.read_text(encoding="utf-8")
        page = Page()
        page.feed(html)
        assert page.open == []
        return html, page

    return read
