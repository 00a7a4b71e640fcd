"""The worker's compiled code on disk. The file passes the checks that boot.py makes before reading it."""
import marshal
import os

from turnstone_worker import system

_KEPT = 16  # files: one for each Python and version of the worker


def write(path, codes):
    """Stores codes at path, completely or not at all. It stores nothing unless the directory is private to the user."""
    directory = os.path.dirname(path)
    new = "%s/new-%d" % (directory, os.getpid())
    there = directory
    while not os.path.lexists(there) and there != os.path.dirname(there):
        there = os.path.dirname(there)
    if not os.access(there, os.W_OK):
        return  # not even tried, because a sandbox would report the attempt to its user
    try:
        os.makedirs(directory, 0o700, exist_ok=True)
        if not system.is_private(os.lstat(directory)):
            return
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | system.O_QUIET, 0o600)
        try:
            with open(fd, "wb") as f:
                f.write(marshal.dumps(codes))
            os.replace(new, path)
        except BaseException:
            os.unlink(new)
            raise
        _prune(directory)
    except OSError:
        pass


def _prune(directory):
    entries = [e for e in os.scandir(directory) if e.name.startswith(("worker-", "new-"))]
    entries.sort(key=lambda e: e.stat().st_mtime)
    for e in entries[:-_KEPT]:
        os.unlink(e.path)
