"""Completion: the possible continuations of a text.

Values are looked up in the live namespace. It runs no user code: no property, no __getattr__, no
call, no import, and no subscript except of Python's own containers.
"""
import builtins
import itertools
import keyword
import os
import re
import sys
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, MethodType, ModuleType, WrapperDescriptorType

from turnstone_worker import query

_LOOKED_AT = 50000  # characters before the end
_MATCHES = 200
_SCANNED = 200000  # keys or names that are searched
_ENTRIES = 5000  # of a directory
_MAX_PATHS = 100  # directories of modules
_SOURCE = 1 << 20  # bytes that are read of a module that is not imported
_MISSING = query._MISSING
_mro_of = query._mro_of
_fields_of = query._fields_of
_KEYS = (str, int, bytes)
_NESTED = sys.version_info >= (3, 12)  # the field of an f-string may contain the string's quote and backslashes
_BUILTINS = (BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType, type({}.__init__))


class _One:
    """Represents any value of a type."""

    def __init__(self, kind):
        self.kind = kind


def complete(before, namespace):
    """Returns where the last word of before begins, and the texts that can replace it."""
    skipped = max(0, len(before) - _LOOKED_AT)
    start, matches = _complete(before[skipped:], namespace)
    return skipped + start, matches


def _complete(before, namespace):
    brackets, string, comment, field = _scan(before)
    if comment:
        return len(before), []
    if field >= 0:
        start, matches = _complete(before[field:], namespace)
        return field + start, [m for m in matches if _NESTED or before[string] not in m and "\\" not in m]
    if string is not None:
        return _in_string(before, brackets, string, namespace)
    found = _in_import(before)
    if found is not None:
        return found
    start = len(before)
    while start > 0 and _is_name(before[start - 1]):
        start -= 1
    prefix, rest = before[start:], before[:start].rstrip(" \t")
    if prefix[:1].isdigit():
        return len(before), []
    if rest.endswith("."):
        value = _value_before(rest[:-1], namespace)
        return start, [] if value is _MISSING else select(names(value), prefix)
    if not prefix and brackets and brackets[-1] == len(rest) - 1 and rest.endswith("["):
        keys = _keys(_value_before(rest[:-1], namespace))
        if keys:
            return start, [repr(k) for k in keys[:_MATCHES]]
    every = set(keyword.kwlist)
    every.update(k for k in itertools.islice(list(namespace), _SCANNED) if type(k) is str)
    every.update(vars(builtins))
    return start, (_keywords(before, brackets, start, namespace) + select(every, prefix))[:_MATCHES]


def _is_name(c):
    return c.isidentifier() or c.isdigit()


def _scan(text):
    """Returns the positions of the open brackets, and what contains the end of text.

    The latter has three parts. The first is the position of the quote of an open string, or None.
    The second says whether the end is in a comment. The third is the start of the string's open
    replacement field, or -1.
    """
    brackets, i = [], 0
    while i < len(text):
        c = text[i]
        if c == "#":
            i = text.find("\n", i)
            if i < 0:
                return brackets, None, True, -1
        elif c in "'\"":
            begin = i
            i, field = _string_end(text, i)
            if i < 0:
                return brackets, begin, False, field
            continue
        elif c in "([{":
            brackets.append(i)
        elif c in ")]}" and brackets:
            brackets.pop()
        i += 1
    return brackets, None, False, -1


def _prefix(text, quote):
    """Returns the letters before a quote."""
    begin = quote
    while begin > 0 and text[begin - 1].isalpha():
        begin -= 1
    return text[begin:quote].lower()


def _string_end(text, i):
    """Returns the end of the string whose quote is at i, and -1. If the string is open, returns -1 and the start of its open field."""
    quote = text[i] * 3 if text.startswith(text[i] * 3, i) else text[i]
    formatted = not set(_prefix(text, i)).isdisjoint("ft")
    i += len(quote)
    while i < len(text):
        if text.startswith(quote, i):
            return i + len(quote), -1
        if text[i] == "\n" and len(quote) == 1:
            return i + 1, -1
        if formatted and text.startswith("\\N{", i):
            i = text.find("}", i) + 1 or len(text)
        elif text[i] == "\\" and not (formatted and text.startswith("{", i + 1)):
            i += 2
        elif formatted and text[i] == "{" and not text.startswith("{{", i):
            i, field = _field_end(text, i + 1, quote)
            if i < 0:
                return i, field
        else:
            i += 2 if formatted and text.startswith("{{", i) else 1
    return -1, -1


def _field_end(text, begin, quote):
    """Returns the end of the replacement field that begins at begin, like _string_end; quote is the quote of its string."""
    i, depth, spec = begin, 0, False
    while i < len(text):
        c = text[i]
        if text.startswith(quote, i) and (spec or not _NESTED) or c == "\n" and len(quote) == 1 and not _NESTED:
            return i, -1  # it ends the string
        if c == "}" and depth == 0:
            return i + 1, -1
        if spec:
            if c == "{":
                i, field = _field_end(text, i + 1, quote)
                if i < 0:
                    return i, field
                continue
        elif c in "'\"":
            i, field = _string_end(text, i)
            if i < 0:
                return i, field if field >= 0 else begin
            continue
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif depth == 0 and (c == ":" or c == "!" and not text.startswith("=", i + 1)):
            spec = True
        i += 1
    return -1, -1 if spec else begin


# ---------------------------------------------------------------- values


def _value_before(text, namespace):
    """Returns the value of the expression at the end of text, or _MISSING."""
    expression = _expression(text)
    if not expression:
        return _MISSING
    import ast

    try:
        tree = ast.parse(expression, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _MISSING
    return _value(ast, tree.body, namespace)


def _expression(text):
    """Returns the primary expression at the end of text: names, dots, brackets and literals."""
    i, depth, quote = len(text.rstrip(" \t")), 0, ""
    text = text[:i]
    while i > 0:
        c = text[i - 1]
        if quote:
            if c == quote and not text[: i - 1].endswith("\\"):
                quote = ""
        elif c in "'\"":
            quote = c
        elif c in ")]}":
            depth += 1
        elif c in "([{":
            if depth == 0:
                break
            depth -= 1
        elif depth == 0 and not _is_name(c) and c != ".":
            break
        i -= 1
    return text[i:]


def _value(ast, node, namespace):
    if isinstance(node, ast.Name):
        return query.find([node.id], namespace)
    if isinstance(node, ast.Attribute):
        value = _value(ast, node.value, namespace)
        if type(value) is _One:
            return _MISSING
        return _MISSING if value is _MISSING else query._attribute(value, node.attr)
    if isinstance(node, ast.Subscript):
        return _item(ast, _value(ast, node.value, namespace), node.slice)
    for kinds, value in (
        (("JoinedStr",), _One(str)),
        (("List", "ListComp"), _One(list)),
        (("Dict", "DictComp"), _One(dict)),
        (("Set", "SetComp"), _One(set)),
        (("Tuple",), _One(tuple)),
    ):
        if type(node).__name__ in kinds:
            return value
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return _MISSING


def _item(ast, value, index):
    """Returns value[index], only for Python's own containers."""
    index = getattr(index, "value", index) if type(index).__name__ == "Index" else index  # before Python 3.9
    try:
        key = ast.literal_eval(index)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return _MISSING
    if type(key) not in _KEYS:
        return _MISSING
    if type(value) in (list, tuple, str) and type(key) is int and -len(value) <= key < len(value):
        return value[key]
    if type(value) is dict:
        for k, v in itertools.islice(list(value.items()), _SCANNED):
            if type(k) is type(key) and k == key:  # a look-up could run the __eq__ of another key
                return v
    if _is_frame(value, "DataFrame") and type(key) is str:
        return _One(vars(sys.modules["pandas"])["Series"])
    return _MISSING


def _is_frame(value, name):
    for module in ("pandas", "polars"):
        module = sys.modules.get(module)
        if type(module) is ModuleType and type(value) is vars(module).get(name):
            return True
    return False


def _keys(value):
    """Returns the keys of a container that are texts or numbers."""
    try:
        if issubclass(type(value), dict):
            keys = itertools.islice(dict.__iter__(value), _SCANNED)
        elif _is_frame(value, "DataFrame"):
            keys = itertools.islice(iter(value.columns), _SCANNED)
        else:
            numpy = sys.modules.get("numpy")
            keys = value.dtype.names or () if type(numpy) is ModuleType and type(value) is vars(numpy).get("ndarray") else ()
        return [k for k in keys if type(k) in _KEYS]
    except Exception:  # changed by a thread, or a table of an unknown version
        return []


def _is_plain(kind, names):
    """Reports whether user code defines none of names for values of this kind."""
    return not any(_fields_of(k).get("__module__") == "__main__" and n in _fields_of(k) for k in _mro_of(kind) for n in names)


_HOOKS = ("__dir__", "__getattribute__", "__getattr__", "__dict__", "__class__", "__slots__")


def _told(module):
    """Returns the names in a module, including those that a library's __dir__() lists and imports later (PEP 562)."""
    own = list(vars(module))
    tells = vars(module).get("__dir__")
    if isinstance(tells, FunctionType) and tells.__module__ != "__main__":
        try:
            return own + list(tells())
        except Exception:
            pass
    return own


def names(value):
    """Returns the names of the attributes of a value. A library's code may list them; user code is not called."""
    if type(value) is _One:
        return dir(value.kind)
    kind = type(value)
    if issubclass(kind, ModuleType):
        return [n for n in itertools.islice(_told(value), _SCANNED) if type(n) is str] + _submodules(value)
    if _is_plain(kind, _HOOKS):
        try:
            return {n for n in itertools.islice(dir(value), _SCANNED) if type(n) is str}
        except Exception:
            pass
    found = {n for k in _mro_of(kind) for n in _fields_of(k)}
    found.update(n for n in list(query.own_fields(value)) if type(n) is str)
    if issubclass(kind, type):
        found.update(n for k in _mro_of(value) for n in _fields_of(k))
    return found


def _submodules(module):
    """Returns the names of submodules that are already imported."""
    own = vars(module).get("__name__")
    if type(own) is not str:
        return []
    return [n[len(own) + 1 :] for n in list(sys.modules) if type(n) is str and n.startswith(own + ".") and "." not in n[len(own) + 1 :]]


def select(every, prefix):
    """Returns the names that begin with prefix, sorted; private names only if prefix is private or nothing else matches."""
    hidden = "" if prefix.startswith("_") else "_"
    found = {n for n in every if n.startswith(prefix) and not (hidden and n.startswith(hidden))}
    if not found and not prefix:
        found = set(every)
    return sorted(found)[:_MATCHES]


# ---------------------------------------------------------------- keyword arguments


def _keywords(before, brackets, start, namespace):
    """Returns the parameters that can be passed by name in the call around the end."""
    if not brackets or before[brackets[-1]] != "(" or before[:start].rstrip()[-1:] not in ("(", ","):
        return []
    given = before[brackets[-1] + 1 :]
    callee, drop = _callee(before[: brackets[-1]], namespace)
    prefix = before[start:]
    return [n + "=" for n in _parameters(callee, drop) if n.startswith(prefix) and not re.search(r"\b%s\s*=[^=]" % n, given)]


def _callee(text, namespace):
    """Returns the value that the expression at the end of text names, and how many of its first parameters are bound."""
    owner, dot, name = _expression(text).rpartition(".")
    value = _value_before(owner, namespace) if dot and name.isidentifier() else _MISSING
    if value is _MISSING or issubclass(type(value), ModuleType):
        return _value_before(text, namespace), 0
    if issubclass(type(value), type):
        return query._look_up(_mro_of(value), name), 0
    kind = value.kind if type(value) is _One else type(value)
    if type(value) is not _One and name in query.own_fields(value):
        return query.own_fields(value)[name], 0
    found = query._look_up(_mro_of(kind), name)
    return found, int(type(found) is FunctionType)


def _parameters(value, drop=0):
    """Returns the names of the parameters of a function, a method or a class, without running anything."""
    for _ in range(5):
        kind = type(value)
        if kind is MethodType:
            value, drop = value.__func__, 1
        elif issubclass(kind, type):
            init = query._look_up(_mro_of(value), "__init__")
            new = query._look_up(_mro_of(value), "__new__")
            text = _fields_of(value).get("__text_signature__")
            if type(init) is not FunctionType and type(new) is not FunctionType:
                doc = type.__dict__["__text_signature__"].__get__(value) if text is None else text
                return _in_signature(doc)
            value, drop = (init if type(init) is FunctionType else new), 1
        elif kind in (staticmethod, classmethod):
            value, drop = value.__func__, drop + (kind is classmethod)
        elif kind is FunctionType:
            wrapped = vars(value).get("__wrapped__")
            if type(wrapped) is not FunctionType:
                code = value.__code__
                first = max(drop, getattr(code, "co_posonlyargcount", 0))
                return list(code.co_varnames[first : code.co_argcount + code.co_kwonlyargcount])
            value = wrapped
        elif kind in _BUILTINS:
            return _in_signature(value.__text_signature__)
        else:
            return []
    return []


def _in_signature(signature):
    """Returns the names in a signature in the form that C code uses."""
    if type(signature) is not str:
        return []
    inside = signature.partition("(")[2].rpartition(")")[0].rpartition("/")[2]
    return [n for n in re.findall(r"(?:^|,)\s*([A-Za-z_]\w*)", inside)]


# ---------------------------------------------------------------- strings


def _in_string(before, brackets, quote, namespace):
    """Completes a string: as a key if it is a subscript, otherwise as a path."""
    mark, prefix = before[quote], _prefix(before, quote)
    width = 3 if before.startswith(mark * 3, quote) else 1
    start = quote + width
    content = before[start:]
    if width == 1 and brackets and before[brackets[-1]] == "[" and not before[brackets[-1] + 1 : quote - len(prefix)].strip():
        kind = bytes if "b" in prefix else str
        keys = (_written(k, mark, prefix) for k in _keys(_value_before(before[: brackets[-1]], namespace)) if type(k) is kind)
        found = list(itertools.islice((k for k in keys if k is not None and k.startswith(content)), _MATCHES))
        if found:
            return start, found
    if not content or "\n" in content or not set(prefix).isdisjoint("fbt"):
        return len(before), []
    begin, found = _paths(content, start, mark, prefix)
    return (begin, found) if found else (len(before), [])


def _written(value, mark, prefix):
    """Returns a text or bytes as written between two quotes; None if that is impossible."""
    if "r" not in prefix:
        return "".join(_written_sign(sign, mark) for sign in (map(_byte, value) if type(value) is bytes else value))
    text = value.decode("latin-1") if type(value) is bytes else value
    return text if text.isprintable() and mark not in text and not text.endswith("\\") else None


def _byte(number):
    return bytes((number,))


def _written_sign(sign, mark):
    text = repr(sign).lstrip("b")[1:-1]
    return "\\" + text if text == mark else text


def _paths(content, start, mark, prefix):
    folder, _, prefix_of_name = content.rpartition("/")
    if "/" in content:
        folder += "/"
    import ast

    found = []
    try:
        path = ast.literal_eval("".join((prefix, mark * 3, folder, mark * 3))) if folder else "."
        for e in itertools.islice(os.scandir(os.path.expanduser(path)), _ENTRIES):
            name = _written(e.name, mark, prefix) if e.name.isprintable() else None
            if name is not None and name.startswith(prefix_of_name) and (prefix_of_name.startswith(".") or not name.startswith(".")):
                found.append(name + ("/" if e.is_dir() else ""))
    except (OSError, ValueError, SyntaxError):
        return len(content) + start, []
    return start + len(folder), sorted(found)[:_MATCHES]


# ---------------------------------------------------------------- imports

_FROM = re.compile(r"^\s*from\s+([\w.]+)\s+import\s+(?:\(\s*)?(?:[\w\s,]*,\s*)?(\w*)$")
_IMPORT = re.compile(r"^\s*(?:from|import(?:\s+[\w.]+(?:\s+as\s+\w+)?\s*,)*)\s+([\w.]*)$")


def _in_import(before):
    """Returns the completions of an import statement; None if the end is in no such statement."""
    line = before[max(before.rfind("\n"), before.rfind(";")) + 1 :]
    m = _FROM.match(line)
    if m:
        return len(before) - len(m.group(2)), select(_exports(m.group(1)), m.group(2))
    m = _IMPORT.match(line)
    if not m:
        if re.match(r"^\s*from\s+[\w.]+\s+\w*$", line) and "import".startswith(line.split()[-1] if not line.endswith((" ", "\t")) else ""):
            word = "" if line.endswith((" ", "\t")) else line.split()[-1]
            return len(before) - len(word), ["import"]
        return None
    package, _, prefix = m.group(1).rpartition(".")
    return len(before) - len(prefix), select(_modules(package), prefix)


def _modules(package):
    """Returns the names of the modules in a package; for "", those of the top-level modules."""
    if package:
        found = set(_submodules(sys.modules[package])) if type(sys.modules.get(package)) is ModuleType else set()
    else:
        found = {n for n in sys.builtin_module_names} | {n for n in list(sys.modules) if type(n) is str and "." not in n}
        found.discard("__main__")
    for path in _search_path(package)[:_MAX_PATHS]:
        try:
            for e in itertools.islice(os.scandir(path or "."), _ENTRIES):
                name, _, end = e.name.partition(".")
                if name.isidentifier() and (end in ("py", "pyc") or end.endswith(("so", "pyd")) or not end and name != "__pycache__" and e.is_dir()):
                    found.add(name)
        except (OSError, ValueError):
            pass
    found.discard("__init__")
    return found


def _search_path(package):
    """Returns the directories that are searched for the modules of a package."""
    if not package:
        return [p for p in list(sys.path) if type(p) is str]
    module = sys.modules.get(package)
    path = vars(module).get("__path__") if type(module) is ModuleType else None
    if path is not None:
        try:
            return [p for p in list(path) if type(p) is str]
        except Exception:
            return []
    if module is not None:
        return []
    above, _, name = package.rpartition(".")
    return [p for p in (os.path.join(p or ".", name) for p in _search_path(above)[:_MAX_PATHS]) if os.path.isdir(p)]


_DEFINED = re.compile(r"^(?:(?:async\s+)?def|class)\s+(\w+)|^(\w+)\s*(?::[^=\n]+)?=[^=]", re.MULTILINE)


def _exports(package):
    """Returns the names that can be imported from a module. If the module is not imported, its source is read and not run."""
    found = _modules(package)
    module = sys.modules.get(package)
    if type(module) is ModuleType:
        found.update(n for n in itertools.islice(list(vars(module)), _SCANNED) if type(n) is str)
        return found
    above, _, name = package.rpartition(".")
    for path in _search_path(above)[:_MAX_PATHS]:
        for file in (os.path.join(path or ".", name + ".py"), os.path.join(path or ".", name, "__init__.py")):
            try:
                with open(file, "rb") as source:
                    text = source.read(_SOURCE).decode("utf-8", "replace")
            except (OSError, ValueError):
                continue
            found.update(a or b for a, b in _DEFINED.findall(text))
            return found
    return found
