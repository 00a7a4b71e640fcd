"""Inspection: what is known about the object at the cursor, without running user code.

Names are looked up as for a completion. A signature is derived from the function itself. It shows a
default only if the default's repr is Python's own.
"""
import sys
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, MethodType, ModuleType, WrapperDescriptorType

from turnstone_worker import imports, query
from turnstone_worker.natives import Builtin

_MOST_DOC = 32 << 10  # characters
_MOST_VALUE = 500
_PLAIN = frozenset((int, float, complex, bool, str, bytes, type(None), type(Ellipsis)))
_BUILTIN = (BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType, type({}.__init__))


def describe(text, cursor, namespace):
    """Returns a bundle that describes the name at the cursor, a position in bytes of text; empty if there is nothing to describe."""
    path = _name_at(text, len(text.encode()[:cursor].decode("utf-8", "ignore")))
    value = query.find(path, namespace) if path else query._MISSING
    if value is query._MISSING:
        return {}
    return {"text/plain": _told(".".join(path), value).encode("utf-8", "backslashreplace")}


def _name_at(text, cursor):
    """Returns the names of the expression a.b.c at the cursor, up to the name that the cursor touches. At the end of f(x it returns f."""
    end = cursor
    while end < len(text) and (text[end].isidentifier() or text[end].isdigit()):
        end += 1
    path = query.dotted(text[:end])
    if path is not None:
        return path
    depth = 0  # depth of brackets: finds the call around the cursor
    for i in range(cursor - 1, max(-1, cursor - 2000), -1):
        if text[i] in ")]}":
            depth += 1
        elif text[i] in "([{":
            if depth == 0:
                return query.dotted(text[:i]) if text[i] == "(" else None
            depth -= 1
    return None


def _told(name, value):
    kind = type(value)
    lines = []
    signature = _signature(value)
    if signature:
        lines.append("Signature: %s%s" % (name, signature))
    lines.append("Type: %s" % query._name_of(kind))
    if issubclass(type(value), ModuleType):
        file = vars(value).get("__file__")
        if type(file) is str:
            lines.append("File: %s" % file)
    elif kind is FunctionType or kind is MethodType and type(value.__func__) is FunctionType:
        code = value.__code__ if kind is FunctionType else value.__func__.__code__
        lines.append("File: %s, line %d" % (code.co_filename, code.co_firstlineno))
    elif kind in _PLAIN:
        shown = repr(value)
        lines.append("Value: %s" % (shown if len(shown) <= _MOST_VALUE else shown[:_MOST_VALUE] + "…"))
    else:
        shape = query.shape(value)
        if shape:
            lines.append("Shape: %s" % shape)
    doc = _doc(value)
    if doc:
        lines += ["", doc]
    return "\n".join(lines) + "\n"


def _doc(value):
    """Returns the docstring of a value, or of its class."""
    if type(value) is MethodType:
        value = value.__func__
    kind = type(value)
    if kind is FunctionType or type(value) in _BUILTIN or issubclass(type(value), Builtin):
        doc = value.__doc__
    elif issubclass(type(value), type):
        doc = query._fields_of(value).get("__doc__")
        if hasattr(type(doc), "__get__"):
            doc = None  # a descriptor, in which a C class has its text
    elif issubclass(type(value), ModuleType):
        doc = vars(value).get("__doc__")
    else:
        doc = query._fields_of(kind).get("__doc__")
    if type(doc) is not str:
        return ""
    doc = imports.quietly("inspect").cleandoc(doc)
    return doc if len(doc) <= _MOST_DOC else doc[:_MOST_DOC] + "…"


def _signature(value):
    """Returns a signature in brackets, or ""."""
    drop = 0
    if type(value) is MethodType:
        value, drop = value.__func__, 1
    if issubclass(type(value), type):
        value, drop = query._look_up(value.__mro__, "__init__"), 1
    if type(value) in _BUILTIN or issubclass(type(value), Builtin):
        return _shown(getattr(value, "__text_signature__", None))
    if type(value) is not FunctionType:
        return ""
    return _written(value, drop)


def _shown(written):
    """Returns the signature that C code states for itself, such as ($self, x, /), without self."""
    if type(written) is not str:
        return ""
    if written.startswith("($"):
        first, _, rest = written[2:].partition(", ")
        written = "(" + rest if rest else "()"
    if written.startswith("(/"):
        written = "(" + written[2:].lstrip(", ")
    return written


def _written(function, drop):
    """Returns the signature of a Python function, without its first drop parameters."""
    code = function.__code__
    names = code.co_varnames
    positional, only = code.co_argcount, getattr(code, "co_posonlyargcount", 0)
    defaults = function.__defaults__ or ()
    parts = []
    for i in range(positional):
        default = i - positional + len(defaults)
        parts.append(names[i] + ("=" + _default(defaults[default]) if default >= 0 else ""))
        if i == only - 1:
            parts.append("/")
    at = positional + code.co_kwonlyargcount
    if code.co_flags & 4:  # *args
        parts.append("*" + names[at])
        at += 1
    elif code.co_kwonlyargcount:
        parts.append("*")
    for name in names[positional : positional + code.co_kwonlyargcount]:
        given = (function.__kwdefaults__ or {}).get(name, query._MISSING)
        parts.append(name + ("" if given is query._MISSING else "=" + _default(given)))
    if code.co_flags & 8:  # **kwargs
        parts.append("**" + names[at])
    return "(%s)" % ", ".join(parts[drop:])


def _default(value):
    shown = repr(value) if type(value) in _PLAIN else "…"
    return shown if len(shown) <= 80 else shown[:80] + "…"
