"""Imports: the worker's own, and patches of modules that user code imports."""
import builtins
import os
import sys

_library = os.path.dirname(os.__file__)
_patches = {}

ERRORS = ["linecache", "traceback", "ast", "unicodedata", "_colorize", "_suggestions"]


def quietly(name):
    """Imports a module of the standard library, even if the working directory has one of that name."""
    module = sys.modules.get(name)
    if module is not None:
        return module
    path = sys.path[:]
    try:
        here = ("", ".", os.getcwd())
    except OSError:
        here = ("", ".")
    try:
        sys.path[:] = [p for p in path if p not in here or p == _library]
        __import__(name)
        return sys.modules[name]
    finally:
        sys.path[:] = path


def for_errors():
    """The modules for reporting an error. traceback itself would import some of them late, from the user's path."""
    for name in ERRORS:
        if_there(name)


def if_there(name):
    try:
        quietly(name)
    except ImportError:
        pass  # this Python has none


def when(name, patch):
    """Calls patch(module) once the module called name is imported; now, if it is."""
    module = sys.modules.get(name)
    if module is not None:
        patch(module)
    else:
        _patches.setdefault(name, []).append(patch)


class Finder:
    """Stands first on sys.meta_path, and lets the other finders find the modules that have a patch."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in _patches:
            return None
        for finder in sys.meta_path:
            if finder is Finder:
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                break
        else:
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
