"""What a run can be told (TOML, pydantic, no unknown keys)."""

from lipdp.config.load import DEFAULT_PATH, dump_config, load_config, override_config
from lipdp.config.run import Component, RunConfig
from lipdp.config.section import Document, Section
from lipdp.config.sweep import Range, SweepSection
from lipdp.config.toml import parse_toml, read_toml, toml_value, write_toml

__all__ = [
    "DEFAULT_PATH",
    "Component",
    "Document",
    "Range",
    "RunConfig",
    "Section",
    "SweepSection",
    "dump_config",
    "load_config",
    "override_config",
    "parse_toml",
    "read_toml",
    "toml_value",
    "write_toml",
]
