"""Functions that show values of a type, as IPython keeps them. Libraries such as sympy register there what they show."""


class _Formatter:
    """The functions of one MIME type, by the types of values."""

    def __init__(self):
        self.type_printers = {}

    def for_type(self, kind, function=None):
        """Registers a function; returns the one before."""
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
    """What a library finds of IPython's shell."""

    colors = "LightBG"

    def __init__(self):
        self.display_formatter = self
        self.formatters = _Formatters()

    def show(self, bundle, value):
        """Adds what the functions for a value return to its bundle. Returns its text; None if there is none."""
        for mime, formatter in self.formatters.items():
            function = formatter.lookup(value) if mime != "text/plain" else None
            if function is not None:
                data = bundle.guarded(mime, function, value)
                if data is not None:
                    bundle.add(mime, data, mime)
        function = self.formatters["text/plain"].lookup(value)
        if function is None:
            return None
        text = _Text()
        try:
            function(value, text, False)
        except Exception:
            return None  # one that needs IPython for it
        return "".join(text.parts)


class _Text:
    """The printer that a function for text writes to."""

    def __init__(self):
        self.parts = []
        self.text = self.parts.append
