"""The output streams, and their position in the terminal's byte stream.

Text is written directly to the terminal and at once, even a part of a line. So it stays in order
with other writers: C code, child processes, forks. A frame that belongs between such bytes leaves a
marker there. Small writes remain native C code, so an asynchronous exception cannot make them
repeat a line.
"""
import builtins
import io
import os
import sys
from _thread import get_ident

from turnstone_worker.atomic import write_all
from turnstone_worker.codec import MAX_OUTPUT
from turnstone_worker.natives import replace
from turnstone_worker.system import KEEPS_MARKERS, move_high

_ECHOES = ("begin", "result")  # the kinds of text that echo a value
_BULK = 4096  # larger writes, in bytes, use the channel: pipes are 8 times as fast
_is_inheritable = os.get_inheritable
_PLAIN = frozenset((str, int, float, bool, type(None)))  # their str() runs no user code


class Fence:
    """The terminal, as the writer of markers uses it."""

    def __init__(self, nonce):
        prefix = b"\x1b_" + nonce.encode() + b";"
        self.prefix = prefix
        self.to_stderr = prefix + b"E\x1b\\"
        self.to_stdout = prefix + b"O\x1b\\"
        # around text that is not plain output
        self.marks = {"begin": prefix + b"B\x1b\\", "result": prefix + b"R\x1b\\", "traceback": prefix + b"T\x1b\\"}
        self.name = os.ttyname(0)  # raises OSError without a terminal; then there is no fence
        self.identity = _identity(0)
        self.open(0)

    def open(self, spare):
        """Opens the terminal, or duplicates one of its descriptors."""
        try:
            # This is a separate file description, so that it stays blocking if a child makes
            # its terminal nonblocking.
            fd = os.open(self.name, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:
            fd = os.dup(spare)
        self.fd = move_high(fd)

    def marker(self, mark):
        return b"%b#%d\x1b\\" % (self.prefix, mark)

    def is_terminal(self, fd):
        """Reports whether fd is still this terminal, because user code may redirect it."""
        try:
            return _identity(fd) == self.identity
        except OSError as e:
            if _is_of_user(e):
                raise
            return False

    def is_redirected(self, fd):
        """Reports whether user code has redirected fd by dup2. A file that only got the number
        after fd was closed is not inheritable, unlike a target of dup2."""
        try:
            return _is_inheritable(fd) and not self.is_terminal(fd)
        except OSError as e:
            if _is_of_user(e):
                raise
            return False  # it is closed

    def put_back(self, fd):
        """Opens the terminal again at fd, which is closed."""
        try:
            new = os.open(self.name, os.O_RDWR | os.O_NOCTTY)
        except OSError:
            new = os.dup(self.fd)
        os.dup2(new, fd)
        os.set_inheritable(fd, True)
        if new != fd:
            os.close(new)


def _is_of_user(error):
    """Reports whether a handler of user code has raised an OSError, such as a TimeoutError.

    An error of the system has a number.
    """
    return error.errno is None


def _identity(fd):
    st = os.fstat(fd)
    return st.st_dev, st.st_ino, st.st_rdev


class Bytes(io.BufferedWriter):
    """The bytes under sys.stdout. A write returns when everything is written; large ones go to the channel.

    So no text is buffered that a crash could lose or that other output could overtake. This holds
    for any text layer above: the worker's or one that user code made.
    """

    channel = None

    def close(self):
        """Flushes only. If user code puts two text layers on these bytes in turn, the first one
        closes the bytes when it is freed."""
        self.flush()

    def write(self, b, _native=io.BufferedWriter.write, _flush=io.BufferedWriter.flush):
        kind = None
        if self.channel is not None and self.channel.writers:
            thread = get_ident()
            kind = self.channel.writers.get(thread)
            if callable(kind):
                kind(b)
                return len(b)
            if kind == "begin":
                self.channel.writers[thread] = "result"  # what follows continues the echo
        if len(b) >= _BULK and self._write_large("stdout", b, kind):
            return len(b)
        if kind in _ECHOES and self._write_marked(kind, b):
            return len(b)
        n = _native(self, b)
        _flush(self)
        if self.channel is not None:
            self.channel.fresh = True
        return n

    def _write_marked(self, kind, b):
        """Writes text between markers, in one system call, which the kernel does not mix with other writes to this terminal."""
        fence = self.channel.fence
        if fence is None or not fence.is_terminal(self.fileno()):
            return False
        write_all([(fence.fd, b"".join((fence.marks.get(kind, fence.to_stderr), b, fence.to_stdout)))])
        self.channel.fresh = True
        return True

    def _write_large(self, stream, b, kind=None):
        channel = self.channel
        if channel.mute or channel.fence is None or not channel.fence.is_terminal(self.fileno()):
            return False
        self.flush()
        data = memoryview(b).cast("B")
        for i in range(0, len(data), MAX_OUTPUT):
            message = {"type": "output", "stream": stream, "data": data[i : i + MAX_OUTPUT]}
            if kind == "begin":
                message["begins"] = True
                kind = "result"
            if kind is not None:
                message["kind"] = kind
            channel.send(message, True)
        return True


class ErrorBytes(Bytes):
    """The bytes under sys.stderr, between markers that identify them."""

    def write(self, b):
        fence = self.channel.fence
        if fence is None or not fence.is_terminal(self.fileno()):
            return super().write(b)
        kind = self.channel.writers.get(get_ident()) if self.channel.writers else None
        if callable(kind):
            kind(b)
            return len(b)
        kind = "traceback" if kind == "traceback" else None
        if len(b) < _BULK or not self._write_large("stderr", b, kind):
            self._write_marked(kind, b)
        return len(b)


class Text(io.TextIOWrapper):
    """sys.stdout or sys.stderr."""


def _stream(kind, fd, name, errors, channel):
    raw = io.FileIO(fd, "wb", closefd=False)
    raw.name = name
    buffer = kind(raw, 8192)
    buffer.channel = channel
    s = Text(buffer, "utf-8", errors, write_through=True)
    s.mode = "w"
    return s


if not KEEPS_MARKERS:
    from turnstone_worker.framed import Bytes, Text, stream as _stream


def _is_there(fd):
    try:
        _is_inheritable(fd)
        return True
    except OSError:
        return False


def is_lost(stream):
    """Reports whether nothing can be written to a stream any more."""
    try:
        return getattr(stream, "closed", False) is True
    except ValueError:
        return True  # its buffer is detached
    except Exception:
        return False  # it is a user's object


def replace_stream(name, old, new):
    """Replaces a stream everywhere in sys."""
    for name in (name, "__%s__" % name):
        if getattr(sys, name, None) is old or old is None:
            setattr(sys, name, new)
    return new


class Streams:
    """sys.stdout and sys.stderr as this worker made them."""

    def __init__(self, channel, program):
        self.channel = channel
        self.program = program  # a program gets no notices, and may close any stream
        self.out = self.err = None
        self.moved = set()  # descriptors whose number now belongs to a file of user code
        self.hiding = None  # the id of the replaced sys.stdout that was last checked
        self.said = set()  # notices that were already shown

    def install(self):
        """Creates the streams, and replaces those that user code has closed, detached or deleted."""
        self.mend()
        if not hasattr(sys, "stdout"):
            sys.stdout = self.out
        if not hasattr(sys, "stderr"):
            sys.stderr = self.err
        if self.out is None or is_lost(self.out):
            new = _stream(Bytes, 1, "<stdout>", "surrogateescape", self.channel)
            self.out = replace_stream("stdout", self.out, new)
        if self.err is None or is_lost(self.err):
            new = _stream(ErrorBytes, 2, "<stderr>", "backslashreplace", self.channel)
            self.err = replace_stream("stderr", self.err, new)
        if is_lost(sys.stdout):
            sys.stdout = self.out  # it was a file of user code
        if is_lost(sys.stderr):
            sys.stderr = self.err
        for s in (sys.stdout, sys.stderr):
            if type(s) is io.TextIOWrapper and isinstance(s.buffer, Bytes) and not s.closed and not s.write_through:
                s.reconfigure(write_through=True)  # user code has put another text layer on the worker's bytes

    def mend(self):
        """Reopens the terminal at descriptors that user code has closed. Otherwise the next file
        that it opens would get such a number, and with it the output of the session."""
        fence, channel = self.channel.fence, self.channel
        if fence is None or channel.forked:
            return
        try:
            whole = not self.moved and _is_inheritable(1) and _is_inheritable(2) and _is_inheritable(0)
            _is_inheritable(fence.fd), _is_inheritable(channel.fd_out), _is_inheritable(channel.inbox.fd)
            if whole:
                if not os.get_blocking(1) and fence.is_terminal(1):
                    os.set_blocking(1, True)  # a child has left it nonblocking: output would be truncated, and reads would fail
                return
        except OSError:
            pass
        channel.check()
        if not _is_there(fence.fd):
            fence.open(2)
        notices = [notice for notice in map(self._mend, (0, 1, 2)) if notice]
        for notice in notices if not self.program else ():
            sys.stderr.write("[%s]\n" % notice)

    def _mend(self, fd):
        """Does the work of mend for one descriptor. Returns a notice, or None."""
        fence = self.channel.fence
        notice = "descriptor %d was closed: it is the terminal again"
        if not _is_there(fd):
            fence.put_back(fd)
        elif fence.is_terminal(fd) or fence.is_redirected(fd):
            notice = None
        else:
            notice = "descriptor %d was closed, and belongs to a file of the code now: the session goes on with the terminal"
        moved = notice is not None and _is_there(fd) and not fence.is_terminal(fd)
        if moved != (fd in self.moved):
            (self.moved.add if moved else self.moved.discard)(fd)
            stream = (None, self.out, self.err)[fd]
            if stream is not None and not is_lost(stream):
                raw = stream.buffer.raw
                name = raw.name
                raw.__init__(fence.fd if moved else fd, "wb", closefd=False)
                raw.name = name
        if notice is None or (fd, notice) in self.said:
            return None
        self.said.add((fd, notice))
        return notice % fd

    def notice(self):
        """Warns once if a cell has replaced sys.stdout with a stream that shows nothing."""
        out = getattr(sys, "stdout", None)
        if out is self.out or id(out) == self.hiding or is_lost(out):
            return
        self.hiding = id(out)
        hides = out is None or isinstance(out, io.StringIO)
        if type(out) is io.TextIOWrapper:
            hides = not isinstance(out.buffer, Bytes) and not out.isatty()
        if hides and not self.channel.forked:
            kind = "None" if out is None else "a " + type(out).__name__
            self.err.write("[sys.stdout is %s now, so what is printed is not shown: sys.stdout = sys.__stdout__ ends that]\n" % kind)

    def flush(self):
        """Flushes the worker's streams and those with which user code has replaced them."""
        self.flush_others()
        self.flush_ours()

    def flush_others(self):
        """Flushes streams that replace the worker's. This runs user code, which may do anything."""
        for name in ("stdout", "stderr"):
            s = getattr(sys, name, None)
            if s is not self.out and s is not self.err:
                try:
                    s.flush()
                except Exception:
                    pass  # it is None, closed or failing, which is the user's concern

    def flush_ours(self):
        for s in (self.out, self.err):
            try:
                s.flush()
            except OSError as e:
                if _is_of_user(e):
                    raise
                # The terminal is gone.
            except ValueError:
                if not is_lost(s):
                    raise
                # User code has closed it.


def one_write():
    """Makes print() write everything at once. The native one writes each argument and the end
    separately, and each of these writes is sent at once. So the lines of two threads would be torn,
    and each line would cost two system calls. For any other stream, the native print() is used.
    """
    native = builtins.print

    def print(*args, sep=" ", end="\n", file=None, flush=False):
        out = getattr(sys, "stdout", None) if file is None else file
        sep, end = " " if sep is None else sep, "\n" if end is None else end
        if type(out) is not Text or type(sep) is not str or type(end) is not str:
            return native(*args, sep=sep, end=end, file=file, flush=flush)
        if len(args) == 1:
            out.write(str(args[0]) + end)
        elif _PLAIN.issuperset(map(type, args)):
            out.write(sep.join(map(str, args)) + end)
        else:
            text = ""
            for i, arg in enumerate(args):
                if i:
                    text += sep
                    if type(arg) not in _PLAIN:  # its __str__ may print, too
                        out.write(text)
                        text = ""
                text += str(arg)
            out.write(text + end)
        if flush:
            out.flush()

    def choose(self):
        """Returns the native print() if user code has replaced the stream, so that its stream sees no frame of the worker."""
        return print if type(getattr(sys, "stdout", None)) is Text else native

    print.__qualname__ = "print"  # errors show these names
    replace(builtins, native, property(choose))
    builtins.print.__text_signature__ = "(*args, sep=' ', end='\\n', file=None, flush=False)"  # older Pythons have no signature
