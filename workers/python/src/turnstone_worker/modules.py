"""The worker's modules, which are separate from those of user code.

Libraries that patch all modules of sys.modules, such as pyfakefs and freezegun, do not find them.
They have separate builtins, because user code may damage Python's. They also have copies of the
modules that tests often patch, made before any user code ran. boot.py runs this module first.
"""
import sys
from _thread import RLock

_PACKAGE = "turnstone_worker"
_COPIED = ("errno", "io", "os", "select", "time")
_Module = type(sys)

_codes = {}  # by module name
_modules = {}  # the modules that have been run
_loading = RLock()
_builtins = __builtins__  # boot.py has given this module a copy
_native = _builtins["__import__"]
_package = _Module(_PACKAGE)
_copies = {}


def _import(name, globals=None, locals=None, fromlist=(), level=0):
    """Implements __import__ for the worker's modules, which import each other only with from."""
    copy = _copies.get(name)
    if copy is not None:
        return copy
    package, _, module = name.partition(".")
    if package != _PACKAGE:
        return _native(name, globals, locals, fromlist, level)
    if module:
        return _load(module)
    for module in fromlist:
        setattr(_package, module, _load(module))
    return _package


def _load(name):
    with _loading:
        module = _modules.get(name)
        if module is None:
            module = _modules[name] = _Module("%s.%s" % (_PACKAGE, name))
            module.__builtins__ = _builtins
            try:
                exec(_codes[name], module.__dict__)
            except BaseException:
                del _modules[name]  # an interrupt may come again
                raise
        return module


def start(codes):
    """Returns the module main. codes holds the code of all modules, by name."""
    _codes.update(codes)
    for name in _COPIED:
        _copies[name] = copy = _Module(name)
        copy.__dict__.update(vars(_native(name)))
    _builtins["__import__"] = _import
    return _load("main")
