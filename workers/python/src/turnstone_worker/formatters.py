"""Functions that show values of a type, in IPython's form. Libraries such as sympy register theirs here."""
from turnstone_worker.pretty import printed


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
