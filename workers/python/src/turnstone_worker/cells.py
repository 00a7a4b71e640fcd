"""Cells: the code of one turn, compiled, run, and its error reported.

The last expression's value is displayed, unless a semicolon ends it. If a cell does not compile,
nothing of it runs. linecache keeps the sources, so tracebacks and inspect show them.
"""
import __future__
import _ast
import builtins
import os
import sys
from _thread import get_ident

from turnstone_worker import imports, pretty
from turnstone_worker.changes import Imported
from turnstone_worker.codec import text
from turnstone_worker.frames import entry, is_ours, is_program
from turnstone_worker.loops import RUN_IN_LOOP, Loops, is_of_loop
from turnstone_worker.natives import builtin, resemble

_ONLY_AST = _ast.PyCF_ONLY_AST
_AWAIT = _ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_COROUTINE = 0x80  # inspect.CO_COROUTINE
_FUTURE = 0
for _name in __future__.all_feature_names:
    _FUTURE |= getattr(__future__, _name).compiler_flag

_excepthook = sys.__excepthook__
_settrace = sys.settrace  # kept, because a debugger may replace it with one that warns of calls
_SOURCES_BYTES = 32 << 20  # memory for sources; the oldest are dropped first, and tracebacks no longer show their lines
_DEEP = 2000  # a traceback with more frames is shortened: traceback takes 0.1 ms for each
_ENDS = 500  # frames that are kept at each of its ends
_EXIT = "[an exit ends the input, not the session: the rest of the input was not run, and all variables are there]"


def _weight(lines):
    """Returns the bytes of memory that lines use: for short lines, far more than their characters."""
    return sys.getsizeof(lines) + sum(map(sys.getsizeof, lines))


class Cells:
    def __init__(self, namespace, show_all, interrupts, free, display):
        """free releases memory for the code that handles a lack of memory."""
        self.display = display
        self.namespace = namespace
        self.free = free
        self.interrupts = interrupts
        self.show_all = show_all
        self.flags = 0  # the __future__ features that cells have asked for
        self.sources = {}  # linecache entries by file name
        self.size = 0  # bytes of memory that they use
        self.imported = Imported()
        self.loops = Loops(interrupts)
        self.tracer = None  # of the last cell, for the next one
        self.dialect = None  # of the last cell
        self.shell = None  # of notebooks
        self.formats = ("png",)  # of their figures

    # ------------------------------------------------------------ running

    def run(self, number, source, dialect=None):
        """Compiles and runs the source of a turn. Errors of the code are raised."""
        self.dialect = dialect
        self.display.captured = None  # an interrupt may have left it
        self.display.comms.begin(dialect)
        self._prepare(dialect == "notebook")
        name = "<cell %d>" % number
        try:
            code = source.decode("utf-8")
        except UnicodeDecodeError as e:
            raise SyntaxError("the input is not UTF-8: %s" % e) from None
        code = code.replace("\r\n", "\n").replace("\r", "\n")
        if code[:1] == "\ufeff":
            code = code[1:]
        if code[:1].isspace():
            code = dedented(code)
        self._remember(name, code)
        cell = self._translated(code) if dialect == "notebook" else None
        parts = self._compile(code if cell is None else cell.code, name)
        self.namespace.pop("__warningregistry__", None)  # a warning is new in each cell
        if self.tracer is not None:
            _settrace(self.tracer)
            self.tracer = None
        events = sys.modules.get("asyncio.events")
        if events is not None:
            events._set_running_loop(None)  # an interrupt may have left a loop marked as running; none runs here
        try:
            if cell is None:
                self._evaluate(parts)
            else:
                from turnstone_worker import magics

                with magics.around(cell.around, self.display, self.namespace):
                    self._evaluate(parts)
        finally:
            if sys.gettrace() is not None:
                self._pause_tracing()
            changed = self.imported.changed()
            if changed is not None:
                sys.stderr.write(changed + "\n")

    def _prepare(self, notebook):
        """Chooses what only cells of notebooks have."""
        self.display.text = pretty.text if notebook else repr
        self.display.formats = self.formats if notebook else None
        vars(builtins).pop("get_ipython", None)
        if notebook:
            from turnstone_worker.shell import ZMQInteractiveShell

            self.shell = self.shell or ZMQInteractiveShell(self)
            builtins.get_ipython = self.shell.of_caller

    @entry
    def _evaluate(self, parts):
        """Runs the code of a cell. It is a separate function, with its handler near the start, for
        the case that no memory is left. Then CPython 3.11 and newer may loop forever if the handler
        is more than 256 instructions into a function, because its offset needs an integer object.
        The handler frees memory."""
        try:
            if any(part.co_flags & _COROUTINE for part in parts):
                self.loops.finish(parts, self.namespace)
            else:
                for part in parts:
                    self.loops.evaluate(part, self.namespace)
            if self.loops.lent or self.loops.has_work():
                self.loops.settle()
        except MemoryError:
            self.free()
            raise

    def _pause_tracing(self):
        """Stops tracing between cells, so that the worker is not traced. A debugger that is stepping ends with the cell."""
        tracer = sys.gettrace()
        _settrace(None)
        bdb = sys.modules.get("bdb")
        debugger = getattr(tracer, "__self__", None)
        if tracer is self.interrupts.tracer:
            return
        if bdb is None or not isinstance(debugger, bdb.Bdb) or debugger.breaks:
            self.tracer = tracer

    @entry
    def run_file(self, path):
        """Runs a start-up file in the cells' namespace, as python -i does."""
        with open(path, "rb") as f:
            source = f.read()
        self.namespace["__file__"] = path
        try:
            part = compile(source, path, "exec", self.flags, True)
            self.flags |= part.co_flags & _FUTURE
            self.loops.evaluate(part, self.namespace)
        finally:
            self.namespace.pop("__file__", None)

    def _translated(self, code):
        """Returns the cell of a notebook whose magics are replaced; None if the code has none."""
        if not any(map(code.__contains__, "%!?")) and "\n" in code.strip():
            return None
        from turnstone_worker import notebook

        return notebook.translated(code, self.compiler_flags(), self.namespace)

    def compiler_flags(self):
        return self.flags | _AWAIT

    def _compile(self, code, name):
        """Returns the compiled parts of a cell. Each was compiled as "exec", or as "single", which displays its value."""
        flags = self.flags | _AWAIT
        if len(code) < 1000 and not any(map(code.__contains__, "\n:;#")) and code.strip():
            # One simple statement: "single" can display no other value. An error after the end of
            # its line has a position only if the line ends with a newline.
            part = compile(code + "\n", name, "single", flags, True)
            self.flags = (flags | part.co_flags) & _FUTURE
            return (part,)
        try:
            return self._compile_tree(code, name, flags)
        except RecursionError:
            return self._compile_deep(code, name, flags)

    def _compile_tree(self, code, name, flags):
        tree = compile(code, name, "exec", _ONLY_AST | flags, True)
        body = tree.body
        last = body.pop() if body and type(body[-1]) is _ast.Expr else None
        show_all = self.show_all or self.dialect == "notebook" and self.shell.shows_all()
        pieces = [("single", _ast.Interactive(body)) if show_all else ("exec", tree)]
        if last is not None:
            muted = _is_muted(last, code)
            pieces.append(("exec", _ast.Module([last], [])) if muted else ("single", _ast.Interactive([last])))
        parts = []
        for kind, piece in pieces:
            if kind == "exec" and piece.body and _is_text(piece.body[0]):
                del piece.body[0]  # a first text would become __main__.__doc__
            if piece.body:
                part = compile(piece, name, kind, flags, True)
                flags |= part.co_flags & _FUTURE
                parts.append(part)
        self.flags = flags & _FUTURE
        return parts

    def _compile_deep(self, code, name, flags):
        """Returns the parts of a cell that is nested too deeply for a syntax tree in Python, but
        perhaps not for the compiler. It finds the last statement by its tokens."""
        whole = compile(code, name, "exec", flags, True)
        self.flags = (flags | whole.co_flags) & _FUTURE
        row, column = _last_statement(code)
        lines = code.split("\n")
        head = "\n".join(lines[: row - 1] + [lines[row - 1][:column]])
        last = "\n" * (row - 1) + "\n".join([lines[row - 1][column:]] + lines[row:])
        try:
            compile(last, name, "eval", flags | self.flags, True)
        except SyntaxError:
            return (whole,)  # it has no value, or a semicolon ends it
        return compile(head, name, "exec", flags | self.flags, True), compile(last, name, "single", flags | self.flags, True)

    # ------------------------------------------------------------ sources

    def _remember(self, name, code):
        lines = [line + "\n" for line in code.split("\n")]
        if lines[-1] == "\n":
            lines.pop()
        self.sources[name] = len(code), None, lines, name
        self.size += _weight(lines)
        while self.size > _SOURCES_BYTES and len(self.sources) > 1:
            oldest = next(iter(self.sources))
            self.size -= _weight(self.sources.pop(oldest)[2])
            if "linecache" in sys.modules:
                sys.modules["linecache"].cache.pop(oldest, None)
        if "linecache" in sys.modules:
            sys.modules["linecache"].cache[name] = self.sources[name]

    def fill(self, linecache):
        """Gives linecache the sources of cells. It also repairs a cleared cache."""
        linecache.cache.update(self.sources)

    def teach_linecache(self, linecache):
        """Keeps the sources of cells when the cache is cleared, because no file has them."""
        native = linecache.clearcache

        def clearcache():
            native()
            self.fill(linecache)

        linecache.clearcache = resemble(clearcache, native)
        self.fill(linecache)

    def teach(self, inspect):
        """Lets inspect find the source of a class that a cell defined, because __main__ has no file."""
        native = inspect.getfile

        def getfile(object):
            if isinstance(object, type) and object.__module__ == "__main__":
                name = self._defining(object)
                if name is not None and sys.modules["__main__"].__dict__ is self.namespace:
                    return name
            return native(object)

        inspect.getfile = resemble(getfile, native)

    def _defining(self, kind):
        """Returns the name of the latest cell that defines a class anywhere in its code; or None."""
        short, line = kind.__name__, vars(kind).get("__firstlineno__")  # since Python 3.13
        for name, (_, _, lines, _) in reversed(list(self.sources.items())):
            source = "".join(lines)
            if short not in source:
                continue
            if "turnstone_worker.notebook" in sys.modules:
                cell = self._translated(source)
                source = source if cell is None else cell.code
            try:
                tree = compile(source, name, "exec", _ONLY_AST | self.compiler_flags(), True)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                continue
            for node in imports.quietly("ast").walk(tree):
                if type(node) is _ast.ClassDef and node.name == short:
                    first = node.decorator_list[0].lineno if node.decorator_list else node.lineno
                    if line is None or line == first:
                        return name
        return None

    # ------------------------------------------------------------ errors

    def report(self, error):
        """Shows an error as python -i does."""
        imports.for_errors()
        self.fill(sys.modules["linecache"])
        if isinstance(error, SyntaxError) and error.text is None and error.filename in self.sources:
            lines = self.sources[error.filename][2]
            if error.lineno and error.lineno <= len(lines):
                error.text = lines[error.lineno - 1]  # code compiled from a tree has no text
        left_out = _strip(error)
        tb = error.__traceback__
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, tb
        sys.last_exc = error
        hook = getattr(sys, "excepthook", None)
        if not hasattr(sys, "excepthook"):
            sys.stderr.write("sys.excepthook is missing, printing exception traceback\n")
        elif hook is not sys.__excepthook__:
            try:
                self.loops.run(hook, type(error), error, tb)
                return
            except Exception as e:
                sys.stderr.write("Error in sys.excepthook:\n")
                _strip(e)
                _print(e)
                sys.stderr.write("\nOriginal exception was:\n")
        _print(error)
        if left_out:
            sys.stderr.write("[%d frames in the middle of the traceback are not shown]\n" % left_out)
        if isinstance(error, (SyntaxError, NameError, RuntimeError)):
            from turnstone_worker.hints import hint

            said = hint(error, self.sources, self.dialect)
            if said is not None:
                sys.stderr.write(said + "\n")

    def report_exit(self, error, said):
        """Shows an exit that ends only its cell; said is its summary."""
        _strip(error)
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
        sys.last_exc = error
        sys.stderr.write("%s%s%s\n%s\n" % (said["name"], ": " if said["message"] else "", said["message"], _EXIT))

    def teach_excepthook(self):
        """Replaces the native sys.excepthook, which does not find the sources of cells before
        Python 3.13. User code and the hooks of libraries call it."""

        def excepthook(exctype, value, traceback, /):
            if not isinstance(value, BaseException) or getattr(sys, "stderr", None) is None:
                return _excepthook(exctype, value, traceback)
            imports.for_errors()
            self.fill(sys.modules["linecache"])
            sys.stderr.write("".join(imports.library_first(_traceback, value, traceback)))

        replaced = builtin(_excepthook, excepthook)
        if sys.excepthook is _excepthook:
            sys.excepthook = replaced
        sys.__excepthook__ = replaced

    def report_thread(self, args):
        """Replaces threading.excepthook: the native one does not find the sources of cells."""
        if args.exc_type is SystemExit or sys.stderr is None:
            return
        imports.for_errors()
        self.fill(sys.modules["linecache"])
        _strip(args.exc_value)
        name = args.thread.name if args.thread is not None else "?"
        shown = imports.library_first(_traceback, args.exc_value, args.exc_traceback)
        sys.stderr.write("Exception in thread %s:\n%s" % (name, "".join(shown)))


def _print(error):
    """Prints an error, in colours at a user's terminal, by the rules of CPython 3.13 and newer."""
    colours = {}
    colorize = sys.modules.get("_colorize")
    if os.environ.get("TERM") != "dumb" and hasattr(colorize, "can_colorize") and colorize.can_colorize():
        colours["colorize"] = True
    sys.stderr.write("".join(imports.library_first(_traceback, error, error.__traceback__, **colours)))


def _traceback(error, tb, **colours):
    """Returns the lines of a traceback. Python 3.10 and 3.11 suggest a similar name only in C code,
    not in their module traceback as later versions do."""
    limit = getattr(sys, "tracebacklimit", None)
    if isinstance(limit, int) and limit > 0:
        limit = -limit  # the last ones, as Python itself shows them
    shown = sys.modules["traceback"].TracebackException(type(error), error, tb, limit=limit)
    chain = [(shown, error)] if (3, 10) <= sys.version_info < (3, 12) else []
    while chain:
        part, error = chain.pop()
        if part is not None and error is not None:
            if isinstance(error, (AttributeError, NameError)):
                part._str += _guess(error)
            chain += [(part.__cause__, error.__cause__), (part.__context__, error.__context__)]
    return list(shown.format(**colours))


def _guess(error):
    """Lets Python show a copy of an error, without text, and returns the suggestion that it adds."""
    copy = AttributeError(name=error.name, obj=error.obj) if isinstance(error, AttributeError) else NameError(name=error.name)
    tb = error.__traceback__
    while tb is not None and tb.tb_next is not None:
        tb = tb.tb_next
    saved, sys.stderr = sys.stderr, _Collector(sys.stderr)
    try:
        _excepthook(type(copy), copy.with_traceback(tb), tb)
        said = "".join(sys.stderr.said)
    finally:
        sys.stderr = saved
    return said[said.rfind(". Did you mean: ") :].rstrip("\n") if ". Did you mean: " in said else ""


class _Collector:
    """Replaces sys.stderr to capture what one thread writes."""

    def __init__(self, stream):
        self.stream, self.thread, self.said = stream, get_ident(), []

    def write(self, text):
        if get_ident() != self.thread:
            return self.stream.write(text)
        self.said.append(text)
        return len(text)

    def flush(self):
        self.stream.flush()


def explain(error):
    """Gives the parser's error for code that is nested too deeply the message of Python 3.12 and
    newer. Otherwise the error looks like a lack of memory."""
    tb = error.__traceback__
    if type(error) is not MemoryError or error.args or tb is None or sys.version_info >= (3, 12):
        return
    while tb.tb_next is not None:
        tb = tb.tb_next
    if _compiles(tb):
        error.args = ("Parser stack overflowed - Python source too complex to parse",)


def _compiles(tb):
    """Reports whether the error at the end of a traceback probably comes from Python's compiler."""
    frame = tb.tb_frame
    code = frame.f_code
    if is_ours(frame):
        return code.co_name.startswith("_compile")
    operation = imports.quietly("opcode").opname[code.co_code[tb.tb_lasti]]
    line = imports.quietly("linecache").getline(code.co_filename, tb.tb_lineno, frame.f_globals)
    called = "CALL" in operation and imports.quietly("re").search(r"\b(eval|exec|compile)\b", line)
    return operation == "IMPORT_NAME" or bool(called)


def summary(error, dialect=None):
    """Returns an error in the form of the idle frame. Notebooks name an error by its class alone."""
    kind = type(error)
    name = kind.__name__ if dialect == "notebook" else kind.__qualname__
    if dialect != "notebook" and kind.__module__ not in ("builtins", "__main__"):
        name = "%s.%s" % (kind.__module__, name)
    try:
        message = exit_text(error) if isinstance(error, SystemExit) else str(error)
    except Exception:
        message = ""
    return {"name": text(name), "message": text(message)}


def exit_text(error):
    """Returns the code of a SystemExit as text, as Python shows a code that is not a status."""
    try:
        return "" if error.code is None else str(error.code)
    except Exception:
        return ""  # it is a user's object


def _strip(error):
    """Removes the worker's own frames from an error and the errors that led to it, and the middle
    of a deep traceback. It returns the number of frames removed from that middle."""
    left_out = 0
    for _ in range(100):  # a chain may be circular
        if error is None:
            break
        tb = _within_program(_within_loop(error.__traceback__))
        while tb is not None and is_ours(tb.tb_frame):
            tb = tb.tb_next
        error.__traceback__ = tb
        while tb is not None:
            following = tb.tb_next
            while following is not None and is_ours(following.tb_frame):
                following = following.tb_next
            if following is not tb.tb_next:
                tb.tb_next = following
            tb = following
        left_out += _cut(error.__traceback__)
        error = error.__cause__ or error.__context__
    return left_out


def _within_loop(tb):
    """Returns the part of a traceback that belongs to a cell with an await, without the loop that runs it."""
    first, users = tb, False
    while first is not None:
        if first.tb_frame.f_code is RUN_IN_LOOP:
            return first
        users = users or not (is_ours(first.tb_frame) or is_of_loop(first.tb_frame))
        first = first.tb_next
    return tb if users else None  # nothing of the cell has run yet


def _within_program(tb):
    """Returns the part of a traceback that belongs to a program, without the input that runs it."""
    at = tb
    while at is not None:
        at, last = at.tb_next, at
        if is_program(last.tb_frame):
            tb = at
    return tb


def _cut(tb):
    """Removes the middle of a deep traceback and returns the number of removed frames."""
    frames = []
    while tb is not None:
        frames.append(tb)
        tb = tb.tb_next
    if len(frames) <= _DEEP:
        return 0
    frames[_ENDS - 1].tb_next = frames[-_ENDS]
    return len(frames) - 2 * _ENDS


_COMPOUND = frozenset("if elif else while for try except finally with def class async @".split())


def _last_statement(code):
    """Returns the line and column where the last top-level statement begins."""
    tokenize = imports.quietly("tokenize")
    start, first, level, depth, fresh = (1, 0), "", 0, 0, True
    for kind, text, at, _, _ in tokenize.generate_tokens(_lines(code)):
        if kind in (tokenize.NL, tokenize.COMMENT, tokenize.ENDMARKER):
            continue
        if kind in (tokenize.INDENT, tokenize.DEDENT):
            level += 1 if kind == tokenize.INDENT else -1
        elif kind == tokenize.NEWLINE:
            fresh, first = True, ""
        elif text == ";" and depth == 0 and first not in _COMPOUND:
            fresh = True
        else:
            if fresh and level == 0:
                start = at
            fresh, first = False, first or text
            if kind == tokenize.OP:
                depth += (text in "([{") - (text in ")]}")
    return start


def _lines(code):
    """Returns the lines of code, one for each call, as tokenize needs them. splitlines() would split at further characters."""
    return (line + "\n" for line in code.split("\n")).__next__


def dedented(code):
    """Returns the code without the indentation that all its statements share, as in code copied
    from a block. Comments and the lines of strings need not have it."""
    lines = code.split("\n")
    first = next((line for line in lines if line.strip()), "")
    indent = first[: len(first) - len(first.lstrip())]
    if not indent or not _is_block(code):
        return code
    return "\n".join(line[len(indent) :] if line.startswith(indent) else line for line in lines)


def _is_block(code):
    """Reports whether code could follow a line such as if True:"""
    tokenize = imports.quietly("tokenize")
    level = 0
    try:
        for kind, text, _, _, _ in tokenize.generate_tokens(_lines("if 1:\n" + code)):
            level += (kind == tokenize.INDENT) - (kind == tokenize.DEDENT)
            if level == 0 and text not in ("if", "1", ":", "\n", ""):
                return False
    except tokenize.TokenError:
        pass  # it ends too early or is otherwise not Python, which compile() reports
    except SyntaxError:
        return False
    return True


def _is_text(statement):
    return type(statement) is _ast.Expr and type(statement.value) is _ast.Constant and type(statement.value.value) is str


def _is_muted(statement, code):
    """Reports whether a semicolon follows the last statement, outside comments."""
    if ";" not in code:
        return False
    lines = code.split("\n")[statement.end_lineno - 1 :]
    lines[0] = lines[0].encode()[statement.end_col_offset :].decode()
    return any(";" in line.partition("#")[0] for line in lines)
