"""From a file and overrides to a checked run, and back."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lipdp.config.run import COMPONENTS, RunConfig
from lipdp.config.toml import read_toml, write_toml
from lipdp.errors import InvalidConfig

DEFAULT_PATH = Path(__file__).parent / "defaults" / "adult.toml"


def load_config(
    path: Path | None, overrides: Sequence[str] = (), *, values: Mapping[str, object] | None = None
) -> RunConfig:
    """Reads, changes and checks a run.

    Args:
        path: A TOML file; None is the packaged default, ``DEFAULT_PATH``.
        overrides: ``key.path=value`` each, later ones win. The value is TOML; a word that is not
            TOML is text; an empty value removes the key. What varies in a sweep is
            ``sweep.space.training.batch_size``. ``model.name``, ``loss.name`` and
            ``optimizer.name`` come first, and another name drops the options of the old one.
        values: By ``key.path``, values as they are; None removes the key. Overrides win.

    Raises:
        InvalidConfig: If the file or an override cannot be read, a key is unknown, or a value is
            outside its domain.
    """
    tables = read_toml(DEFAULT_PATH if path is None else path)
    return _changed(tables, overrides, values)


def override_config(
    config: RunConfig, overrides: Sequence[str] = (), *, values: Mapping[str, object] | None = None
) -> RunConfig:
    """The run with changes, as in ``load_config``; without its sweep.

    Raises:
        InvalidConfig: If an override cannot be read, a key is unknown, or a value is outside its
            domain.
    """
    return _changed(config.model_dump(), overrides, values)


def dump_config(config: RunConfig, *, with_sweep: bool = False) -> str:
    """TOML that ``load_config`` reads back to an equal run.

    Args:
        config: The run.
        with_sweep: Whether to write the sweep too, which is no part of a run.
    """
    tables = config.model_dump()
    if with_sweep and config.sweep is not None:
        tables["sweep"] = config.sweep.model_dump()
    return write_toml(tables)


def _changed(
    tables: dict[str, Any], overrides: Sequence[str], values: Mapping[str, object] | None
) -> RunConfig:
    changes = [(_keys(path), value) for path, value in (values or {}).items()]
    changes += [_parse(override) for override in overrides]
    for keys, value in sorted(changes, key=lambda item: not _names_component(item[0])):
        _apply(tables, keys, value)
    return RunConfig(**tables)


def _parse(override: str) -> tuple[tuple[str, ...], object]:
    path, equals, text = override.partition("=")
    keys = _keys(path)
    if not equals or not all(keys):
        raise InvalidConfig(
            "An override must be key=value",
            received=override,
            fix="Write it as in privacy.epsilon=3",
        )
    return keys, _toml_value(text.strip()) if text.strip() else None


def _keys(path: str) -> tuple[str, ...]:
    """The keys of a path; those of ``sweep.space`` hold a dot, and may be quoted as in TOML."""
    section, quote, key = path.partition('"')
    if quote and section.endswith("."):
        inner, _, rest = key.partition('"')
        return (*_keys(section[:-1]), inner, *(_keys(rest[1:]) if rest else ()))
    keys = tuple(key.strip() for key in path.split("."))
    if keys[:2] == ("sweep", "space") and len(keys) > 3:
        return (*keys[:2], ".".join(keys[2:4]), *keys[4:])
    return keys


def _names_component(keys: tuple[str, ...]) -> bool:
    return len(keys) == 2 and keys[0] in COMPONENTS and keys[1] == "name"


def _apply(tables: dict[str, Any], keys: tuple[str, ...], value: object) -> None:
    table = tables
    for key in keys[:-1]:
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            raise InvalidConfig(
                f"{key} in {'.'.join(keys)} is a value, not a section",
                received=table,
                fix="Leave out what follows it",
            )
    if value is None:
        table.pop(keys[-1], None)
        return
    if _names_component(keys) and table.get("name") != value:
        table.clear()
    table[keys[-1]] = value


def _toml_value(text: str) -> object:
    try:
        read = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError) as error:
        if text[0] not in "[{\"'":
            return text
        raise InvalidConfig(
            f"The value of an override is not valid TOML: {error}",
            received=text,
            fix="Close every bracket and quote",
        ) from None
    return read["value"] if len(read) == 1 else text
