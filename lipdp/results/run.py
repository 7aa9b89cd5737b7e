"""What a run leaves behind: numbers about the released model, none exact from training rows."""

from __future__ import annotations

import contextlib
import json
import math
import re
import sys
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    model_validator,
)

from lipdp.errors import InvalidData


def peak_memory_bytes() -> int | None:
    """The largest resident memory of this process so far, or None where nobody counts it.

    Linux' own count of the process is asked first: what ``getrusage`` returns there may be that of
    the process which started this one.
    """
    with contextlib.suppress(OSError):
        found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text("ascii"))
        if found:
            return 1024 * int(found[1])
    try:
        import resource
    except ImportError:  # Windows
        return None
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else 1024 * largest


def strict_json(data: object) -> str:
    """Plain data as indented JSON; floats that JSON lacks are texts such as "inf"."""
    return json.dumps(_finite(data), indent=2, ensure_ascii=False, allow_nan=False)


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(value) for value in data]
    return str(data) if isinstance(data, float) and not math.isfinite(data) else data


def _float_to_json(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


#: A float at least 0 whose infinity is the string "inf" in JSON.
JsonFloat = Annotated[
    float, BeforeValidator(float), Field(ge=0), PlainSerializer(_float_to_json, when_used="json")
]
#: An accuracy, an AUROC, a certified share of rows, a probability.
Share = Annotated[float, Field(ge=0, le=1)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]


class Record(BaseModel):
    """A frozen part of a result."""

    # JSON has no infinity: it is written as text, in free-form parts too.
    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="strings")


#: The file that makes a folder that of a run.
RESULT_FILE = "result.json"


class Spent(Record):
    """What the training cost. ``delta`` includes the probability of an overflowing batch.

    ``ledger`` is the text of the ledger, by which runs are put together; results written by early
    versions lack it.
    """

    epsilon: JsonFloat
    delta: Annotated[float, Field(gt=0, lt=1)]
    steps: Count
    sampling_rate: Share
    noise_multiplier: Amount
    accountant: str
    adjacency: str
    ledger: str = ""


class TestMetrics(Record):
    """Exact metrics on the held-out rows."""

    __test__ = False

    rows: Annotated[int, Field(ge=1)]
    accuracy: Share
    auroc: Share | None
    majority_accuracy: Share


class Certified(Record):
    """What stays right under every perturbation of Euclidean norm at most ``radius``."""

    radius: Amount
    unit: str
    accuracy: Share
    auroc: Share | None


class RunResult(Record):
    """Everything in ``result.json``.

    ``method`` is how it was trained: "clipless" (this package's), "dp-sgd" (with clipping) or
    "none" (without privacy). ``peak_memory_bytes`` is the largest resident memory of the process.
    ``certified`` is empty where nothing can be proved about any row; ``uncertified`` says of how
    many rows that is so, and why. ``interrupted`` says that the training was stopped early and can
    go on; every number is that of the steps so far. ``not_private`` says why nobody is protected,
    by the ledger and the budget; it is empty if the run is private.
    """

    name: str
    created: str
    config: dict[str, Any]
    plan: dict[str, Any]
    statement: str
    spent: Spent
    test: TestMetrics
    certified: list[Certified]
    lipschitz_constant: JsonFloat
    training_rows: Count
    seconds: Amount
    versions: dict[str, str]
    method: str = "clipless"
    peak_memory_bytes: int | None = None
    interrupted: bool = False
    uncertified: str = ""
    not_private: list[str]

    @model_validator(mode="before")
    @classmethod
    def _of_an_early_version(cls, data: Any) -> Any:
        return _with_reasons(data) if isinstance(data, dict) else data

    def __setstate__(self, state: dict[Any, Any]) -> None:
        """Pickles of early versions lack what these versions did not write."""
        super().__setstate__({**state, "__dict__": _with_reasons(state["__dict__"])})

    def save(self, path: Path) -> None:
        """Writes the result as JSON."""
        path.write_text(self.model_dump_json(indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> RunResult:
        """Reads a result written by ``save``.

        Raises:
            InvalidData: If the file cannot be read, is not such a result, or holds a number that no
                run has, such as an accuracy above 1.
        """
        try:
            return cls.model_validate_json(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InvalidData(
                "There is no result of a run here",
                received=str(path),
                fix="Give a folder that lipdp train wrote",
            ) from None
        except (OSError, UnicodeDecodeError, ValidationError) as error:
            raise InvalidData(
                f"This is not the result of a run ({_reason(error)})",
                received=str(path),
                fix="Give the result.json that a run wrote, by this version or an earlier one",
            ) from None


def _with_reasons(data: dict[str, Any]) -> dict[str, Any]:
    """Results of early versions say in their other fields alone why they are not private."""
    if "not_private" in data:
        return data
    return {**data, "not_private": _reasons_not_private(data)}


def _reasons_not_private(data: dict[str, Any]) -> list[str]:
    def section(name: str) -> dict[str, Any]:
        found = data.get(name)
        return found if isinstance(found, dict) else dict(getattr(found, "__dict__", {}))

    if section("spent").get("epsilon") in ("inf", "Infinity", math.inf):
        return ["no finite epsilon bounds what the model reveals about a training row"]
    config = section("config").get("privacy")
    if isinstance(config, dict) and config.get("seed") is not None:
        return ["the noise comes from a seed in the configuration and can be recomputed"]
    if str(data.get("statement")).startswith("NOT PRIVATE"):
        return ["the statement below says why"]
    return []


def _reason(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False)[0]
    where = ".".join(map(str, first["loc"]))
    value = first["input"]
    got = f", not {value!r}" if where and isinstance(value, (int, float, str)) else ""
    return f"{where}: {first['msg']}{got}" if where else str(first["msg"])
