"""What a run can be told (TOML, pydantic, no unknown keys)."""

from lipdp.config.run import Component, RunConfig

__all__ = ["Component", "RunConfig"]
