"""JSON schemas of the parameters of Python functions, from their signatures and annotations."""

from __future__ import annotations

import collections.abc
import datetime
import inspect
import json
import sys
import typing
from typing import Any, Callable, Dict, List, Optional

MAX_DEPTH = 8  # of a type

_NAMES: Dict[Any, Dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    bytes: {"type": "string", "format": "binary"},
    datetime.datetime: {"type": "string", "format": "date-time"},
    list: {"type": "array"},
    tuple: {"type": "array"},
    dict: {"type": "object"},
}


def schema_of_parameters(function: Callable[..., Any]) -> Dict[str, Any]:
    """Return the schema of a function's parameters. A TypeError says why it has none."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        raise TypeError("it has no signature that can be read: give a Function with parameters=") from None
    hints = _hints(function)
    properties: Dict[str, Any] = {}
    required: List[str] = []
    schema: Dict[str, Any] = {"type": "object", "properties": properties, "required": required}
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            schema["additionalProperties"] = True
            continue
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            raise TypeError("its parameter %s cannot be given by name: give a Function with parameters=, or wrap it" % name)
        properties[name] = schema_of_type(hints.get(name, Any))
        if parameter.default is parameter.empty:
            required.append(name)
        else:
            _add_default(properties[name], parameter.default)
    return schema


def schema_of_result(function: Callable[..., Any]) -> Optional[Dict[str, Any]]:
    """Return the schema of what a function returns, or None if it is unknown."""
    hints = _hints(function)
    return schema_of_type(hints["return"]) or None if "return" in hints else None


def _hints(function: Callable[..., Any]) -> Dict[str, Any]:
    if not inspect.isroutine(function) and not hasattr(function, "func"):
        function = getattr(type(function), "__call__", function)  # an object that can be called
    function = getattr(function, "func", function)  # of a functools.partial
    try:
        if sys.version_info >= (3, 9):
            return typing.get_type_hints(function, include_extras=True)
        return typing.get_type_hints(function)
    except Exception:  # a name that does not exist at run time, for example
        return {}


def _add_default(schema: Dict[str, Any], default: Any) -> None:
    try:
        json.dumps(default, allow_nan=False)
    except (TypeError, ValueError):
        return
    schema["default"] = default


def schema_of_type(hint: Any, depth: int = 0) -> Dict[str, Any]:
    """Return the JSON schema of a type; {} accepts anything."""
    origin, arguments = getattr(hint, "__origin__", None), getattr(hint, "__args__", ())
    if depth > MAX_DEPTH:
        return {}
    if hasattr(hint, "__metadata__"):  # Annotated
        schema = schema_of_type(origin, depth + 1)
        described = [one for one in hint.__metadata__ if isinstance(one, str)] or [one.description for one in hint.__metadata__ if isinstance(getattr(one, "description", None), str)]
        if described:
            schema["description"] = described[0]
        return schema
    if origin is typing.Union or type(hint).__name__ == "UnionType":
        return _schema_of_union([schema_of_type(one, depth + 1) for one in arguments])
    if getattr(origin, "_name", None) == "Literal" or origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin in (list, tuple, set, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection):
        inner = schema_of_type(arguments[0], depth + 1) if arguments and (origin is not tuple or arguments[1:] == (Ellipsis,)) and not isinstance(arguments[0], typing.TypeVar) else {}
        return {"type": "array", "items": inner} if inner else {"type": "array"}
    if origin in (dict, collections.abc.Mapping, collections.abc.MutableMapping):
        return {"type": "object"}
    try:
        return dict(_NAMES.get(hint, {}))
    except TypeError:  # it cannot be hashed
        return {}


def _schema_of_union(schemas: List[Dict[str, Any]]) -> Dict[str, Any]:
    if not all(schemas):
        return {}  # one of them accepts anything
    if all(set(schema) == {"type"} and isinstance(schema["type"], str) for schema in schemas):
        return {"type": [schema["type"] for schema in schemas]}
    return {"anyOf": schemas}
