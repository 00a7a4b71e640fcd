"""The output streams for a terminal that does not preserve markers: text is sent over the channel.

Output that bypasses them, from C code and child processes, is written to the terminal and arrives
when the terminal shows it.
"""
import io
import msvcrt
import os
from _thread import get_ident

from turnstone_worker.codec import MAX_OUTPUT
from turnstone_worker.interrupt import critical


_KINDS = {"stdout": "result", "stderr": "traceback"}  # the marked kind of text in each stream


class _Raw(io.RawIOBase):
    """A stream's bytes, under a BufferedWriter."""

    mode = "wb"

    def __init__(self, channel, fd, name):
        self.channel = channel
        self.fd = fd
        self.name = name
        self.stream = name.strip("<>")
        self.identity = _identity(fd)

    def writable(self):
        return True

    def fileno(self):
        return self.fd

    def isatty(self):
        return os.isatty(self.fd)

    @critical  # otherwise an interrupt makes the buffer believe that nothing was written
    def write(self, b):
        channel = self.channel
        if channel.mute or _identity(self.fd) != self.identity:  # user code has redirected it
            return os.write(self.fd, b)
        data = bytes(b[:MAX_OUTPUT])
        kind = channel.writers.get(get_ident()) if channel.writers else None
        if callable(kind):
            kind(data)
            return len(data)
        message = {"type": "output", "stream": self.stream, "data": data}
        if kind == "begin" and self.stream == "stdout":
            kind = channel.writers[get_ident()] = "result"  # what follows continues the echo
            message["begins"] = True
        if kind == _KINDS[self.stream]:
            message["kind"] = kind
        channel._send(message, True)
        return len(data)


def _identity(fd):
    """Identifies the file behind fd. All descriptors of the console count as the same."""
    try:
        os.get_terminal_size(fd)
        return "console"
    except OSError:
        pass
    try:
        return msvcrt.get_osfhandle(fd)
    except OSError:
        return None


class Bytes(io.BufferedWriter):
    """The bytes of a stream. A write returns when everything is written."""

    def close(self):
        self.flush()

    def write(self, b, _native=io.BufferedWriter.write, _flush=io.BufferedWriter.flush):
        n = _native(self, b)
        _flush(self)
        return n


class Text(io.TextIOWrapper):
    """sys.stdout or sys.stderr."""

    channel = None

    def write(self, s, _native=io.TextIOWrapper.write):
        n = _native(self, s)
        interrupts = self.channel.interrupts
        if interrupts.deferred and get_ident() == interrupts.main:
            interrupts.catch_up()
        return n


def stream(_, fd, name, errors, channel):
    s = Text(Bytes(_Raw(channel, fd, name), MAX_OUTPUT), "utf-8", errors, "\n", write_through=True)
    s.mode = "w"
    s.channel = channel
    return s
