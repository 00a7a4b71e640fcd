"""Patches for libraries that read source code from files, so that they get the source of inputs."""
import sys
from types import SimpleNamespace

from turnstone_worker import imports
from turnstone_worker.natives import resemble


def install(sources):
    """Installs the patches. sources holds the linecache entries of inputs, by file name."""
    for name, teach in (
        ("dill.source", _dill),
        ("joblib.func_inspect", _joblib),
        ("line_profiler.line_profiler", _line_profiler),
        ("loguru._better_exceptions", _loguru),
        ("numba.core.caching", _numba),
        ("pysnooper.tracer", _pysnooper),
        ("rich.traceback", _rich),
        ("typeguard._decorators", _typeguard),
    ):
        imports.when(name, lambda module, teach=teach: teach(module, sources))


def _dill(module, sources):
    """Stops dill from taking readline's history for the source of __main__, which it does if __main__ has no file."""
    native = module.getfile

    def getfile(object):
        return "<cell>" if sources and object is sys.modules.get("__main__") else native(object)

    module.getfile = resemble(getfile, native)


def _joblib(module, sources):
    """Makes joblib.Memory treat a function that is sent again as the same one, although it comes from another input."""
    native = module.get_func_name

    def get_func_name(*args, **options):
        path, name = native(*args, **options)
        cells = {"-" + cell: "-<cell>" for cell in sources}
        return [next((p[: -len(c)] + cells[c] for c in cells if p.endswith(c)), p) for p in path], name

    module.get_func_name = get_func_name
    for user in ("joblib.memory", "joblib._store_backends"):
        if getattr(sys.modules.get(user), "get_func_name", None) is native:
            sys.modules[user].get_func_name = get_func_name


def _line_profiler(module, sources):
    for name in ("is_ipython_kernel_cell", "is_generated_code"):
        native = getattr(module, name, None)
        if native is not None:
            setattr(module, name, lambda filename, native=native: filename in sources or native(filename))


def _numba(module, sources):
    """Keys the cache of functions of inputs by their source, as in IPython."""

    class CellCacheLocator(module.IPythonCacheLocator):
        def get_cache_path(self):
            return module.os.path.join(module.AppDirs(appname="numba", appauthor=False).user_cache_dir, "cells")

        @classmethod
        def from_function(cls, function, name):
            if name not in sources:
                return None
            locator = cls(function, name)
            try:
                locator.ensure_cache_path()
            except OSError:
                return None
            return locator

    kind = getattr(module, "CacheImpl", None) or module._CacheImpl
    kind._locator_classes.append(CellCacheLocator)


def _pysnooper(module, sources):
    native = module.get_path_and_source_from_frame

    def get_path_and_source_from_frame(frame):
        name = frame.f_code.co_filename
        if name not in sources:
            return native(frame)
        return name, [line.rstrip("\n") for line in sources[name][2]]

    module.get_path_and_source_from_frame = resemble(get_path_and_source_from_frame, native)


def _loguru(module, sources):
    """Removes the worker's frames from the stack that loguru shows for a logged error."""
    native = module.ExceptionFormatter._extract_frames

    def extract(self, *args, **options):
        frames, source = native(self, *args, **options)
        below = max((i + 1 for i, frame in enumerate(frames) if frame[0].startswith("<turnstone_worker/")), default=0)
        return frames[below:], source

    module.ExceptionFormatter._extract_frames = resemble(extract, native)


class _Name(str):
    """The name of an input, in a form that rich does not take for code without a source."""

    def startswith(self, *args):
        return False


def _rich(module, sources):
    native = module.Traceback.extract.__func__

    def extract(cls, *args, **options):
        trace = native(cls, *args, **options)
        for stack in trace.stacks:
            for frame in stack.frames:
                if frame.filename in sources:
                    frame.filename = _Name(frame.filename)
        return trace

    module.Traceback.extract = classmethod(resemble(extract, native))


def _typeguard(module, sources):
    """Gives typeguard the source of an input, because it compiles functions again from the source of their module."""
    native, inspect = module.instrument, module.inspect

    def instrument(function):
        lines = sources.get(getattr(getattr(function, "__code__", None), "co_filename", None))
        if lines is None:
            return native(function)
        module.inspect = SimpleNamespace(getsource=lambda module: "".join(lines[2]))
        try:
            return native(function)
        finally:
            module.inspect = inspect

    module.instrument = resemble(instrument, native)
