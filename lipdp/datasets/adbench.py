"""The tabular sets of ADBench: which rows are anomalies?"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType

from lipdp.datasets.arrays import read_npz
from lipdp.datasets.base import DATA, ArrayDataset, Download, Samples
from lipdp.datasets.locate import first_existing

_BASE = "https://raw.githubusercontent.com/Minqi824/ADBench/main/adbench/datasets/Classical/"
_SOURCE = (
    "S. Han, X. Hu, H. Huang, M. Jiang and Y. Zhao, ADBench: Anomaly Detection Benchmark "
    "(NeurIPS 2022), https://github.com/Minqi824/ADBench"
)
_SETS = {
    "aloi": ("1_ALOI", "ALOI (colour histograms of objects)"),
    "campaign": ("5_campaign", "campaign (bank marketing)"),
    "celeba": ("8_celeba", "celeba (attributes of faces)"),
    "donors": ("11_donors", "donors (projects that ask for donations)"),
    "magic": ("22_magic.gamma", "magic.gamma (showers of particles)"),
    "shuttle": ("32_shuttle", "shuttle (sensors of the space shuttle)"),
    "skin": ("33_skin", "skin (colours of pixels)"),
    "yeast": ("47_yeast", "yeast (sites of proteins)"),
}


def _find(file: str, place: Path) -> tuple[Path, ...] | None:
    folders = (".", "adbench", "Classical", "adbench/datasets/Classical")
    return first_existing(place, [f"{folder}/{file}" for folder in folders])


def _read(paths: tuple[Path, ...]) -> Samples:
    return read_npz(paths[0])


def _dataset(name: str, stem: str, title: str) -> ArrayDataset:
    file = f"{stem}.npz"
    return ArrayDataset(
        name=f"adbench-{name}",
        title=f"ADBench {title}",
        licence="BSD-2-Clause (the benchmark)",
        source=_SOURCE,
        schema_path=DATA / f"adbench_{name}.schema.toml",
        downloads=(Download(_BASE + file, file, subfolder="adbench"),),
        find=partial(_find, file),
        read=_read,
    )


#: By registered name.
ADBENCH: Mapping[str, ArrayDataset] = MappingProxyType(
    {f"adbench-{name}": _dataset(name, *facts) for name, facts in _SETS.items()}
)
