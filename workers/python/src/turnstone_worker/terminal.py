"""The output streams, and their place in the terminal's byte stream.

Text goes to the terminal itself and at once, a part of a line too, so that it is in
order with whatever else writes there: C code, child processes, forks. Frames that
belong between such bytes leave a marker among them. Small writes stay native C; an
asynchronous exception cannot make them repeat a line.
"""
import builtins
import io
import os
import sys
from _thread import get_ident

from turnstone_worker.atomic import write_all
from turnstone_worker.codec import MAX_OUTPUT
from turnstone_worker.system import KEEPS_MARKERS, out_of_the_way

_BULK = 4096  # bytes from which on a write goes to the channel: pipes are 8 times as fast
_PLAIN = frozenset((str, int, float, bool, type(None)))  # their str() runs no user code


class Fence:
    """The terminal, written to for markers."""

    def __init__(self, nonce):
        prefix = b"\x1b_" + nonce.encode() + b";"
        self.prefix = prefix
        self.to_stderr = prefix + b"E\x1b\\"
        self.to_stdout = prefix + b"O\x1b\\"
        self.marks = {"result": prefix + b"R\x1b\\", "traceback": prefix + b"T\x1b\\"}  # of text that is more than output
        name = os.ttyname(0)  # OSError: there is no terminal, and no fence
        try:
            # A file description of our own: a child that makes its terminal nonblocking
            # does not make this one so.
            fd = os.open(name, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:
            fd = os.dup(0)
        self.fd = out_of_the_way(fd)
        self.identity = _identity(0)

    def marker(self, mark):
        return b"%b#%d\x1b\\" % (self.prefix, mark)

    def is_terminal(self, fd):
        """Reports whether fd is still this terminal; user code may redirect it."""
        try:
            return _identity(fd) == self.identity
        except OSError:
            return False


def _identity(fd):
    st = os.fstat(fd)
    return st.st_dev, st.st_ino, st.st_rdev


class Bytes(io.BufferedWriter):
    """The bytes under sys.stdout. A write returns when everything is written; large ones go to the channel.

    So nothing is held that a crash could lose, or that text of another way could overtake,
    and it makes no difference which text layer is above: ours, or one that user code made.
    """

    channel = None

    def write(self, b, _native=io.BufferedWriter.write, _flush=io.BufferedWriter.flush):
        kind = None
        if self.channel is not None and self.channel.writers:
            kind = self.channel.writers.get(get_ident())
            if callable(kind):
                kind(b)
                return len(b)
        if len(b) >= _BULK and self._write_large(1, "stdout", b, kind):
            return len(b)
        if kind == "result" and self._write_marked(1, kind, b):
            return len(b)
        n = _native(self, b)
        _flush(self)
        if self.channel is not None:
            self.channel.fresh = True
        return n

    def _write_marked(self, fd, kind, b):
        """Writes text between markers, in one system call, which the kernel does not mix with others on this terminal."""
        fence = self.channel.fence
        if fence is None or not fence.is_terminal(fd):
            return False
        write_all([(fence.fd, b"".join((fence.marks.get(kind, fence.to_stderr), b, fence.to_stdout)))])
        self.channel.fresh = True
        return True

    def _write_large(self, fd, stream, b, kind=None):
        channel = self.channel
        if channel.mute or channel.fence is None or not channel.fence.is_terminal(fd):
            return False
        self.flush()
        data = memoryview(b).cast("B")
        for i in range(0, len(data), MAX_OUTPUT):
            message = {"type": "output", "stream": stream, "data": data[i : i + MAX_OUTPUT]}
            if kind is not None:
                message["kind"] = kind
            channel.send(message, True)
        return True


class ErrorBytes(Bytes):
    """The bytes under sys.stderr, between markers that identify them."""

    def write(self, b):
        fence = self.channel.fence
        if fence is None or not fence.is_terminal(2):
            return super().write(b)
        kind = self.channel.writers.get(get_ident()) if self.channel.writers else None
        if callable(kind):
            kind(b)
            return len(b)
        kind = "traceback" if kind == "traceback" else None
        if len(b) < _BULK or not self._write_large(2, "stderr", b, kind):
            self._write_marked(2, kind, b)
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


def _is_lost(stream):
    """Reports whether nothing can be written to a stream any more."""
    try:
        return stream is None or stream.closed
    except ValueError:
        return True  # its buffer is detached


def _replace(name, old, new):
    """Replaces a stream everywhere in sys."""
    for name in (name, "__%s__" % name):
        if getattr(sys, name, None) is old or old is None:
            setattr(sys, name, new)
    return new


class Streams:
    """sys.stdout and sys.stderr as this worker made them."""

    def __init__(self, channel):
        self.channel = channel
        self.out = self.err = None

    def install(self):
        """Makes the streams, and replaces those that user code has closed, detached or deleted."""
        if not hasattr(sys, "stdout"):
            sys.stdout = self.out
        if not hasattr(sys, "stderr"):
            sys.stderr = self.err
        if _is_lost(self.out):
            new = _stream(Bytes, 1, "<stdout>", "surrogateescape", self.channel)
            self.out = _replace("stdout", self.out, new)
        if _is_lost(self.err):
            new = _stream(ErrorBytes, 2, "<stderr>", "backslashreplace", self.channel)
            self.err = _replace("stderr", self.err, new)
        for s in (sys.stdout, sys.stderr):
            if type(s) is io.TextIOWrapper and isinstance(s.buffer, Bytes) and not s.closed and not s.write_through:
                s.reconfigure(write_through=True)  # user code has put another text layer on our bytes

    def flush(self):
        """Flushes the streams, and also those that user code has put in our place."""
        self.flush_others()
        self.flush_ours()

    def flush_others(self):
        """Flushes the streams that user code put in our place. User code runs there, and may do anything."""
        for name in ("stdout", "stderr"):
            s = getattr(sys, name, None)
            if s is not self.out and s is not self.err:
                try:
                    s.flush()
                except Exception:
                    pass  # None, closed, or failing: not our business

    def flush_ours(self):
        for s in (self.out, self.err):
            try:
                s.flush()
            except (OSError, ValueError):
                pass  # the terminal is gone, or user code has closed it


def one_write():
    """Makes print() write everything at once. The native one writes each argument and the end separately.

    Each write goes out at once: the lines of two threads would be torn, and each line
    would cost two system calls. Whatever else is written to is left to the native one.
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

    print.__doc__ = native.__doc__
    print.__module__ = "builtins"
    print.__qualname__ = "print"
    builtins.print = print
