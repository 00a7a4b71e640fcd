"""Discovery of the program repl, which a private supervisor is."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from typing import List, Optional

from .errors import TurnstoneError

DISTRIBUTION = "turnstone-repl"  # the wheel with the program, which pip installs with turnstone-client[repl]
VARIABLE = "TURNSTONE_REPL"


def find_program(given: Optional[str] = None) -> str:
    """Return the path of repl: the given one, that of TURNSTONE_REPL, of the installed wheel, or of PATH."""
    for path, what in ((given, "repl=%r" % given), (os.environ.get(VARIABLE), "%s=%r" % (VARIABLE, os.environ.get(VARIABLE)))):
        if path:
            found = shutil.which(path)
            if found is None:
                raise TurnstoneError("unreachable", "%s is not a program that can be started" % what)
            return os.path.abspath(found)
    for path in _installed() + [shutil.which("repl") or ""]:
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return os.path.abspath(path)
    raise TurnstoneError("unreachable", "the program repl is not installed next to %s and not in PATH: run pip install %r, or pass its path as repl=" % (sys.executable or "this Python", "turnstone-client[repl]"))


def _installed() -> List[str]:
    """Return where pip may have installed the program: where the record of the wheel says, or the usual directories."""
    try:
        from importlib import metadata

        distribution = metadata.distribution(DISTRIBUTION)
    except Exception:  # not installed, or a broken installation
        return []
    name = "repl.exe" if os.name == "nt" else "repl"
    recorded = [os.fspath(distribution.locate_file(file)) for file in distribution.files or [] if file.name == name]
    packages = os.fspath(distribution.locate_file(""))
    directories = [sysconfig.get_path("scripts"), os.path.join(packages, "bin"), os.path.join(packages, *[os.pardir] * 3, "bin")]
    return recorded + [os.path.join(directory, name) for directory in directories]
