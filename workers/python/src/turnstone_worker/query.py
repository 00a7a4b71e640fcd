"""Queries while no turn runs: completions, whether a text is complete, variables, and rows of tables."""
import builtins
import sys
from types import BuiltinFunctionType, FunctionType, GetSetDescriptorType, MemberDescriptorType, MethodType, ModuleType

from turnstone_worker.codec import text

_MATCHES = 200
_VARIABLES = 200
_BRIEF = 256  # bytes of each text of a variable
_BLOCKS = 1000  # the sizes of at most this many columns of a pandas table are added; with more, its size is unknown
_MISSING = object()
_mro_of = type.__dict__["__mro__"].__get__  # a metaclass may have its own


def answer(query, namespace, flags, channel):
    """Returns the fields of the query_result. User code may run, and may be slow."""
    if query["kind"] == "parse":
        return {"status": _parse(query["text"], flags, query["dialect"], namespace)}
    if query["kind"] == "variables":
        return list_variables(namespace)
    if query["kind"] == "inspect":
        from turnstone_worker import inspection

        data = inspection.describe(query["text"], query["cursor"], namespace)
        return {"status": "ok", "data": data} if data else {"status": "ok"}
    if query["kind"] == "table":
        from turnstone_worker import tables

        data = tables.page(query["text"], channel)
        return {"status": "ok", "data": {tables.MIME: data}} if data else {"status": "ok"}
    before = query["text"].encode()[: query["cursor"]].decode("utf-8", "ignore")
    from turnstone_worker import completion

    start, matches = completion.complete(before, namespace)
    return {"status": "ok", "start": len(before[:start].encode()), "matches": matches}


# ---------------------------------------------------------------- names


def find(path, namespace):
    """Returns the value of a.b.c, whose names are path, if that needs no code to run; otherwise _MISSING."""
    value = namespace.get(path[0], _MISSING)
    if value is _MISSING:
        value = vars(builtins).get(path[0], _MISSING)
    for name in path[1:]:
        value = _attribute(value, name)
    return value


def dotted(before):
    """Returns the names of the a.b.c at the end of before; None if the end is code that would have to run."""
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


def _attribute(value, name):
    """Returns an attribute, if that runs no property and no __getattr__; otherwise _MISSING."""
    if value is _MISSING:
        return _MISSING
    if issubclass(type(value), ModuleType):
        return vars(value).get(name, _MISSING)
    kind = type(value)
    found = _look_up(_mro_of(kind), name)
    if issubclass(kind, type):
        own = _look_up(_mro_of(value), name)
        found = own if own is not _MISSING else found
    else:
        own = own_fields(value).get(name, _MISSING)
        if own is not _MISSING:
            return own
    if found is _MISSING:
        return _MISSING
    if type(found) in (GetSetDescriptorType, MemberDescriptorType) and not issubclass(kind, type):
        try:
            return found.__get__(value, kind)
        except AttributeError:
            return _MISSING
    if type(found) in (staticmethod, classmethod):
        found, bound = found.__func__, type(found) is classmethod
        return MethodType(found, value if issubclass(kind, type) else kind) if bound and callable(found) else found
    if type(found) is FunctionType and not issubclass(kind, type):
        return MethodType(found, value)
    if _look_up(_mro_of(type(found)), "__get__") is not _MISSING and not callable(found):
        return _MISSING  # a property or similar
    return found


def own_fields(value):
    """Returns the __dict__ of an instance, without running a replacement that its class may define."""
    found = _look_up(_mro_of(type(value)), "__dict__")
    fields = found.__get__(value, type(value)) if type(found) is GetSetDescriptorType else None
    return fields if type(fields) is dict else {}


def _look_up(mro, name):
    for kind in mro:
        if name in _fields_of(kind):
            return _fields_of(kind)[name]
    return _MISSING


# ---------------------------------------------------------------- parse


def _parse(text, flags, dialect=None, namespace=None):
    """Returns whether text is "complete", "incomplete" or "invalid", by the rules of an interactive interpreter."""
    from turnstone_worker import imports

    from turnstone_worker.cells import dedented

    codeop = imports.quietly("codeop")
    if text[:1].isspace():
        text = dedented(text)
    if dialect == "notebook":
        from turnstone_worker import notebook

        cell = notebook.translated(text, flags, namespace)
        if cell is not None:
            if not notebook.is_complete(text):
                return "incomplete"
            text = cell.code
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
    # A block continues until an empty line ends it.
    if tree.body and (hasattr(tree.body[-1], "body") or hasattr(tree.body[-1], "cases")) and text.rpartition("\n")[2].strip():
        return "incomplete"
    return "complete"


def _only_ast():
    return sys.modules["_ast"].PyCF_ONLY_AST


# ---------------------------------------------------------------- variables

_COUNTED = (str, bytes, bytearray, list, tuple, dict, set, frozenset, range)
_name_of = type.__dict__["__name__"].__get__  # a metaclass may have its own
_fields_of = type.__dict__["__dict__"].__get__


def list_variables(namespace):
    """Returns the variables of user code, newest first, data before functions and classes. It runs
    no user code: it inspects a value only if the value's exact type is known here."""
    data, code = [], []
    for name, value in reversed(list(namespace.items())):
        kind = type(value)
        if type(name) is not str or name.startswith("_") or issubclass(kind, ModuleType):
            continue
        if kind is FunctionType or issubclass(kind, type):
            module = value.__module__ if kind is FunctionType else _fields_of(value).get("__module__")
            if type(module) is not str or module == "__main__":  # the others were imported
                code.append((name, value))
        elif kind is not BuiltinFunctionType:
            data.append((name, value))
    found = data + code
    library = _known()
    return {
        "status": "ok",
        "variables": [_variable(name, value, library) for name, value in found[:_VARIABLES]],
        "more": max(0, len(found) - _VARIABLES),
    }


def _known():
    """Returns the known types of libraries, each with the function that returns shape and size."""
    library = {}
    for module, names in (("numpy", ("ndarray",)), ("pandas", ("DataFrame", "Series", "Index")), ("polars", ("DataFrame", "Series"))):
        module = sys.modules.get(module)
        for name in names if type(module) is ModuleType else ():
            known = vars(module).get(name)
            if isinstance(known, type):
                library[known] = _FAMILIES[module.__name__]
    return library


def shape(value):
    """Returns the shape of a value of a known type, in the form of _variable; or ""."""
    return _variable("", value, _known()).get("shape", "")


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
