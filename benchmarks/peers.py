"""What other packages run beside their own plain step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from benchmarks.environments import DEFAULT, interpreter
from benchmarks.race import Contender

#: Steps of a plain turn for one of a private turn, which take up to 1,600 times as long.
_FEWER = 10
_LEGACY = {"TF_USE_LEGACY_KERAS": "1"}
#: For each framework its worker, its environment variables and what each contender is told.
FRAMEWORKS: dict[str, tuple[str, Mapping[str, str], Mapping[str, Mapping[str, Any]]]] = {
    "opacus": (
        "opacus_steps",
        {},
        {
            "plain": {"kind": "plain"},
            "hooks": {"kind": "hooks"},
            "ghost clipping": {"kind": "ghost"},
        },
    ),
    "jax-privacy": (
        "jax_privacy_steps",
        {"JAX_PLATFORMS": "cpu"},
        {
            "plain": {"kind": "plain"},
            "vmap": {"kind": "private", "micro_batch": None},
            "micro-batches of 32": {"kind": "private", "micro_batch": 32},
        },
    ),
    "tensorflow-privacy": (
        "tf_privacy_steps",
        _LEGACY,
        {
            "plain": {"kind": "plain", "jit": False},
            "plain, XLA": {"kind": "plain", "jit": True},
            "DPModel": {"kind": "dp_model", "jit": False},
            "DPModel, XLA": {"kind": "dp_model", "jit": True},
            "vectorised optimizer": {"kind": "vectorised", "jit": False},
        },
    ),
}


def peer_contenders(
    net: str, batch: int, steps: int, environments: Path = DEFAULT
) -> dict[str, dict[str, Contender]]:
    """For each framework its contenders, "plain" among them.

    Args:
        net: "mlp" or "cnn".
        batch: Rows of a step.
        steps: Steps of a plain turn; private turns have fewer, and costs are of one step.
        environments: Folder of environments, which are made on demand; a framework whose
            environment cannot be made is named and left out.

    Raises:
        RuntimeError: If no framework is left.
    """
    found = {}
    for framework in FRAMEWORKS:
        try:
            python = interpreter(framework, environments)
        except RuntimeError as error:
            click.echo(str(error), err=True)
            continue
        found[framework] = _contenders(framework, net, batch, steps, python)
    if not found:
        raise RuntimeError("No environment of another package could be made.")
    return found


def _contenders(
    framework: str, net: str, batch: int, steps: int, python: str
) -> dict[str, Contender]:
    worker, variables, kinds = FRAMEWORKS[framework]
    module = f"benchmarks.workers.{worker}"
    found = {}
    for name, told in kinds.items():
        taken = steps if told["kind"] == "plain" else max(2, steps // _FEWER)
        cell = {"net": net, "batch": batch, "steps": taken, **told}
        found[name] = Contender(module, cell, python, variables)
    return found
