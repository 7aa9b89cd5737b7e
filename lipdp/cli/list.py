"""List data sets, models, layers, losses and accountants by name."""

from __future__ import annotations

import itertools
import shutil
import textwrap

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
        _emit_datasets(_dataset_facts())
    elif kind:
        click.echo("\n".join(found[kind]))
    else:
        rows = [(name, entry) for name, entries in found.items() for entry in entries]
        _output.emit_table("Names", ["kind", "name"], rows)


def _emit_datasets(datasets: dict[str, dict[str, str]]) -> None:
    """A table, and below it what is too long for one; an address stays on one line."""
    rows = [(name, facts["title"], facts["licence"]) for name, facts in datasets.items()]
    _output.emit_table("Data sets", ["name", "title", "licence"], rows)
    width = shutil.get_terminal_size(fallback=(100, 24)).columns
    for source, names in itertools.groupby(datasets, lambda name: datasets[name]["source"]):
        addresses = [f"{name}: {datasets[name]['from']}" for name in names]
        click.echo("\n".join(["", *addresses, *_wrapped(source, width)]))


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(
        text,
        max(width, 20),
        initial_indent="  ",
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


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
    # The packages themselves would import Keras; the names in their text do not.
    return Registry(f"lipdp.{kind}", kind).names()
