"""The output streams, and their place in the terminal's byte stream.

Text goes to the terminal itself, so that it is in order with whatever else writes
there: C code, child processes, forks. Frames that belong between such bytes leave a
marker among them. Small writes stay native C; an asynchronous exception cannot make
them repeat a line.
"""
import io
import os
import sys
from _functools import partial

from turnstone_worker.atomic import together, write_all
from turnstone_worker.codec import MAX_OUTPUT
from turnstone_worker.system import KEEPS_MARKERS, out_of_the_way

_BULK = 4096  # characters from which on a write goes to the channel: pipes are 8 times as fast
_LINE = 2000  # characters of an unfinished stderr line that are held at most
_writev = getattr(os, "writev", None)  # there is a fence where it is


class Fence:
    """The terminal, written to for markers."""

    def __init__(self, nonce):
        prefix = b"\x1b_" + nonce.encode() + b";"
        self.prefix = prefix
        self.to_stderr = prefix + b"E\x1b\\"
        self.to_stdout = prefix + b"O\x1b\\"
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
        """Reports whether fd is this terminal still: user code may redirect it."""
        try:
            return _identity(fd) == self.identity
        except OSError:
            return False


def _identity(fd):
    st = os.fstat(fd)
    return st.st_dev, st.st_ino, st.st_rdev


class Output(io.TextIOWrapper):
    """sys.stdout: native, line buffered; what is large goes to the channel."""

    channel = None

    def write(self, s, _native=io.TextIOWrapper.write):
        if len(s) < _BULK or type(s) is not str:
            return _native(self, s)
        channel = self.channel
        if channel.mute or channel.fence is None or not channel.fence.is_terminal(1):
            return _native(self, s)
        self.flush()
        data = memoryview(s.encode(self.encoding, self.errors))
        for i in range(0, len(data), MAX_OUTPUT):
            channel.send({"type": "output", "stream": "stdout", "data": data[i : i + MAX_OUTPUT]}, True)
        return len(s)


class Errors(io.TextIOWrapper):
    """sys.stderr: whole lines, between markers that say what they are."""

    channel = None

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.pending = []

    def write(self, s, _native=io.TextIOWrapper.write):
        fence = self.channel.fence
        if type(s) is not str or fence is None or not fence.is_terminal(2):
            return _native(self, s)
        self.pending.append(s)
        if "\n" in s or "\r" in s or sum(map(len, self.pending)) > _LINE:
            self._write_pending()
        return len(s)

    def flush(self):
        if self.pending:
            self._write_pending()
        super().flush()

    def _write_pending(self):
        pending, fence = self.pending, self.channel.fence
        n = len(pending)
        data = "".join(pending[:n]).encode(self.encoding, self.errors)
        if not data:
            return
        if len(data) >= _BULK and not self.channel.mute:
            for i in range(0, len(data), MAX_OUTPUT):
                self.channel.send({"type": "output", "stream": "stderr", "data": data[i : i + MAX_OUTPUT]}, True)
            del pending[:n]
            return
        # One system call, which the kernel does not mix with others on this terminal.
        # The text is dropped from pending with no bytecode in between.
        done = []
        together(
            done,
            partial(_writev, fence.fd, (fence.to_stderr, data, fence.to_stdout)),
            partial(pending.__delitem__, slice(0, n)),
        )
        rest = (fence.to_stderr + data + fence.to_stdout)[done[0] :]
        if rest:
            write_all([(fence.fd, rest)], must=True)


def _stream(kind, fd, name, errors, channel):
    raw = io.FileIO(fd, "wb", closefd=False)
    raw.name = name
    s = kind(io.BufferedWriter(raw, 8192), "utf-8", errors, line_buffering=True)
    s.mode = "w"
    s.channel = channel
    return s


if not KEEPS_MARKERS:
    from turnstone_worker.framed import stream as _stream


class Streams:
    """sys.stdout and sys.stderr as this worker made them."""

    def __init__(self, channel):
        self.channel = channel
        self.out = self.err = None

    def install(self):
        """Makes the streams, and anew what user code has closed or deleted of them."""
        if not hasattr(sys, "stdout"):
            sys.stdout = self.out
        if not hasattr(sys, "stderr"):
            sys.stderr = self.err
        if self.out is None or self.out.closed:
            self.out = _stream(Output, 1, "<stdout>", "surrogateescape", self.channel)
            sys.stdout = sys.__stdout__ = self.out
        if self.err is None or self.err.closed:
            self.err = _stream(Errors, 2, "<stderr>", "backslashreplace", self.channel)
            sys.stderr = sys.__stderr__ = self.err

    def flush(self):
        """Writes out what is buffered, also in streams that user code put in our place."""
        self.flush_others()
        self.flush_ours()

    def flush_others(self):
        """The streams that user code put in our place: its own code runs, and may do anything."""
        for name in ("stdout", "stderr"):
            s = getattr(sys, name, None)
            if s is not self.out and s is not self.err:
                try:
                    s.flush()
                except Exception:
                    pass  # it is None, closed, or not ours to complain about

    def flush_ours(self):
        for s in (self.out, self.err):
            try:
                s.flush()
            except (OSError, ValueError):
                pass  # the terminal is gone, or user code has closed it
