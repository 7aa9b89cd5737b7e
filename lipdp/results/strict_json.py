"""JSON that every reader takes: no NaN, no Infinity."""

from __future__ import annotations

import json
import math
from typing import Any


def strict_json(data: object) -> str:
    """Plain data as indented JSON; floats that JSON lacks are texts such as "inf"."""
    return json.dumps(_finite(data), indent=2, ensure_ascii=False, allow_nan=False)


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(value) for value in data]
    return str(data) if isinstance(data, float) and not math.isfinite(data) else data
