"""Values of calls as JSON. Bytes, times, integers and floats keep their types: docs/daemon-protocol.md describes how."""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import re
from datetime import datetime, timedelta, timezone
from typing import Any, Dict, List

MAX_DEPTH = 128
MAX_PLAIN_INTEGER = (1 << 53) - 1  # a larger one is written as text, because JavaScript cannot read it exactly

_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)\Z")


def encode(value: Any) -> str:
    """Return a value as JSON. A TypeError or ValueError says which part of it cannot be sent."""
    return json.dumps(_plain(value, "", 0), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _refused(place: str, why: str, kind: Any = TypeError) -> Exception:
    return kind("%s%s" % (place + ": " if place else "", why))


def _plain(value: Any, place: str, depth: int) -> Any:
    """Return a value in which everything that JSON lacks is tagged. place names it in an error."""
    kind = type(value)
    if value is None or kind is bool:
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return _integer(int(value), place)
    if isinstance(value, float):
        value = float(value)
        if math.isfinite(value):
            return value
        return {"$float": "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, datetime):
        return {"$time": value.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")}
    if depth >= MAX_DEPTH:
        raise _refused(place[:60] + "…" if len(place) > 60 else place, "it is nested deeper than %d, or contains itself" % MAX_DEPTH, ValueError)
    if isinstance(value, dict):
        return _object(value, place, depth)
    if isinstance(value, (list, tuple)):
        return [_plain(item, "%s[%d]" % (place, i), depth + 1) for i, item in enumerate(value)]
    if kind.__module__ == "numpy" and hasattr(value, "tolist"):
        return _plain(value.tolist(), place, depth + 1)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _object({field.name: getattr(value, field.name) for field in dataclasses.fields(value)}, place, depth)
    if callable(getattr(value, "model_dump", None)) and not isinstance(value, type):
        return _plain(value.model_dump(), place, depth + 1)  # of pydantic
    raise _refused(place, "a value of type %s cannot be sent: use None, bool, int, float, str, bytes, datetime, list or dict" % kind.__name__)


def _integer(value: int, place: str) -> Any:
    if not -(1 << 63) <= value < 1 << 64:
        raise _refused(place, "the integer does not fit into 64 bits", OverflowError)
    return value if abs(value) <= MAX_PLAIN_INTEGER else {"$int": str(value)}


def _object(value: Dict[Any, Any], place: str, depth: int) -> Dict[str, Any]:
    fields: Dict[str, Any] = {}
    for name, item in value.items():
        if not isinstance(name, str):
            raise _refused(place, "the key %.50r is not a string" % (name,))
        fields[str(name)] = _plain(item, place + "." + name if place else name, depth + 1)
    if len(fields) == 1 and next(iter(fields)).startswith("$"):
        return {"$object": fields}
    return fields


def decode(value: Any) -> Any:
    """Return the value that parsed JSON stands for."""
    if isinstance(value, list):
        items: List[Any] = [decode(item) for item in value]
        return items
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        (tag, inner), = value.items()
        if tag.startswith("$"):
            return _untagged(tag, inner)
    return {name: decode(item) for name, item in value.items()}


def _untagged(tag: str, inner: Any) -> Any:
    if tag == "$object":
        return {name: decode(item) for name, item in inner.items()}
    if tag == "$bytes":
        return base64.b64decode(inner)
    if tag == "$int":
        return int(inner)
    if tag == "$float":
        return float(inner)
    if tag == "$time":
        return _time(inner)
    raise ValueError("unknown tag %r" % tag)


def _time(text: str) -> datetime:
    match = _TIME.match(text)
    if match is None:
        raise ValueError("%.40r is not a time" % text)
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    moment = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second), int((fraction or "0")[:6].ljust(6, "0")), timezone.utc)
    if zone == "Z":
        return moment
    offset = timedelta(hours=int(zone[1:3]), minutes=int(zone[4:]))
    return moment - offset if zone[0] == "+" else moment + offset
