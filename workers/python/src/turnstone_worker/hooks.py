"""Actions around fork, exec and spawn, and changes to some modules of the standard library."""
import os
import sys
from _functools import partial
from _signal import SIGINT
from time import monotonic

from turnstone_worker import frames, imports, libraries, system, terminal
from turnstone_worker.interrupt import critical
from turnstone_worker.natives import replace, resemble

_NEWBORN = 0.1  # seconds: an interrupt sends all its signals to a shell younger than this, and to its group


def install(worker):
    def flush():
        worker.streams.flush()
        worker.interrupts.catch_up()

    python_os = sys.modules["os"]  # the worker's own os is a copy
    frames.install()
    terminal.one_write()
    _system(worker)
    _before(python_os, "posix_spawn", flush)
    _before(python_os, "posix_spawnp", flush)
    _before(python_os, "execv", flush)
    _before(python_os, "execve", flush)
    if system.FORKS:
        import _posixsubprocess

        _before(_posixsubprocess, "fork_exec", flush)
        worker.interrupts.cut_off = worker.forked
        os.register_at_fork(before=flush, after_in_child=worker.forked)
    else:
        import _winapi

        _before(_winapi, "CreateProcess", flush)
        _before(python_os, "spawnv", flush)
        _before(python_os, "spawnve", flush)
    system.break_waits()

    imports.when("subprocess", _subprocess)
    imports.when("asyncio", worker.cells.loops.teach)
    imports.when("linecache", worker.cells.teach_linecache)
    imports.when("inspect", worker.cells.teach)
    imports.when("threading", lambda threading: _threading(threading, worker.cells.report_thread))
    libraries.install(worker.cells.sources)
    if sys.version_info < (3, 13):
        worker.cells.teach_excepthook()
    imports.when("bdb", frames.teach_bdb)
    imports.when("traceback", frames.teach_traceback)
    imports.when("warnings", frames.teach_warnings)
    imports.when("inspect", frames.teach_inspect)
    imports.when("getpass", lambda getpass: _getpass(getpass, worker))
    imports.when("matplotlib.pyplot", worker.display.teach)
    imports.when("IPython.core.display_functions", worker.display.teach_ipython)
    imports.when("PIL.ImageShow", worker.display.teach_pillow)
    imports.when("sympy.interactive.printing", worker.display.teach_sympy)
    imports.when("plotly.io._renderers", worker.display.teach_plotly)
    imports.when("bokeh.io.showing", worker.display.teach_bokeh)
    imports.when("comm", worker.display.comms.teach)
    imports.when("multiprocessing.context", _multiprocessing)
    sys.meta_path.insert(0, imports.Finder)


def _system(worker):
    native = os.system
    run = partial(_shell, worker.interrupts) if system.FORKS else native

    def run_in_shell(command):
        worker.streams.flush()
        worker.interrupts.catch_up()
        status = run(command)
        worker.interrupts.check()  # a SIGINT may have waited until now
        return status

    replace(sys.modules["os"], native, run_in_shell)


@critical
def _shell(interrupts, command):
    """Does the same as system(3), but passes on an interrupt that comes before the shell has started."""
    sys.audit("os.system", command)
    subprocess = imports.quietly("subprocess")
    late = None
    try:
        # With a directory, the shell gets the environment of C code, including changes by
        # os.putenv.
        shell = subprocess.Popen(("/bin/sh", "-c", os.fsencode(command)), close_fds=False, restore_signals=False, cwd=".")
    except OSError:
        return -1
    born, hit, echo = monotonic(), 0, False

    def pass_on():
        # Until its program runs, a shell or its fork may catch a signal and lose it.
        nonlocal hit, echo
        echo = not echo  # this process is in the group, so every second signal comes from this function
        if echo and shell.returncode is None and interrupts.is_wanted():
            hit = hit or monotonic()
            if hit - born < _NEWBORN:
                os.killpg(0, SIGINT)
                return
        echo = False

    while shell.returncode is None:
        try:
            if interrupts.running and not interrupts.channel.mute:
                interrupts.pass_on = pass_on
                if interrupts.deferred:
                    pass_on()
            shell.returncode = os.waitpid(shell.pid, 0)[1]
        except OSError:
            shell.returncode = -1  # it was reaped elsewhere
        except BaseException as e:
            late = e  # from a user's handler; like system(3), continue to wait
    interrupts.pass_on = None
    if late is not None:
        raise late
    return shell.returncode


def _before(module, name, action):
    """Calls action before every call of a function."""
    native = getattr(module, name, None)
    if native is None:
        return

    def function(*args, **kwargs):
        action()
        return native(*args, **kwargs)

    if isinstance(native, type(len)):
        replace(module, native, function)
    else:
        setattr(module, name, resemble(function, native))


def _subprocess(subprocess):
    """Replaces subprocess's own reference to fork_exec, which Python 3.12 and newer have."""
    if hasattr(subprocess, "_fork_exec"):
        import _posixsubprocess

        subprocess._fork_exec = _posixsubprocess.fork_exec


def _threading(threading, hook):
    if sys.version_info < (3, 13):
        threading.excepthook = threading.__excepthook__ = hook


def _getpass(getpass, worker):
    """Makes getpass ask through the supervisor, so that the supervisor knows that the answer is secret."""
    native = getpass.getpass

    def ask(prompt="Password: ", stream=None, **kwargs):
        if worker.channel.forked or sys.stdin is not worker.stdin.text:
            return native(prompt, stream, **kwargs)
        return worker.stdin.getpass(prompt, stream)

    getpass.getpass = resemble(ask, native)


def _multiprocessing(context):
    """Keeps fork the default on Linux.

    A child of forkserver or spawn imports __main__ to find its function, but a cell has no file to
    import. With Python 3.14's default, a pool would start worker after worker forever. A start
    method that user code chooses is kept.
    """
    default = getattr(context, "_default_context", None)
    if sys.platform != "linux" or default is None or default._default_context.get_start_method() == "fork":
        return
    context._default_context = type(default)(context._concrete_contexts["fork"])
