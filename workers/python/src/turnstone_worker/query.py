"""Queries while no turn runs: completions, whether a text is complete, and variables."""
import builtins
import keyword
import sys
from types import BuiltinFunctionType, FunctionType, GetSetDescriptorType, MemberDescriptorType, ModuleType

from turnstone_worker.codec import text

_MATCHES = 200
_VARIABLES = 200
_BRIEF = 256  # bytes of each text of a variable
_BLOCKS = 1000  # of a pandas table are added up; with more, its size is unknown
_MISSING = object()


def answer(query, namespace, flags):
    """The fields of the query_result. User code may run, and may be slow."""
    if query["kind"] == "parse":
        return {"status": _parse(query["text"], flags)}
    if query["kind"] == "variables":
        return _variables(namespace)
    before = query["text"].encode()[: query["cursor"]].decode("utf-8", "ignore")
    start, matches = _complete(before, namespace)
    return {"status": "ok", "start": len(before[:start].encode()), "matches": matches}


# ---------------------------------------------------------------- complete


def _complete(before, namespace):
    """The start of the last name in before, and its completions."""
    start = len(before)
    while start > 0 and (before[start - 1].isidentifier() or before[start - 1].isdigit()):
        start -= 1
    prefix = before[start:]
    if prefix[:1].isdigit() or _in_string_or_comment(before):
        return len(before), []
    if not before[:start].rstrip(" \t").endswith("."):
        names = set(keyword.kwlist)
        names.update(k for k in namespace if isinstance(k, str))
        names.update(vars(builtins))
        return start, _select(names, prefix)
    path = _dotted(before[:start].rstrip(" \t")[:-1])
    if path is None:
        return start, []
    value = namespace.get(path[0], _MISSING)
    if value is _MISSING:
        value = vars(builtins).get(path[0], _MISSING)
    for name in path[1:]:
        value = _attribute(value, name)
    if value is _MISSING:
        return start, []
    return start, _select(_names(value), prefix)


def _dotted(before):
    """The names of the a.b.c that before ends with; None when it ends with something that must be run."""
    path = []
    while True:
        before = before.rstrip(" \t")
        i = len(before)
        while i > 0 and (before[i - 1].isidentifier() or before[i - 1].isdigit()):
            i -= 1
        if not before[i:].isidentifier():
            return None
        path.insert(0, before[i:])
        before = before[:i].rstrip(" \t")
        if not before.endswith("."):
            return path
        before = before[:-1]


def _in_string_or_comment(before):
    """Reports whether the end of before is inside of a string or a comment."""
    quote, i = "", 0
    while i < len(before):
        c = before[i]
        if quote:
            if c == "\\":
                i += 1
            elif before.startswith(quote, i):
                i += len(quote) - 1
                quote = ""
            elif c == "\n" and len(quote) == 1:
                quote = ""
        elif c == "#":
            end = before.find("\n", i)
            if end < 0:
                return True
            i = end
        elif c in "'\"":
            quote = c * 3 if before.startswith(c * 3, i) else c
            i += len(quote) - 1
        i += 1
    return bool(quote)


def _attribute(value, name):
    """An attribute, if it can be had without running a property or a __getattr__."""
    if value is _MISSING:
        return _MISSING
    if isinstance(value, ModuleType):
        return vars(value).get(name, _MISSING)
    kind = type(value)
    found = _look_up(kind.__mro__, name)
    if isinstance(value, type):
        own = _look_up(value.__mro__, name)
        found = own if own is not _MISSING else found
    else:
        try:
            own = object.__getattribute__(value, "__dict__").get(name, _MISSING)
        except AttributeError:
            own = _MISSING
        if own is not _MISSING:
            return own
    if found is _MISSING:
        return _MISSING
    if isinstance(found, (GetSetDescriptorType, MemberDescriptorType)) and not isinstance(value, type):
        return getattr(value, name, _MISSING)
    if hasattr(type(found), "__get__") and not callable(found):
        return _MISSING  # a property or similar
    return found


def _look_up(mro, name):
    for kind in mro:
        if name in vars(kind):
            return vars(kind)[name]
    return _MISSING


def _names(value):
    try:
        return {n for n in dir(value) if isinstance(n, str)}
    except Exception:
        return {n for kind in type(value).__mro__ for n in vars(kind)}


def _select(names, prefix):
    """The names that begin with prefix, in order; private names only if prefix is private."""
    hidden = "" if prefix.startswith("_") else "_"
    found = [n for n in names if n.startswith(prefix) and not (hidden and n.startswith(hidden))]
    if not found and not prefix:
        found = list(names)
    return sorted(found)[:_MATCHES]


# ---------------------------------------------------------------- parse


def _parse(text, flags):
    """Whether text is "complete", "incomplete" or "invalid", as an interactive interpreter judges."""
    from turnstone_worker import imports

    codeop = imports.quietly("codeop")
    warnings = imports.quietly("warnings")
    compiler = codeop.CommandCompiler()
    compiler.compiler.flags |= flags
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if compiler(text, "<input>", "exec") is None:
                return "incomplete"
            tree = compile(text, "<input>", "exec", _only_ast() | flags, True)
        except (SyntaxError, OverflowError, ValueError, MemoryError, RecursionError):
            return "invalid"
    # A block goes on until an empty line ends it.
    if tree.body and (hasattr(tree.body[-1], "body") or hasattr(tree.body[-1], "cases")) and text.rpartition("\n")[2].strip():
        return "incomplete"
    return "complete"


def _only_ast():
    return sys.modules["_ast"].PyCF_ONLY_AST


# ---------------------------------------------------------------- variables

_COUNTED = (str, bytes, bytearray, list, tuple, dict, set, frozenset, range)
_name_of = type.__dict__["__name__"].__get__  # a metaclass may have its own
_fields_of = type.__dict__["__dict__"].__get__


def _variables(namespace):
    """The variables of user code, newest first, data before functions and classes.

    No code of the user's runs: a value is looked into only if its type is exactly one
    that is known here.
    """
    data, code = [], []
    for name, value in reversed(list(namespace.items())):
        kind = type(value)
        if type(name) is not str or name.startswith("_") or issubclass(kind, ModuleType):
            continue
        if kind is FunctionType or issubclass(kind, type):
            module = value.__module__ if kind is FunctionType else _fields_of(value).get("__module__")
            if type(module) is not str or module == "__main__":  # the others are imported
                code.append((name, value))
        elif kind is not BuiltinFunctionType:
            data.append((name, value))
    found = data + code
    library = {}
    for module, names in (("numpy", ("ndarray",)), ("pandas", ("DataFrame", "Series", "Index")), ("polars", ("DataFrame", "Series"))):
        module = sys.modules.get(module)
        for name in names if type(module) is ModuleType else ():
            known = vars(module).get(name)
            if isinstance(known, type):
                library[known] = _FAMILIES[module.__name__]
    return {
        "status": "ok",
        "variables": [_variable(name, value, library) for name, value in found[:_VARIABLES]],
        "more": max(0, len(found) - _VARIABLES),
    }


def _variable(name, value, library):
    kind = type(value)
    variable = {"name": text(name, _BRIEF), "type": text(_name_of(kind), _BRIEF)}
    try:
        if kind in _COUNTED:
            shape, size = len(value), sys.getsizeof(value)
        elif kind in library:
            shape, size = library[kind](value)
        else:
            return variable
    except Exception:
        return variable
    if type(shape) is tuple:
        shape = shape[0] if len(shape) == 1 else shape
    variable["shape"] = text(str(shape), _BRIEF)
    if size is not None:
        variable["bytes"] = int(size)
    return variable


def _array(value):
    return value.shape, value.nbytes


def _table(value):
    manager = getattr(value, "_mgr", None)
    blocks = () if manager is None else manager.blocks
    if not blocks or len(blocks) > _BLOCKS:
        return value.shape, None
    size = 0
    for block in blocks:
        values = block.values
        if not str(vars(type(values)).get("__module__", "numpy")).startswith(("numpy", "pandas.")):
            return value.shape, None  # an array type of user code
        size += values.nbytes
    return value.shape, size


def _frame(value):
    return value.shape, value.estimated_size()


_FAMILIES = {"numpy": _array, "pandas": _table, "polars": _frame}
