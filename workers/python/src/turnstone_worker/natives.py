"""Replacements for Python's own functions, which look like the originals."""

_KIND = type(len)
_LOOKS = ("__name__", "__qualname__", "__module__", "__doc__")


def resemble(function, native):
    """Makes a function look like a native one. inspect finds the parameters and the source through __wrapped__."""
    for name in _LOOKS:
        setattr(function, name, getattr(native, name))
    function.__wrapped__ = native
    return function


class Builtin:
    """A replacement for a C function. As an attribute of a class it does not become a method."""

    @property
    def __class__(self):
        return _KIND

    def __repr__(self):
        return repr(self._native)

    def __reduce__(self):
        return self.__name__


Builtin.__module__, Builtin.__name__, Builtin.__qualname__ = "builtins", _KIND.__name__, _KIND.__qualname__


def builtin(native, call):
    """Returns a replacement for a C function. call is the function that it calls, or a
    property that has the function."""
    if not isinstance(call, property):
        call.__name__, call.__qualname__ = native.__name__, native.__qualname__  # errors show these names
        call = staticmethod(call)
    replaced = type(_KIND.__name__, (Builtin,), {"__module__": "builtins", "__call__": call})()
    for name in _LOOKS + ("__text_signature__", "__self__"):
        setattr(replaced, name, getattr(native, name))
    replaced._native = native
    return replaced


def replace(module, native, call):
    """Replaces a C function, also in the C module that defines it."""
    replaced = builtin(native, call)
    for owner in (module, native.__self__):
        setattr(owner, native.__name__, replaced)
