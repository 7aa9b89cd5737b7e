"""List data sets, models, layers, losses and accountants by name."""

from __future__ import annotations

import click

from lipdp.cli import _output
from lipdp.registry import Registry

_KINDS = ["datasets", "models", "layers", "losses", "accountants"]


@click.command("list")
@click.argument("kind", type=click.Choice(_KINDS), required=False)
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def command(kind: str | None, as_json: bool) -> None:
    """List the names that a configuration can use; of one KIND, or all.

    Data sets are listed with their titles, licences and where they come from.
    """
    found = {name: _names(name) for name in ([kind] if kind else _KINDS)}
    if as_json:
        facts = {"datasets": _dataset_facts()} if "datasets" in found else {}
        _output.emit_json({**found, **facts})
    elif kind == "datasets":
        columns = ["name", "title", "licence", "from", "source"]
        rows = [(name, *facts.values()) for name, facts in _dataset_facts().items()]
        _output.emit_table("Data sets", columns, rows)
    elif kind:
        click.echo("\n".join(found[kind]))
    else:
        rows = [(name, entry) for name, entries in found.items() for entry in entries]
        _output.emit_table("Names", ["kind", "name"], rows)


def _dataset_facts() -> dict[str, dict[str, str]]:
    from lipdp.datasets import DATASETS

    return {
        name: {
            "title": DATASETS[name].title,
            "licence": DATASETS[name].licence,
            "from": DATASETS[name].place,
            "source": DATASETS[name].source,
        }
        for name in DATASETS.names()
    }


def _names(kind: str) -> list[str]:
    if kind == "accountants":
        from lipdp.privacy import ACCOUNTANTS

        return sorted(ACCOUNTANTS)
    if kind == "datasets":
        from lipdp.datasets import DATASETS

        return DATASETS.names()
    # The packages themselves would import Keras; their file names do not.
    return Registry(f"lipdp.{kind}", kind).names()
