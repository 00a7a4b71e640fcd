"""Standard input: the worker asks, the supervisor answers.

The worker asks for one line at a time, so that it buffers nothing that no reader wanted. Child
processes and C code read the terminal itself, and all readers share the supervisor's queue. Only
readinto() and readall() are Python code; decoding, lines and buffers are those of the io module.
"""
import builtins
import io
import os
import sys
from _thread import RLock, get_ident
from select import select

from turnstone_worker.codec import text
from turnstone_worker.frames import native_getframe
from turnstone_worker.natives import replace
from turnstone_worker.system import find_takes_keys
from turnstone_worker.terminal import is_lost, replace_stream

_native_input = builtins.input


class _Raw(io.RawIOBase):
    """Standard input's bytes, under a BufferedReader."""

    name = "<stdin>"
    mode = "rb"

    def __init__(self, stdin):
        self.stdin = stdin

    def readable(self):
        return True

    def fileno(self):
        return 0

    def isatty(self):
        return os.isatty(0)

    def readinto(self, buffer):
        return self.stdin.readinto(buffer)

    def readall(self):
        return self.stdin.readall()


class _Bytes(io.BufferedReader):
    """The bytes under sys.stdin."""

    def close(self):
        pass  # a text layer of user code closes its bytes when it is freed


class _Text(io.TextIOWrapper):
    """sys.stdin."""

    mode = "r"

    def close(self):
        pass  # quit() closes it, and the next turn may read


class Stdin:
    def __init__(self, channel, streams):
        self.channel = channel
        self.streams = streams
        self.line = b""  # the unread rest of the last answer
        self.eof = False  # the last answer ends with end of file
        self.used = False  # something was read in this turn
        self.draining = False
        self.spoiled = False  # an interrupt has discarded unread input
        self.readers = 0  # threads that wait for an answer
        self.prompt = ""  # of the input() that is about to read
        self.kind = "line"
        self.turnstile = RLock()  # of input(): a prompt belongs to its reader
        self.text = None
        self.takes_keys = None  # unless a user is at the terminal
        if os.environ.get("TERM", "dumb") != "dumb":
            self.takes_keys = find_takes_keys()  # imported now, because a user's handler may raise during an import

    def mend(self):
        """Creates the stream, and replaces one that user code has closed or detached."""
        if self.text is None or is_lost(self.text):
            self.text = replace_stream("stdin", self.text, _Text(_Bytes(_Raw(self)), "utf-8", "surrogateescape", newline=None if os.name == "nt" else "\n"))
        if not hasattr(sys, "stdin") or is_lost(sys.stdin):
            sys.stdin = self.text

    def install(self):
        self.mend()

        def input(prompt="", /):
            return self.input(prompt)

        replace(builtins, _native_input, input)

    # ------------------------------------------------------------ asking

    def ask(self, prompt, kind="line", want="line"):
        """Returns one answer to one request: its bytes, and whether end of file follows.

        A thread that still waits at the end of its turn asks again in the next turn.
        """
        self.streams.flush()
        channel = self.channel
        while True:
            if channel.ending:
                return self._ended()
            if not channel.active:
                if get_ident() == channel.interrupts.main:
                    return b"", True  # a signal handler between turns
                channel.wait(lambda: channel.active or channel.ending)
                continue
            answer = self._ask_once(channel.turn, text(prompt), kind, want)
            if answer is not None and (answer["input"] or answer["eof"]):
                return answer["input"], answer["eof"]

    def _ask_once(self, turn, prompt, kind, want):
        channel = self.channel
        wait = None
        self.readers += 1
        try:
            wait = channel.ask({"type": "stdin_wait", "turn": turn, "prompt": prompt, "kind": kind, "want": want})
            channel.wait(lambda: wait in channel.answers or channel.turn != turn or not channel.active or channel.ending)
            answer = channel.answers.get(wait)
            if answer is not None and answer["input"]:
                line = {"type": "input_line", "turn": turn, "prompt": prompt, "secret": kind == "secret"}
                if kind != "secret":
                    line["text"] = answer["input"].decode("utf-8", "replace").rstrip("\n")
                channel.send(line, True)
            return answer
        finally:
            self.readers -= 1
            channel.asked.pop(wait, None)
            channel.answers.pop(wait, None)

    def _ended(self):
        if self.channel.closed and self.channel.shutdown is None and get_ident() == self.channel.interrupts.main:
            self.channel.wait(lambda: False)  # raises, because no answer will ever come
        return b"", True

    # ------------------------------------------------------------ the stream

    def readinto(self, buffer):
        if self.draining:
            return 0
        if not self.line:
            if self._is_elsewhere():
                data = os.read(0, len(buffer))
                buffer[: len(data)] = data
                return len(data)
            self.line = self._next("line")
        n = min(len(buffer), len(self.line))
        buffer[:n] = self.line[:n]
        self.line = self.line[n:]
        return n

    def readall(self):
        if self.draining:
            return b""
        parts = [self.line]
        self.line = b""
        while True:
            if self._is_elsewhere():
                data = os.read(0, 1 << 16)
            else:
                data = self._next("all")
            if not data:
                return b"".join(parts)
            parts.append(data)

    def _is_elsewhere(self):
        """Reports whether the next bytes come from fd 0 itself. That is so in a forked child, if
        user code has redirected it, and if it holds bytes that were meant for a reader of the
        terminal. It is also so if the code has set the terminal to deliver each key of a user."""
        channel = self.channel
        if channel.forked:
            return True
        if channel.fence is None:
            return False
        if not channel.fence.is_terminal(0):
            return channel.fence.is_redirected(0)
        return bool(select((0,), (), (), 0)[0]) or self.takes_keys is not None and self.takes_keys(0)

    def _next(self, want):
        if self.eof:
            self.eof = False
            return b""
        prompt, self.prompt = self.prompt, ""
        self.used = True
        data, eof = self.ask(prompt, self.kind, want)
        self.eof = eof and bool(data)
        return data

    def discard(self):
        """Drops input that was read ahead, because it belongs to the turn that ends."""
        self.line, self.eof, self.spoiled = b"", False, False
        if not self.used or self.readers:
            return  # a waiting reader has found the buffers empty, and holds their lock
        self.used = False
        self.draining = True
        try:
            self.text.read()
        except (OSError, ValueError):
            pass
        finally:
            self.draining = False

    # ------------------------------------------------------------ input()

    def input(self, prompt):
        if getattr(sys, "stdin", None) is not self.text or self.channel.forked:
            return _native_input(prompt)
        sys.audit("builtins.input", prompt)
        shown = str(prompt)
        with self.turnstile:
            if self.spoiled:
                self.discard()
            self.streams.flush()
            if shown:
                sys.stdout.write(shown)
                sys.stdout.flush()
            self.prompt, self.kind = shown, _kind(shown)
            try:
                line = self.text.readline()
            except KeyboardInterrupt:
                self.spoiled = True
                raise
            finally:
                self.prompt, self.kind = "", "line"
        if not line:
            raise EOFError("EOF when reading a line")
        if line[-1] == "\n":
            line = line[:-1]
        sys.audit("builtins.input/result", line)
        return line

    def getpass(self, prompt="Password: ", stream=None):
        """Does the same as getpass.getpass at a terminal: asks for input without showing it."""
        out = self.streams.out if stream is None else stream
        out.write(prompt)
        out.flush()
        data, _ = self.ask(prompt, "secret")
        out.write("\n")
        out.flush()
        if not data:
            raise EOFError
        line = data.decode("utf-8", "surrogateescape")
        return line[:-1] if line.endswith("\n") else line

    def release(self):
        while self.turnstile._is_owned():
            self.turnstile.release()


def _kind(prompt):
    """Returns the kind of reader: a debugger, an interpreter within the interpreter, or a program."""
    if prompt == getattr(sys, "ps2", None):
        return "continue"
    bdb = sys.modules.get("bdb")
    if bdb is not None:
        frame = native_getframe(3)  # the caller of input()
        for _ in range(3):
            if frame is None:
                break
            if isinstance(frame.f_locals.get("self"), bdb.Bdb):
                return "debugger"
            frame = frame.f_back
    return "line"
