"""Questions about a text while no turn runs: how it may go on, and whether it is whole."""
import builtins
import keyword
import sys
from types import GetSetDescriptorType, MemberDescriptorType, ModuleType

_MATCHES = 200
_MISSING = object()


def answer(query, namespace, flags):
    """The fields of the query_result. User code may run, and take its time."""
    if query["kind"] == "parse":
        return {"status": _parse(query["text"], flags)}
    before = query["text"].encode()[: query["cursor"]].decode("utf-8", "ignore")
    start, matches = _complete(before, namespace)
    return {"status": "ok", "start": len(before[:start].encode()), "matches": matches}


# ---------------------------------------------------------------- complete


def _complete(before, namespace):
    """Where the last name in before begins, and what it may become."""
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
        return _MISSING  # a property, or something like it
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
    """What begins with prefix, in order; private names only when they are asked for."""
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
