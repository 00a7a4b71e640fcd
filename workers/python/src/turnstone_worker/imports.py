"""Imports: the worker's own, and patches of modules that user code imports."""
import builtins
import os
import sys
from _frozen_importlib_external import PathFinder
from _thread import get_ident

_library = os.path.dirname(os.__file__)
_names = getattr(sys, "stdlib_module_names", frozenset())  # before 3.10, error reports import only ERRORS
_patches = {}
_library_first = set()  # threads

ERRORS = ["linecache", "traceback", "ast", "unicodedata", "_colorize", "_suggestions"]


def quietly(name):
    """Imports a module of the standard library, even if the working directory has one of that name."""
    module = sys.modules.get(name)
    if module is not None:
        return module
    path = sys.path[:]
    try:
        sys.path[:] = _elsewhere()
        __import__(name)
        return sys.modules[name]
    finally:
        sys.path[:] = path


def _elsewhere():
    """Returns sys.path without the working directory."""
    try:
        here = ("", ".", os.getcwd())
    except OSError:
        here = ("", ".")
    return [p for p in sys.path if p not in here or p == _library]


def library_first(call, *args, **kwargs):
    """Calls a function of the standard library. While it runs, this thread imports modules of the
    library from the library, never from the working directory."""
    thread = get_ident()
    outer = thread in _library_first
    _library_first.add(thread)
    try:
        return call(*args, **kwargs)
    finally:
        if not outer:
            _library_first.discard(thread)


def for_errors():
    """Imports the modules for reporting an error."""
    for name in ERRORS:
        if_there(name)


def if_there(name):
    try:
        quietly(name)
    except ImportError:
        pass  # this Python lacks the module


def when(name, patch):
    """Calls patch(module) once the module called name is imported; at once if it already is."""
    module = sys.modules.get(name)
    if module is not None:
        patch(module)
    else:
        _patches.setdefault(name, []).append(patch)


class Finder:
    """The first finder on sys.meta_path. It lets the other finders find modules that have a patch,
    and PathFinder those that must come from the library."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        spec = None
        if path is None and name in _names and get_ident() in _library_first:
            spec = PathFinder.find_spec(name, _elsewhere(), target)
        if name not in _patches:
            return spec
        for finder in sys.meta_path:
            if spec is not None:
                break
            if finder is not Finder:
                spec = finder.find_spec(name, path, target)
        if spec is None:
            return None
        execute = getattr(spec.loader, "exec_module", None)
        if execute is None:
            return spec

        def exec_module(module):
            execute(module)
            for patch in _patches.pop(name, ()):
                try:
                    patch(module)
                except Exception:
                    pass  # perhaps another version: user code gets it unpatched

        try:
            spec.loader.exec_module = exec_module
        except AttributeError:
            pass
        return spec
