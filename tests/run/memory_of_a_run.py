"""Trains on an array on disk, and prints by how much the memory of this process grew.

Arguments: the folder of big.npy, y.npy and big.toml, and of the same as small.
"""

import json
import sys
from pathlib import Path

from lipdp.config import load_config
from lipdp.run import train


def run(folder, name):
    files = {"path": f"{name}.npy", "labels": f"{name}-y.npy", "schema_path": "schema.toml"}
    data = [f"data.{key}={folder / file}" for key, file in files.items()]
    sizes = ["training.batch_size=64", "training.epochs=1", "training.dtype=float32"]
    budget = ["privacy.delta=1e-6", "privacy.epsilon=", "privacy.noise_multiplier=1.0"]
    train(load_config(None, ["data.name=", *data, *sizes, *budget]), folder / f"run-{name}")


def peak():
    (line,) = [x for x in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in x]
    return int(line.split()[1]) * 1024


folder = Path(sys.argv[1])
run(folder, "small")
before = peak()
run(folder, "big")
print(json.dumps({"grew": peak() - before}))
