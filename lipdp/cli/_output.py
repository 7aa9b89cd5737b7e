"""What commands write: tables for people, plain lines for pipes, JSON for programs."""

from __future__ import annotations

from collections.abc import Sequence

import click

Row = Sequence[object]


def emit_json(data: object) -> None:
    """Writes JSON; an infinite float becomes the string "inf"."""
    from lipdp.results.run import strict_json

    click.echo(strict_json(data))


def emit_table(title: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
    """Writes a table: drawn by rich in a terminal, aligned columns of plain text elsewhere."""
    from rich.console import Console

    console = Console(markup=False, emoji=False, highlight=False)
    cells = [[cell(value) for value in row] for row in rows]
    numeric = [_is_numeric(rows, i) for i in range(len(columns))]
    if not console.is_terminal:
        click.echo(_plain(columns, cells, numeric))
        return
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for name, right in zip(columns, numeric, strict=True):
        table.add_column(name, justify="right" if right else "left")
    for line in cells:
        table.add_row(*line)
    console.print(table)


def cell(value: object) -> str:
    """A value as text: floats with six significant digits, nothing as a dash."""
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _plain(columns: Sequence[str], cells: list[list[str]], numeric: list[bool]) -> str:
    lines = [list(columns), *cells]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    return "\n".join(_align(line, widths, numeric) for line in lines)


def _align(line: list[str], widths: list[int], numeric: list[bool]) -> str:
    parts = zip(line, widths, numeric, strict=True)
    return "  ".join(t.rjust(w) if right else t.ljust(w) for t, w, right in parts).rstrip()


def _is_numeric(rows: Sequence[Row], column: int) -> bool:
    values = [row[column] for row in rows if row[column] is not None]
    return bool(values) and all(isinstance(v, (int, float)) for v in values)
