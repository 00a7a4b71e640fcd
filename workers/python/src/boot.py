# The program that a worker is started with: python {files}/boot.py CACHE DIGEST [option=value ...]
# With the option compile, it only writes the compiled code to a directory. It loads the worker's
# modules from its own directory, or their compiled code from CACHE, and runs them. No interpreter
# flag is used, because each disables something that a user may rely on. It is a file and not -c
# text, so that nothing is imported from the working directory before this program can prevent it.
# Every version of Python can parse it, so that a Python that is too old can report that.
import sys


def _boot():
    if sys.version_info < (3, 8):
        sys.stderr.write("turnstone: Python 3.8 or newer is needed, %s is %s\n" % (sys.executable, sys.version.split()[0]))
        sys.exit(3)
    import marshal
    import os
    from _frozen_importlib_external import MAGIC_NUMBER

    # A select.py in the working directory must not become a part of the worker.
    # Before user code runs, the path is set to that of an interactive Python.
    files = os.path.dirname(os.path.abspath(__file__))
    path = sys.path[:]
    if not getattr(sys.flags, "safe_path", False):
        path[0] = ""
    try:
        here = ("", ".", os.getcwd())
    except OSError:
        here = ("", ".")
    library = os.path.dirname(os.__file__)
    sys.path[:] = [p for p in path if p not in here or p == library]

    cache, digest = sys.argv[1:3]
    options = dict(a.split("=", 1) for a in sys.argv[3:])
    name = "worker-%s-%s-%s" % (sys.implementation.cache_tag, MAGIC_NUMBER[:2].hex(), digest)
    entry = cache and cache + "/" + name

    def cached():
        """Returns the modules' code from the cache, or None if another user may have written it."""
        shared = os.name != "nt"  # on Windows, the user's cache directory belongs to the user
        user = shared and os.geteuid()
        d = os.lstat(cache)
        if shared and (d.st_uid != user or d.st_mode & 0o170077 != 0o040000):
            return None
        flags = os.O_NOFOLLOW | os.O_CLOEXEC if shared else os.O_BINARY | os.O_NOINHERIT
        fd = os.open(entry, os.O_RDONLY | flags)
        try:
            f = os.fstat(fd)
            if f.st_size > 4 << 20 or shared and (f.st_uid != user or f.st_mode & 0o170077 != 0o100000):
                return None
            data = b""
            while len(data) < f.st_size:
                more = os.read(fd, f.st_size - len(data))
                if not more:
                    return None
                data += more
        finally:
            os.close(fd)
        return marshal.loads(data)

    def compiled():
        codes = {}
        for name in sorted(os.listdir(files)):
            if name.endswith(".py") and name != os.path.basename(__file__):
                # Warnings are not attributed to a file whose name has these two words. No tool
                # takes a name in angle brackets for a user's file.
                file = "<turnstone_worker/%s: importlib._bootstrap>" % name
                with open(os.path.join(files, name), "rb") as f:
                    codes[name[:-3]] = compile(f.read(), file, "exec", dont_inherit=True)
        return codes

    if "compile" in options:
        with open(options["compile"] + "/" + name, "wb") as f:
            marshal.dump(compiled(), f)
        sys.exit()
    codes = None
    try:
        codes = cached() if entry else None
    except Exception:
        pass  # no cache yet, or a damaged one
    save = None
    if codes is None:
        codes, save = compiled(), entry

    modules = {"__name__": "turnstone_worker.modules", "__builtins__": dict(vars(sys.modules["builtins"]))}
    exec(codes["modules"], modules)
    main = modules["start"](codes)
    return main.Worker(options, path, save, codes)


# In a separate namespace, so that the worker does not keep the user's namespace alive at the end.
type(_boot)(_boot.__code__, dict(globals(), _boot=None))().live()
