"""Modules of the user's whose files have changed since they were imported.

An agent edits a file and runs the old code: Python does not say so. At the end of a turn
what it has imported is looked at, at the start of the next one the files are. Nothing is
done while nobody runs code.
"""
import os
import sys
from types import ModuleType

_FILES = 200  # at most are watched; modules that are imported later are not
_NAMED = 5  # in one line
_library = os.path.dirname(os.__file__) + os.sep


class Imported:
    def __init__(self):
        self.count = 0  # of modules, at the last check
        self.seen = set()  # their names
        self.files = {}  # [path, path within the working directory, state] by the name of a module

    def look(self):
        """Notes which modules have been imported."""
        if len(sys.modules) == self.count:
            return
        self.count = len(sys.modules)
        try:
            here = os.getcwd() + os.sep
        except OSError:
            return
        for name, module in list(sys.modules.items()):
            if name in self.seen or type(name) is not str:
                continue
            self.seen.add(name)
            path = vars(module).get("__file__") if type(module) is ModuleType else None
            if type(path) is str and path.startswith(here) and path.endswith(".py") and len(self.files) < _FILES:
                if not path.startswith(_library) and not {"site-packages", "dist-packages"}.intersection(path.split(os.sep)):
                    self.files[name] = [path, path[len(here) :], _state(path)]

    def changed(self):
        """A line that names changed modules, once for each change; None if there are none."""
        found = []
        for name, file in list(self.files.items()):
            if name not in sys.modules:
                del self.files[name]
                self.seen.discard(name)
                self.count = 0
                continue
            state = _state(file[0])
            if state is not None and state != file[2]:
                file[2] = state
                found.append((file[1], name))
        if not found:
            return None
        if len(found) == 1:
            return "[%s changed since it was imported: importlib.reload(%s) takes it in]" % found[0]
        names = ", ".join(path for path, _ in found[:_NAMED])
        if len(found) > _NAMED:
            names += " and %d more" % (len(found) - _NAMED)
        return "[%s changed since they were imported: importlib.reload() takes each in]" % names


def _state(path):
    try:
        st = os.stat(path)
    except OSError:
        return None
    return st.st_mtime_ns, st.st_size
