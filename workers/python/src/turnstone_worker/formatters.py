"""Functions that show values of a type, in IPython's form. Libraries such as sympy register theirs here.

A value's method _repr_pretty_ serves the same purpose: it writes the value's text to a printer.
"""


class _Formatter:
    """The functions of one MIME type, by the types of values."""

    def __init__(self):
        self.type_printers = {}

    def for_type(self, kind, function=None):
        """Registers a function and returns the previous one."""
        old = self.type_printers.get(kind)
        if function is not None:
            self.type_printers[kind] = function
        return old

    def lookup(self, value):
        return next((self.type_printers[kind] for kind in type(value).__mro__ if kind in self.type_printers), None)


class _Formatters(dict):
    def __missing__(self, mime):
        self[mime] = formatter = _Formatter()
        return formatter


class Shell:
    """The part of IPython's shell that libraries use."""

    colors = "LightBG"

    def __init__(self):
        self.display_formatter = self
        self.formatters = _Formatters()

    def show(self, bundle, value):
        """Adds the results of the functions for a value to its bundle. Returns the value's text; None if there is none."""
        for mime, formatter in self.formatters.items():
            function = formatter.lookup(value) if mime != "text/plain" else None
            if function is not None:
                data = bundle.guarded(mime, function, value)
                if data is not None:
                    bundle.add(mime, data, mime)
        function = self.formatters["text/plain"].lookup(value)
        if function is None:
            return None
        return printed(function, value)


def printed(function, value):
    """Returns the text that a function writes for a value; None if it needs parts of IPython that are missing here."""
    printer = _Printer()
    try:
        function(value, printer, False)
        return "".join(printer.parts)
    except Exception:
        return None


class _Group:
    """A context manager for a group in a printer's output."""

    def __init__(self, printer, indent, open, close):
        self.printer, self.indentation, self.open, self.close = printer, indent, open, close

    def __enter__(self):
        self.printer.begin_group(self.indentation, self.open)

    def __exit__(self, *error):
        self.printer.end_group(self.indentation, self.close)


class _Printer:
    """The printer to which a function for text writes: like IPython's, but without line breaking."""

    def __init__(self):
        self.parts = []
        self.text = self.parts.append
        self.indentation = 0

    def breakable(self, sep=" "):
        self.text(sep)

    def break_(self):
        self.text("\n" + " " * self.indentation)

    def begin_group(self, indent=0, open=""):
        self.text(open)
        self.indentation += indent

    def end_group(self, dedent=0, close=""):
        self.indentation -= dedent
        self.text(close)

    def group(self, indent=0, open="", close=""):
        return _Group(self, indent, open, close)

    def indent(self, indent):
        return self.group(indent)

    def pretty(self, value):
        function = getattr(type(value), "_repr_pretty_", None)
        text = printed(function, value) if function is not None else None
        self.text(repr(value) if text is None else text)
