"""What the magics and shell commands of a notebook's cell do. notebook.py translates them to calls of these functions.

Their output has the form of IPython's. A command of a shell is a child with the worker's terminal,
unless the cell captures its output.
"""
import builtins
import os
import sys
from time import perf_counter

from turnstone_worker import imports, inspection, notebook, query
from turnstone_worker.cells import dedented

re = imports.quietly("re")

_RUNS = 7  # of %timeit
_ENOUGH = 0.2  # seconds of one run of %timeit
_NAME = r"[^\W\d]\w*"
# $$x stands for $x, and {{x}} for {x}; ${x} and what follows a backslash are the shell's.
_EXPANDED = re.compile(r"\\.|\$\{[^}]*\}|\$\$(?=\w)|\{\{|\}\}|\{(?P<expression>[^{}]+)\}|\$(?P<name>%s)" % _NAME)
_SHELLS = frozenset("ash bash dash fish ksh mksh sh zsh".split())
_KEPT = re.compile(r"--(out|err)[= ]\s*(\w+)")
_STREAMS = (("stdout", "out"), ("stderr", "err"))
_SECRET = ("key", "token", "secret", "password")
_said = set()  # magics whose notice has appeared
shell = None  # of the notebook
_last = []  # at most one: the directory before the last %cd


class Lines(list):
    """The lines that a command has printed."""

    @property
    def n(self):
        return "\n".join(self)

    @property
    def s(self):
        return " ".join(self)

    l = property(list)
    nlstr, spstr = n, s

    def __reduce__(self):
        return list, (list(self),)  # other processes do not have this class


# ---------------------------------------------------------------- the code of the cell


def _names():
    """Returns the global and the local variables of the code that contains the magic."""
    frame = sys._getframe()  # the worker's own frames are hidden
    return frame.f_globals, frame.f_locals


def _expand(text, names):
    """Replaces {expression} and $name by values of the code's variables. What names none of them is left alone."""
    parts, at, doubled = [], 0, 0
    while True:
        found = _EXPANDED.search(text, at)
        if found is None:
            return "".join(parts) + text[at:]
        parts.append(text[at : found.start()])
        at, whole = found.end(), found[0]
        if whole in ("$$", "{{"):
            doubled += whole == "{{"
            whole = whole[0]
        elif whole == "}}" and doubled:
            doubled -= 1
            whole = "}"
        elif found["name"] is not None:
            quoted = text.count("'", 0, found.start()) % 2 and text.count("'", at) % 2
            scope = next((scope for scope in reversed(names) if found["name"] in scope), None)
            whole = whole if quoted or scope is None else str(scope[found["name"]])
        elif found["expression"] is not None:
            code = _compiled(found["expression"], names)
            if code is None:
                at, whole = found.start() + 1, "{"  # what follows may be a name
            else:
                whole = str(eval(code, *names))
        parts.append(whole)


def _compiled(expression, names):
    """Returns the code of an expression that uses a variable; None for any other text in braces."""
    try:
        code = compile(expression.strip(), "<command>", "eval")
    except (SyntaxError, ValueError):
        return None
    return code if any(name in scope for name in code.co_names for scope in names) else None


def _path(text):
    """Returns the path that is an argument of a magic, with the names of _expand."""
    text = _expand(text, _names()).strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    return os.path.expanduser(os.path.expandvars(text))


# ---------------------------------------------------------------- commands


def _shell():
    """Returns the arguments of subprocess that choose the user's shell."""
    shell = os.environ.get("SHELL", "")
    known = os.name == "posix" and os.path.basename(shell) in _SHELLS and os.access(shell, os.X_OK)  # an account may have /bin/false
    return {"shell": True, "executable": shell} if known else {"shell": True}


def _run(command, **options):
    """Runs a command and returns its status. If the cell's output is captured, so is the command's."""
    subprocess = imports.quietly("subprocess")
    if not isinstance(sys.stdout, imports.quietly("io").StringIO):
        return subprocess.run(command, **options).returncode
    done = subprocess.run(command, **dict(options, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, errors="replace"))
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    return done.returncode


def system(command):
    """!command: shows its output. Its status is in _exit_code."""
    names = _names()
    names[0]["_exit_code"] = _run(_expand(command, names), **_shell())


def lines(command):
    """x = !command: returns its output and its errors as lines."""
    names, subprocess = _names(), imports.quietly("subprocess")
    done = subprocess.run(
        _expand(command, names), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, errors="replace", **_shell()
    )
    names[0]["_exit_code"] = done.returncode
    return Lines(done.stdout.splitlines())


def script(command, body):
    """%%script, %%bash and others. A failure is an error of the cell, unless --no-raise-error says otherwise."""
    subprocess, names = imports.quietly("subprocess"), _names()
    options = {"input": body, "universal_newlines": True, "errors": "replace"}
    kept = dict(_KEPT.findall(command))
    program = imports.quietly("shlex").split(_expand(_KEPT.sub("", command).replace("--no-raise-error", ""), names))
    if program in (["bash"], ["sh"]):
        program, options["input"] = program + ["-c", body], None
    if kept:
        done = subprocess.run(program, **options, **{stream: subprocess.PIPE for stream, short in _STREAMS if short in kept})
        status = done.returncode
        names[0].update((kept[short], getattr(done, stream)) for stream, short in _STREAMS if short in kept)
    else:
        status = _run(program, **options)
    names[0]["_exit_code"] = status
    if status and "--no-raise-error" not in command:
        raise subprocess.CalledProcessError(status, program[0])


def pip(arguments):
    """%pip: that of the session's interpreter."""
    python = '"%s"' % sys.executable if os.name == "nt" else imports.quietly("shlex").quote(sys.executable)
    names = _names()
    names[0]["_exit_code"] = _run("%s -m pip %s" % (python, _expand(arguments, names)), **_shell())
    imports.quietly("importlib").invalidate_caches()


# ---------------------------------------------------------------- the process


def cd(arguments):
    """%cd: without arguments to the home directory, with - to the last one."""
    quiet = arguments.startswith("-q")
    path = _path(arguments[2:] if quiet else arguments) or os.path.expanduser("~")
    try:
        before = [os.getcwd()]
    except OSError:
        before = []  # it was removed
    os.chdir(_last[0] if path == "-" and _last else path)
    _last[:] = before
    if not quiet:
        print(os.getcwd())


def pwd(arguments):
    return os.getcwd()


def env(arguments):
    """%env: all variables, the value of one, or a new value."""
    if not arguments:
        return {name: "<hidden>" if any(word in name.lower() for word in _SECRET) else value for name, value in os.environ.items()}
    if "=" not in arguments and " " not in arguments:
        return os.environ[arguments]
    return set_env(arguments)


def set_env(arguments):
    separator = "=" if "=" in arguments else " "
    name, _, value = arguments.partition(separator)
    name, value = name.strip(), _expand(value.strip(), _names())
    if len(name.split()) != 1:
        raise ValueError("%%env: %r is not a name of a variable; use NAME=VALUE" % name)
    os.environ[name] = value
    print("env: %s=%s" % (name, value))


def who(arguments):
    """%who [type ...]"""
    _list("\t".join, arguments, lambda variable: variable["name"])


def whos(arguments):
    """%whos [type ...]"""
    _list("\n".join, arguments, lambda variable: "%-20s %-20s %s" % (variable["name"], variable["type"], variable.get("shape", "")))


def _list(join, types, describe):
    found = query.list_variables(_names()[0])
    print(join(describe(variable) for variable in found["variables"] if not types.strip() or variable["type"] in types.split()))
    if found["more"]:
        print("[%d more]" % found["more"])


def autoreload(arguments):
    if arguments.strip() not in ("0", "off") and "autoreload" not in _said:
        _said.add("autoreload")
        sys.stderr.write("[%autoreload does nothing here: importlib.reload(module) takes in a change]\n")


def config(arguments):
    """%config: other settings have no effect."""
    name, _, value = map(str.strip, arguments.partition("="))
    value = eval(value or "None", *_names())
    if name.startswith("InlineBackend.figure_format") and value:
        shell.set_formats(*([value] if isinstance(value, str) else sorted(value)))
    elif name.endswith(".ast_node_interactivity"):
        shell.ast_node_interactivity = value


def registered(name, arguments, *body):
    """A magic that code has registered."""
    return notebook.REGISTERED["cell" if body else "line"][name](_expand(arguments, _names()), *body)


def pylab(arguments):
    """%pylab: the names of numpy and pyplot."""
    exec("import numpy, matplotlib\nfrom matplotlib import pylab, mlab, pyplot\nnp, plt = numpy, pyplot\nfrom pylab import *", _names()[0])


def writefile(arguments, body):
    """%%writefile [-a] path"""
    append = re.match(r"(-a|--append)\s+", arguments)
    path = _path(arguments[append.end() :] if append else arguments)
    print("%s %s" % ("Appending to" if append else "Overwriting" if os.path.exists(path) else "Writing", path))
    with open(path, "a" if append else "w", encoding="utf-8") as file:
        file.write(body)


def run(arguments):
    """%run [-i] file [argument ...]: the cell has the names of the script afterwards. With -i, the script has those of the cell."""
    names = _names()
    words = imports.quietly("shlex").split(_expand(arguments, names), posix=os.name == "posix")
    shared = words[:1] == ["-i"]
    words = words[shared:]
    if not words or words[0][:1] == "-":
        raise ValueError("%run needs the name of a file")
    path, kept = os.path.expanduser(words[0]), (sys.argv, sys.path[:])
    path += "" if os.path.splitext(path)[1] else ".py"
    try:
        sys.argv, sys.path[:0] = [path] + words[1:], [os.path.dirname(os.path.abspath(path))]
        if path.endswith(".ipynb"):
            return _run_notebook(path, names[0])
        found = imports.quietly("runpy").run_path(path, names[0] if shared else None, "__main__")
    except SystemExit as e:
        if e.code:
            raise
        return
    finally:
        sys.argv, sys.path[:] = kept
    names[0].update((name, value) for name, value in found.items() if name[:2] != "__")


def _run_notebook(path, names):
    with open(path, encoding="utf-8") as file:
        cells = imports.quietly("json").load(file)["cells"]
    for cell in cells:
        if cell["cell_type"] == "code":
            code = "".join(cell["source"])
            code = getattr(notebook.translated(code, 0, names), "code", code)
            exec(compile(code, path, "exec"), names)


def reset(arguments):
    """%reset -f: removes the variables."""
    names = _names()[0]
    if "-f" not in arguments:
        raise ValueError("%reset needs -f")
    for name in [name for name in names if name[:1] != "_"]:
        del names[name]


def show(mime, body):
    """%%html and others: shows the text of the cell, under the name that a class of IPython has."""
    name = mime.partition("/")[2].partition("+")[0]
    kind = name.upper() if len(name) < 5 else name.title()
    builtins.display(type(kind, (), {"_repr_mimebundle_": lambda *_, **__: {mime: body}})())


def describe(name, with_source):
    """name? and name??"""
    globals_, locals_ = _names()
    names = {**globals_, **locals_}
    found = inspection.describe(name, len(name.encode()), names)
    if not found:
        print("Object `%s` not found." % name)
        return
    print(found["text/plain"].decode().rstrip("\n"))
    if with_source:
        try:
            source = imports.quietly("inspect").getsource(query.find(name.split("."), names))
        except (OSError, TypeError, SyntaxError):
            return  # it has none
        print("\n" + dedented(source).rstrip("\n"))


# ---------------------------------------------------------------- times


def clock():
    """Returns the time, and the processor time of user code and of the system, in seconds."""
    try:
        used = imports.quietly("resource")
    except ImportError:
        times = os.times()
        return perf_counter(), times.user, times.system
    used = used.getrusage(used.RUSAGE_SELF)
    return perf_counter(), used.ru_utime, used.ru_stime


def timed(started, value):
    """%time of an expression: shows its times and returns its value."""
    wall, user, kernel = (now - then for now, then in zip(clock(), started))
    if os.name != "nt":
        print("CPU times: user %s, sys: %s, total: %s" % (_time(user), _time(kernel), _time(user + kernel)))
    print("Wall time: %s" % _time(wall))
    return value


class timing:
    """%time of a statement, and %%time. The value of a cell is shown after its time."""

    def __enter__(self):
        self.hook, self.values = sys.displayhook, []
        sys.displayhook = self.values.append
        self.started = clock()

    def __exit__(self, *error):
        sys.displayhook = self.hook
        timed(self.started, None)
        for value in self.values:
            self.hook(value)


def time_block(code):
    globals_, locals_ = _names()
    with timing():
        exec(compile(code, "<timed>", "exec"), globals_, locals_)


def _time(seconds):
    if seconds >= 60:
        parts, rest = [], int(seconds)
        for name, length in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
            if rest >= length:
                parts.append("%d%s" % (rest // length, name))
                rest %= length
        return " ".join(parts)
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "μs")):
        if seconds * factor >= 1:
            return "%.3g %s" % (seconds * factor, unit)
    return "%.3g ns" % (seconds * 1e9)


class TimeitResult:
    """What %timeit -o returns."""

    def __init__(self, loops, all_runs):
        self.loops, self.repeat, self.all_runs = loops, len(all_runs), all_runs
        self.timings = [seconds / loops for seconds in all_runs]
        self.best, self.worst = min(self.timings), max(self.timings)
        self.average = sum(self.timings) / self.repeat
        self.stdev = (sum((one - self.average) ** 2 for one in self.timings) / self.repeat) ** 0.5

    def __str__(self):
        return "%s ± %s per loop (mean ± std. dev. of %d run%s, %s loop%s each)" % (
            _time(self.average),
            _time(self.stdev),
            self.repeat,
            "s" if self.repeat > 1 else "",
            format(self.loops, ","),
            "s" if self.loops > 1 else "",
        )

    def __repr__(self):
        return "<TimeitResult : %s>" % self


def timeit(arguments, body=None):
    """%timeit [-n loops] [-r runs] [-q] [-o] code; with a body, the rest of the line is its setup."""
    options, loops, runs = "", 0, _RUNS
    while True:
        found = re.match(r"-([qotc]+)(?:\s+|$)|-([nrp])\s*(\d+)(?:\s+|$)", arguments)
        if found is None:
            break
        arguments = arguments[found.end() :]
        options += found[1] or ""
        loops, runs = (int(found[3]) if found[2] == "n" else loops, max(1, int(found[3])) if found[2] == "r" else runs)
    globals_, locals_ = _names()
    names = globals_ if globals_ is locals_ else {**globals_, **locals_}
    library = imports.quietly("timeit")
    watch = imports.quietly("time").process_time if "c" in options else library.default_timer
    timer = library.Timer(arguments if body is None else body, "pass" if body is None or not arguments else arguments, watch, names)
    if not loops:
        loops = next((10**power for power in range(9) if timer.timeit(10**power) >= _ENOUGH), 10**9)
    result = TimeitResult(loops, timer.repeat(runs, loops))
    if "q" not in options:
        print(result)
    return result if "o" in options else None


# ---------------------------------------------------------------- %%capture


class Captured:
    """What a cell with %%capture has shown."""

    def __init__(self, stdout, stderr, outputs):
        self.stdout, self.stderr, self.outputs = stdout, stderr, outputs

    def __str__(self):
        return self.stdout

    def show(self):
        """Shows it."""
        sys.stdout.write(self.stdout)
        sys.stderr.write(self.stderr)
        for output in self.outputs:
            output.display()

    __call__ = show


class Output:
    """A value or a display of a captured cell."""

    def __init__(self, message, deliver):
        self._show = lambda: deliver(message)
        self.data = {mime: data.decode("utf-8", "replace") if mime.startswith("text/") else data for mime, data in message["data"].items()}

    def display(self):
        self._show()


class capturing:
    """%%capture [--no-stdout] [--no-stderr] [--no-display] [name]"""

    def __init__(self, arguments, display, namespace):
        words = arguments.split()
        self.streams = [stream for stream in ("stdout", "stderr") if "--no-" + stream not in words]
        self.displays = "--no-display" not in words
        self.name = next((word for word in words if word[0] != "-"), None)
        self.display, self.namespace = display, namespace

    def __enter__(self):
        self.native = {stream: getattr(sys, stream) for stream in self.streams}
        self.texts = {stream: imports.quietly("io").StringIO() for stream in self.streams}
        for stream, text in self.texts.items():
            setattr(sys, stream, text)
        if self.displays:
            self.display.captured = []

    def __exit__(self, *error):
        try:
            if self.displays:
                self.display.finish()  # the figures belong to this cell
        finally:
            messages, self.display.captured = self.display.captured or [], None
            for stream, native in self.native.items():
                setattr(sys, stream, native)
        if self.name is not None:
            outputs = [Output(message, self.display.deliver) for message in messages]
            said = {stream: text.getvalue() for stream, text in self.texts.items()}
            self.namespace[self.name] = Captured(said.get("stdout", ""), said.get("stderr", ""), outputs)


def around(magics, display, namespace):
    """Enters the context in which the body of a cell runs, and returns it. magics are those whose body is Python, outermost first."""
    stack = imports.quietly("contextlib").ExitStack()
    for name, arguments in magics:
        stack.enter_context(capturing(arguments, display, namespace) if name == "capture" else timing())
    return stack
