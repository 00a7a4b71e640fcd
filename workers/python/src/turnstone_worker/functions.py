"""The module turnstone: the functions of the host, for user code.

They are created when the module is first imported, and again when the host has changed them. Their
signatures are created only once something has imported inspect, because that import is slow.
"""
import keyword
import sys
from _frozen_importlib import ModuleSpec
from types import ModuleType

from turnstone_worker import imports
from turnstone_worker.calls import CallError, tool_error
from turnstone_worker.frames import native_getframe

NAME = "turnstone"
SPARE = "turnstone_host"  # used if the user has a module of that name
# The modules' own names, which no function may have.
_OURS = ("CallError", "ToolError", "tools", "_group", "_host", "_opened", "_renew", "_true")


class Given:
    """The default of an optional parameter that has no default."""

    def __repr__(self):
        return "..."


_GIVEN = Given()


def _name(true, taken):
    """Returns the Python name of a function or parameter: not a keyword, not reserved, and not taken."""
    name = "".join(c if (c == "_" or c.isalnum()) else "_" for c in true)
    if not name.isascii():
        from unicodedata import normalize

        name = normalize("NFKC", name)  # as Python reads it in code
    if not name.isidentifier():
        name = "_" + name
    if keyword.iskeyword(name) or name in _OURS or name[:2] == "__" == name[-2:]:
        name += "_"
    while name in taken:
        name += "_"
    return name


def _names(trues):
    """Returns the Python names by the true ones. A name that needs no change stays the same, in any position."""
    names = {true: true for true in trues if _name(true, ()) == true}
    taken = set(names)
    for true in trues:
        if true not in names:
            names[true] = name = _name(true, taken)
            taken.add(name)
    return names


class Parameter:
    def __init__(self, true, name, schema, required):
        self.true, self.name, self.required = true, name, required
        self.schema = schema if isinstance(schema, dict) else {}


def _parameters(entry):
    """Returns the parameters of a function, required ones first; None if it takes any named arguments."""
    schema = entry.get("params")
    if not isinstance(schema, dict) or not isinstance(schema.get("properties"), dict):
        return None
    required = schema.get("required") or ()
    found = {}
    names = _names(list(schema["properties"]))
    for true, inner in schema["properties"].items():
        name = names[true]
        found[name] = Parameter(true, name, inner, true in required)
    return sorted(found.values(), key=lambda p: not p.required)


def _as_it_is(value):
    return value


def make(entry, calls, module):
    """Returns a Python function for an entry of the host's list."""
    true = entry["name"]
    parameters = _parameters(entry)
    shown = _as_it_is

    if entry.get("group"):
        from turnstone_worker.tools import shown

        module = "%s.tools.%s" % (module, entry["group"])
        true = "%s.%s" % (entry["group"], true)

    bind = _binder(true, parameters)

    def function(*args, **kwargs):
        return shown(calls.call(true, bind(args, kwargs)))

    async def async_(*args, **kwargs):
        return shown(await calls.wait_for(true, bind(args, kwargs)))

    doc = _doc(entry, parameters)
    name = _name(entry["name"], ()) if entry.get("group") else true
    for f, name in ((function, name), (async_, name + ".async_")):
        f.__name__ = f.__qualname__ = name
        f.__module__ = module
        f.__doc__ = doc
        f.__dict__["turnstone"] = (entry, parameters)
    function.async_ = async_
    return function


def _binder(name, parameters):
    """Returns a function that gives arguments their true names. The host reports missing, unknown and wrongly typed ones."""
    if parameters is None:

        def bind(args, kwargs):
            if args:
                raise TypeError("%s: takes its arguments by name only" % name)
            return kwargs

        return bind
    positions = [p.true for p in _positional(parameters)]
    by_name = {p.name: p.true for p in parameters}

    def bind(args, kwargs):
        if len(args) > len(positions):
            allowed = ", ".join(p.name for p in _positional(parameters)) or "all need one"
            raise TypeError("%s: %d arguments without a name, at most %d are allowed: %s" % (name, len(args), len(positions), allowed))
        bound = dict(zip(positions, args))
        for given, value in kwargs.items():
            true = by_name.get(given, given)
            if true in bound:
                raise TypeError("%s: two values for %s" % (name, given))
            bound[true] = value
        return bound

    return bind


def _positional(parameters):
    """Returns the parameters that can be passed by position."""
    return [p for p in parameters if p.required] or parameters[:1]


def _doc(entry, parameters):
    lines = [str(entry.get("doc") or "")]
    documented = [p for p in parameters or () if p.schema.get("description") or p.name != p.true or p.schema.get("properties")]
    if documented:
        lines.append("\nParameters:")
    for p in documented:
        text = "    %s: %s" % (p.name, p.schema.get("description") or _words(p.schema))
        if p.name != p.true:
            text += " (the host calls it %s)" % p.true
        lines.append(text)
        for name, inner in (p.schema.get("properties") or {}).items():
            lines.append("        %s: %s" % (name, _words(inner)))
    kind = "Tool %s of %s." % (entry["name"], entry["group"]) if entry.get("group") else "A function of the host."
    lines.append("\n%s await %s.async_(...) does not block an event loop." % (kind, _name(entry["name"], ())))
    return "\n".join(lines).lstrip("\n")


def _words(schema):
    """Describes a schema in a few words."""
    if not isinstance(schema, dict):
        return "anything"
    kind = schema.get("type") or "anything"
    if isinstance(kind, list):
        kind = " or ".join(map(str, kind))
    text = str(schema.get("description") or "")
    return "%s. %s" % (kind, text) if text else str(kind)


# ---------------------------------------------------------------- signatures

_TYPES = {"string": str, "integer": int, "number": float, "boolean": bool, "null": None, "object": dict, "array": list}


def _hint(schema, depth=0):
    """Returns the type hint for a schema; Any if no hint can express it."""
    typing = imports.quietly("typing")
    if not isinstance(schema, dict) or depth > 8:
        return typing.Any
    if isinstance(schema.get("enum"), list) and schema["enum"] and all(isinstance(v, (str, int, bool, type(None))) for v in schema["enum"]):
        return typing.Literal[tuple(schema["enum"])]
    kinds = schema.get("type")
    if kinds is None and isinstance(schema.get("anyOf"), list):
        hints = [_hint(s, depth + 1) for s in schema["anyOf"]]
        return typing.Union[tuple(hints)] if hints else typing.Any
    if isinstance(kinds, list):
        hints = [_hint(dict(schema, type=k), depth + 1) for k in kinds]
        return typing.Union[tuple(hints)] if hints else typing.Any
    if kinds == "string" and schema.get("format") == "binary":
        return bytes
    if kinds == "string" and schema.get("format") == "date-time":
        return imports.quietly("datetime").datetime
    if kinds == "array" and isinstance(schema.get("items"), dict) and schema["items"]:
        return typing.List[_hint(schema["items"], depth + 1)]
    return _TYPES.get(kinds, typing.Any) if isinstance(kinds, str) else typing.Any


def sign(function):
    """Gives a function its signature and hints."""
    inspect = sys.modules["inspect"]
    entry, parameters = function.__dict__["turnstone"]
    kind, hints, found = inspect.Parameter, {}, []
    positional = _positional(parameters or [])
    for p in parameters or ():
        hints[p.name] = _hint(p.schema)
        default = kind.empty if p.required else p.schema.get("default", _GIVEN)
        way = kind.POSITIONAL_OR_KEYWORD if p in positional else kind.KEYWORD_ONLY
        found.append(kind(p.name, way, default=default, annotation=hints[p.name]))
    if parameters is None:
        found.append(kind("arguments", kind.VAR_KEYWORD))
    returns = kind.empty
    if isinstance(entry.get("returns"), dict):
        returns = hints["return"] = _hint(entry["returns"])
    for f in (function, function.async_):
        f.__signature__ = inspect.Signature(found, return_annotation=returns)
        f.__annotations__ = hints


# ---------------------------------------------------------------- the module


class Module(ModuleType):
    """The module turnstone. Its attributes are the functions, which are renewed on access."""

    def __getattr__(self, name):
        host.refresh()
        try:
            return self.__dict__[name]
        except KeyError:
            pass
        if name == "tools" and host.group_names():
            return _tools()
        if name in host.display:
            return host.display[name]
        if name.startswith("__"):
            raise AttributeError("module %r has no attribute %r" % (self.__name__, name))
        names = _nearest_first(name, host.functions)
        raise AttributeError("the host offers no function %s%s" % (name, ": it offers " + ", ".join(names[:20]) if names else ", and no other"))

    def __dir__(self):
        host.refresh()
        more = ("ToolError", "tools") if host.group_names() else ()
        return sorted({n for n in self.__dict__ if not n.startswith("_")}.union(more).difference(() if more else ("ToolError",)))


def _tools():
    """The module turnstone.tools."""
    if host.tools is None:
        from turnstone_worker.tools import Groups

        host.tools = Groups("%s.tools" % host.module.__name__, host)
    return host.tools


def _nearest_first(name, names):
    from difflib import get_close_matches

    near = get_close_matches(name, names, 5, 0.6)
    return near + sorted(set(names).difference(near))


class Host:
    """The host's functions, as far as the worker knows them."""

    def __init__(self, channel, calls):
        self.channel, self.calls = channel, calls
        self.revision = 0  # the revision of the functions in the module
        self.module = None
        self.functions = {}
        self.groups = {}  # the modules of groups that code has used, by name
        self.grouped = {}  # the functions of each group
        self.tools = None  # the module turnstone.tools
        self.display = {}  # display() and related functions, which every session has

    def refresh(self):
        """Brings the module up to date, unless this thread must not read the channel."""
        channel = self.channel
        if self.module is None or channel.forked:
            return
        from turnstone_worker.interrupt import is_inside

        if not is_inside(native_getframe(1)) and not channel.ending:
            channel.poll()
        offered = channel.functions
        if offered is None or offered["revision"] == self.revision:
            return
        from turnstone_worker import values

        entries = {}
        for entry in values.decode(offered["list"]):
            entries.setdefault(entry.get("group") or "", {})[entry["name"]] = entry
        grouped = {group: self._made(members) for group, members in entries.items()}
        functions = grouped.pop("", {})
        self.grouped = grouped
        for name, group in self.groups.items():
            group._renew(grouped.get(name, {}))
        space = self.module.__dict__
        for name in self.functions:
            space.pop(name, None)
        space.update(functions)
        self.functions, self.revision = functions, offered["revision"]
        if "inspect" in sys.modules:
            self.sign()

    def _made(self, entries):
        names = _names(list(entries))
        return {names[true]: make(entry, self.calls, self.module.__name__) for true, entry in entries.items()}

    def sign(self, inspect=None):
        for functions in (self.functions, *self.grouped.values()):
            for function in functions.values():
                sign(function)

    # ------------------------------------------------------------ groups

    def group_names(self):
        """Returns the names of all groups, open or not."""
        self.refresh()
        names = set(self.grouped)
        opener = self.functions.get("_open")
        if opener is not None:
            entry = opener.__dict__["turnstone"][0]
            names.update(entry["params"]["properties"]["group"]["enum"])
        return sorted(names)

    def group(self, name):
        """Returns the module of a group; None if there is no such group."""
        if name not in self.group_names():
            return None
        group = self.groups.get(name)
        if group is None:
            from turnstone_worker.tools import Group

            group = self.groups[name] = Group("%s.tools.%s" % (self.module.__name__, name), name, self)
            group._renew(self.grouped.get(name, {}))
        return group

    def open_group(self, name):
        """Makes the host open a group, unless it is open or no turn is running that could wait for it."""
        self.refresh()
        opener = self.functions.get("_open")
        if name not in self.grouped and opener is not None and self.channel.active and not self.channel.forked:
            opener(name)
            self.refresh()


host = None


class Finder:
    """Finds the module turnstone. If the user has a module of that name, finds turnstone_host instead."""

    module = NAME

    @staticmethod
    def find_spec(name, path=None, target=None):
        top, *below = name.split(".")
        if top not in (NAME, SPARE) or (path is None) == bool(below):
            return None
        if below:
            return Finder._below(name, below)
        for finder in sys.meta_path:
            if finder is Finder:
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None and spec.origin is not None:
                return spec  # a directory that is not a package does not count
        return ModuleSpec(name, Finder, origin="turnstone", is_package=True)

    @staticmethod
    def _below(name, below):
        """Finds turnstone.tools and submodules such as turnstone.tools.github."""
        if host.module is None or not name.startswith(host.module.__name__ + ".") or below[0] != "tools" or len(below) > 2:
            return None
        if not host.group_names() or len(below) == 2 and host.group(below[1]) is None:
            return None
        return ModuleSpec(name, Finder, origin="turnstone", is_package=len(below) == 1)

    @staticmethod
    def create_module(spec):
        names = spec.name.split(".")
        if len(names) == 2:
            return _tools()
        if len(names) == 3:
            return host.group(names[2])._opened()
        return Module(spec.name, "Functions of the host of this session. help(turnstone) lists them.")

    @staticmethod
    def exec_module(module):
        if "." in module.__name__:
            return
        if host.module is not None and host.module.__name__ != module.__name__:
            host.revision = 0  # the other name was imported first
        Finder.module = module.__name__
        host.module = module
        module.CallError, module.ToolError = CallError, tool_error()
        host.refresh()
        names = host.functions
        module.__doc__ = "Functions of the host of this session: %s." % (", ".join(sorted(names)) or "it offers none")


def install(channel, calls, display):
    """Installs the finder. display holds the module's functions besides the host's."""
    global host
    host = Host(channel, calls)
    host.display = display
    sys.meta_path.insert(0, Finder)
    imports.when("inspect", host.sign)
