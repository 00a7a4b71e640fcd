"""The text of a value in IPython's form: a container that is too wide for a line has one line for each element.

A function for a value's text, such as its method _repr_pretty_, writes to a Printer.
"""
from turnstone_worker import imports

_WIDTH = 79
_MOST = 1000  # elements of a container that are shown
_NAMELESS = (None, "builtins", "exceptions")


class _Break:
    """A place where a line may end."""

    def __init__(self, sep, indentation):
        self.sep, self.indentation = sep, indentation


class _Group:
    """Text, groups and breaks. Either all breaks of a group end a line, or none. It is also its own context manager."""

    def __init__(self, printer=None, indent=0, open="", close=""):
        self.printer, self.indent, self.open, self.close = printer, indent, open, close
        self.items, self.width, self.is_broken = [], 0, False

    def __enter__(self):
        self.printer._begin(self)

    def __exit__(self, *error):
        self.printer.end_group(self.indent, self.close)


class Printer:
    """Like IPython's printer. Without a width, lines end only where a text has several."""

    def __init__(self, width=None):
        self.max_width = width
        self.indentation = 0
        self.output = []
        self.groups = [_Group()]
        self.stack = []  # of the values that are being written

    # ------------------------------------------------------------ what functions call

    def text(self, text):
        self.groups[-1].items.append(text)
        self.groups[-1].width += len(text)

    def breakable(self, sep=" "):
        self.groups[-1].items.append(_Break(sep, self.indentation))
        self.groups[-1].width += len(sep)

    def break_(self):
        for group in self.groups:
            group.is_broken = True
        self.groups[-1].items.append(_Break(None, self.indentation))

    def begin_group(self, indent=0, open=""):
        self._begin(_Group(self, indent, open))

    def end_group(self, dedent=0, close=""):
        self.indentation -= dedent
        if close:
            self.text(close)
        if len(self.groups) > 1:
            done = self.groups.pop()
            self.groups[-1].items.append(done)
            self.groups[-1].width += done.width

    def group(self, indent=0, open="", close=""):
        return _Group(self, indent, open, close)

    def indent(self, indent):
        return self.group(indent)

    def pretty(self, value):
        """Writes a value: by the function of its class, or else its repr."""
        if any(value is one for one in self.stack):
            return self._write_cycle(value)
        self.stack.append(value)
        try:
            for kind in type(value).__mro__:
                write = (_WRITERS.get(kind) or _CALLS.get((kind.__module__, kind.__name__))) if self.max_width else None
                own = vars(kind).get("_repr_pretty_")
                if write is not None and write(self, value, kind):
                    return
                if callable(own):
                    text = printed(own, value, self.max_width)
                    return self._lines(repr(value) if text is None else text)
                if kind is not object and "__repr__" in vars(kind):
                    break
            self._lines(repr(value))
        finally:
            self.stack.pop()

    # ------------------------------------------------------------ text and layout

    def _begin(self, group):
        self.groups.append(group)
        if group.open:
            self.text(group.open)
        self.indentation += group.indent

    def _write_cycle(self, value):
        for kind, text in ((list, "[...]"), (tuple, "(...)"), (dict, "{...}")):
            if isinstance(value, kind):
                return self.text(text)
        self.text("...")

    def _lines(self, text):
        """Writes a text of several lines, which are indented as the first one."""
        for n, line in enumerate(text.splitlines() if self.max_width else (text,)):
            if n:
                self.break_()
            self.text(line)

    def elements(self, open, values, close, write=None):
        """Writes a group of elements with commas between them."""
        self.begin_group(len(open), open)
        for n, one in enumerate(values):
            if n:
                self.text(",")
                self.breakable()
            if n == _MOST:
                self.text("...")
                break
            (write or self.pretty)(one)
        self.end_group(len(open), close)

    def finish(self):
        """Returns the text."""
        while len(self.groups) > 1:
            self.end_group()
        self._lay_out(self.groups[0], 0, 0)
        return "".join(self.output)

    def _lay_out(self, group, column, following):
        """Writes a group at a column; following is the width of the text between it and the next break. Returns the column after it."""
        is_broken = group.is_broken or self.max_width is not None and column + group.width + following > self.max_width
        items = group.items
        for n, item in enumerate(items):
            if isinstance(item, _Group):
                rest = 0
                for after in range(n + 1, len(items)):
                    if not isinstance(items[after], str):
                        break
                    rest += len(items[after])
                else:
                    rest += following
                column = self._lay_out(item, column, rest)
            elif isinstance(item, str):
                self.output.append(item)
                column += len(item)
            elif item.sep is None or is_broken and self.max_width is not None:
                self.output.append("\n" + " " * item.indentation)
                column = item.indentation
            else:
                self.output.append(item.sep)
                column += len(item.sep)
        return column


def printed(function, value, width=None):
    """Returns the text that a function writes for a value; None if it needs parts of IPython that are missing here."""
    printer = Printer(width)
    printer.stack.append(value)
    try:
        function(value, printer, False)
        return printer.finish()
    except Exception:
        return None


def text(value):
    """Returns the text of a value for a notebook."""
    printer = Printer(_WIDTH)
    try:
        printer.pretty(value)
        return printer.finish()
    except RecursionError:
        return repr(value)


# ---------------------------------------------------------------- the values of the language


def _sequence(open, close):
    def write(printer, value, kind):
        if type(value).__repr__ is not kind.__repr__:
            return False
        printer.elements(open, value, "," + close if kind is tuple and len(value) == 1 else close)
        return True

    return write


def _set(open, close):
    def write(printer, value, kind):
        if type(value).__repr__ is not kind.__repr__ or not value:
            return False
        items = value
        if len(value) < _MOST:
            try:
                items = sorted(value)
            except Exception:
                pass  # its elements have no order
        printer.elements(open, items, close)
        return True

    return write


def _dict(printer, value, kind):
    if type(value).__repr__ is not kind.__repr__:
        return False

    def write(key):
        printer.pretty(key)
        printer.text(": ")
        printer.pretty(value[key])

    printer.elements("{", value, "}", write)
    return True


def _class(printer, value, kind):
    if "__repr__" in vars(type(value)) and type(value) is not type:
        return False
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", value.__name__)
    printer.text(name if module in _NAMELESS or not isinstance(module, str) else "%s.%s" % (module, name))
    return True


def _function(printer, value, kind):
    """Writes the name of a function with its parameters."""
    name = value.__qualname__
    if isinstance(value.__module__, str) and value.__module__ not in _NAMELESS:
        name = "%s.%s" % (value.__module__, name)
    try:
        name += str(imports.quietly("inspect").signature(value))
    except ValueError:
        pass  # some functions in C do not tell their parameters
    printer.text("<function %s>" % name)
    return True


def _call(arguments):
    """Returns a writer that writes a value as a call of its class."""

    def write(printer, value, kind):
        if type(value).__repr__ is not kind.__repr__:
            return False
        printer.elements(type(value).__name__ + "(", arguments(value), ")")
        return True

    return write


_WRITERS = {
    list: _sequence("[", "]"),
    tuple: _sequence("(", ")"),
    set: _set("{", "}"),
    frozenset: _set("frozenset({", "})"),
    dict: _dict,
    type: _class,
    type(_call): _function,
    type(len): _function,
}
_CALLS = {  # by module and name, because they need not be imported
    ("collections", "Counter"): lambda value: (dict(value.most_common()),) if value else (),
    ("collections", "OrderedDict"): lambda value: (list(value.items()),) if value else (),
    ("collections", "defaultdict"): lambda value: (value.default_factory, dict(value)),
}
_CALLS = {name: _call(arguments) for name, arguments in _CALLS.items()}
