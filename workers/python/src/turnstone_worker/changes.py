"""The user's modules whose files have changed since they were imported.

An agent may edit a file and then run the old code, which Python does not report. So the end of each
turn checks the files of imported modules, except those that the turn has imported again. Nothing is
checked while no code runs.
"""
import os
import sys
from types import ModuleType

_FILES = 200  # at most this many are watched; modules that are imported later are not
_NAMED = 5  # named in one notice
_library = os.path.dirname(os.__file__) + os.sep


class _File:
    """The file of a module, as it was when the module was imported, or when its change was reported."""

    def __init__(self, module, path, shown):
        self.path, self.shown = path, shown
        self.spec = _spec(module)
        self.state = _imported_state(self.spec) or _state(path)


class Imported:
    def __init__(self):
        self.count = 0  # number of modules at the last check
        self.seen = set()  # their names
        self.files = {}  # by the names of modules

    def changed(self):
        """Returns a line that names modules whose change was not reported yet; None if there are none."""
        found = []
        for name, file in list(self.files.items()):
            module = sys.modules.get(name)
            if module is None:
                del self.files[name]
                self.seen.discard(name)
                self.count = 0
                continue
            if _spec(module) is not file.spec:
                file = self.files[name] = _File(module, file.path, file.shown)  # it was imported again
            self._check(name, file, found)
        if len(sys.modules) != self.count:
            self._look(found)
        if not found:
            return None
        if len(found) == 1:
            return "[%s changed since it was imported: importlib.reload(%s) takes it in]" % found[0]
        names = ", ".join(path for path, _ in found[:_NAMED])
        if len(found) > _NAMED:
            names += " and %d more" % (len(found) - _NAMED)
        return "[%s changed since they were imported: importlib.reload() takes each in]" % names

    def _check(self, name, file, found):
        state = _state(file.path)
        if state is not None and state != file.state:
            file.state = state
            found.append((file.shown, name))

    def _look(self, found):
        """Records which modules have been imported."""
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
                    self.files[name] = file = _File(module, path, path[len(here) :])
                    self._check(name, file, found)


def _spec(module):
    """Returns the object that each import of a module creates anew."""
    return vars(module).get("__spec__") if isinstance(module, ModuleType) else module


def _state(path):
    try:
        st = os.stat(path)
    except OSError:
        return None
    return int(st.st_mtime) & 0xFFFFFFFF, st.st_size & 0xFFFFFFFF, st.st_mtime_ns


def _imported_state(spec):
    """Returns the state of the imported source, as recorded in Python's compiled file. The file
    itself may be newer, because code may import a module and then write its file in one turn.
    Returns None if that file is missing or may be out of date."""
    try:
        if sys.dont_write_bytecode or not os.access(os.path.dirname(spec.cached), os.W_OK):
            return None  # it may be older
        with open(spec.cached, "rb") as f:
            head = f.read(16)
    except (AttributeError, OSError, TypeError):
        return None
    if len(head) < 16 or head[4:8] != b"\0\0\0\0":  # it has a hash instead of a time
        return None
    state = int.from_bytes(head[8:12], "little"), int.from_bytes(head[12:16], "little")
    now = _state(spec.origin)
    return now if now is not None and now[:2] == state else state
