"""A worker in Python: the protocol, for the language in language.py.

It has one thread. While code runs, it checks the channel when SIGINT arrives, which follows an
interrupt; otherwise it waits for the next frame. SIGINT is blocked except while code runs.

It needs Python 3.8 or newer, on Linux or macOS, and no packages.
"""

import os
import select
import signal
import struct
import sys

from language import Language


def pack(v):
    """Encodes a value as MessagePack, in the longest form of each type."""
    if v is None or v is True or v is False:
        return {None: b"\xc0", True: b"\xc3", False: b"\xc2"}[v]
    if isinstance(v, int):
        return struct.pack(">BQ", 0xCF, v) if v >= 0 else struct.pack(">Bq", 0xD3, v)
    if isinstance(v, str):
        b = v.encode("utf-8", "replace")
        return struct.pack(">BI", 0xDB, len(b)) + b
    if isinstance(v, bytes):
        return struct.pack(">BI", 0xC6, len(v)) + v
    if isinstance(v, list):
        return struct.pack(">BI", 0xDD, len(v)) + b"".join(map(pack, v))
    entries = [pack(k) + pack(e) for k, e in v.items() if e is not None]
    return struct.pack(">BI", 0xDF, len(entries)) + b"".join(entries)


class Unpacker:
    """Decodes the one value in some bytes."""

    SIZED = {0xC4: ">B", 0xC5: ">H", 0xC6: ">I", 0xD9: ">B", 0xDA: ">H", 0xDB: ">I"}
    NUMBERS = {0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q",
               0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}

    def __init__(self, b):
        self.b, self.at = b, 0

    def take(self, n):
        self.at += n
        if self.at > len(self.b):
            raise ValueError("a value is truncated")
        return self.b[self.at - n:self.at]

    def number(self, form):
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def whole(self):
        v = self.value(0)
        if self.at != len(self.b):
            raise ValueError("bytes after the value")
        return v

    def value(self, depth):
        c = self.number(">B")
        if depth > 16:
            raise ValueError("a value is nested too deep")
        if c < 0x80 or c >= 0xE0:
            return c if c < 0x80 else c - 256
        if c < 0x90 or c in (0xDE, 0xDF):
            n = c & 15 if c < 0x90 else self.number(">H" if c == 0xDE else ">I")
            pairs = [(self.value(depth + 1), self.value(depth + 1)) for _ in range(n)]
            if len(dict(pairs)) != n:
                raise ValueError("duplicate key")
            return dict(pairs)
        if c < 0xA0 or c in (0xDC, 0xDD):
            n = c & 15 if c < 0xA0 else self.number(">H" if c == 0xDC else ">I")
            return [self.value(depth + 1) for _ in range(n)]
        if c < 0xC0:
            return self.take(c & 31).decode()
        if c in self.SIZED:
            b = self.take(self.number(self.SIZED[c]))
            return b.decode() if c >= 0xD9 else b
        if c in self.NUMBERS:
            return self.number(self.NUMBERS[c])
        if c in (0xC0, 0xC2, 0xC3):
            return {0xC0: None, 0xC2: False, 0xC3: True}[c]
        raise ValueError("byte %d begins no value" % c)


class Leave(BaseException):
    """Unwinds the code of a worker that must end."""


class Worker:
    def __init__(self):
        inward, outward, self.nonce = os.environ.pop("REPL_IPC").split(",")
        self.inward, self.outward = int(inward), int(outward)
        self.terminal = os.dup(1)  # the worker's own descriptor: code may close its copy
        for fd in self.inward, self.outward, self.terminal:
            os.set_inheritable(fd, False)
        os.register_at_fork(after_in_child=self.forget)
        self.marks = self.waits = self.turn = 0
        self.acted = set()  # the handled interrupts of the turn
        self.reading = self.interrupted = False
        self.unread = b""
        self.language = Language(self.ask)

    def forget(self):
        """A forked child must not use the channel."""
        os.close(self.inward)
        os.close(self.outward)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    # Frames and text

    def send(self, type, marked=False, **fields):
        """Sends a frame. If it has a position in the text, its marker is written first."""
        if marked:
            self.marks += 1
            fields["mark"] = self.marks
            self.write("", "#%d" % self.marks)
        b = pack(dict(type=type, **fields))
        self.write_all(self.outward, struct.pack(">I", len(b)) + b)

    def write(self, text, *markers):
        """Writes text to standard error, or just markers, after the printed text."""
        for stream in sys.stdout, sys.stderr:
            try:
                stream.flush()
            except Exception:
                pass  # code has closed or replaced it
        parts = ["\x1b_%s;%s\x1b\\" % (self.nonce, m) for m in markers or ("E", "O")]
        self.write_all(self.terminal, (parts[0] + text + "".join(parts[1:])).encode("utf-8", "replace"))

    @staticmethod
    def write_all(fd, b):
        while b:
            b = b[os.write(fd, b):]

    def receive(self):
        """Waits for the next frame. The end of the channel ends the worker."""
        while True:
            if len(self.unread) >= 4:
                size = struct.unpack(">I", self.unread[:4])[0]
                if size > 64 << 20:
                    self.refuse("a frame is too long")
                if len(self.unread) >= 4 + size:
                    b, self.unread = self.unread[4:4 + size], self.unread[4 + size:]
                    try:
                        return Unpacker(b).whole()
                    except (ValueError, TypeError) as e:
                        self.refuse(str(e))
            b = os.read(self.inward, 1 << 16)
            if not b:
                os._exit(0)
            self.unread += b

    def refuse(self, why):
        self.send("session_end", True, reason="protocol_error", message=why)
        os._exit(1)

    # Turns

    def serve(self):
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        signal.signal(signal.SIGINT, self.signalled)
        self.send("worker_ready", protocol={"name": "turnstone-worker", "version": 1},
                  worker={"name": self.language.name, "version": "1", "language": self.language.name,
                          "runtime_version": self.language.version, "executable": sys.executable, "pid": os.getpid()},
                  capabilities={"images": False, "fence": True, "query": True, "variables": True, "interrupt": "signal"})
        self.send("idle", True, turn=0, prompt="> ", outcome="ok")
        while True:
            m = self.receive()
            if m["type"] == "turn_start":
                self.run(m["turn"], m["input"].decode("utf-8", "replace"), m.get("no_exit", False))
            elif m["type"] == "query":
                self.send("query_result", id=m["id"], **self.language.query(m["kind"], m["text"], m["cursor"]))
            else:
                self.take(m)

    def run(self, turn, text, no_exit):
        """Runs an input and reports how it ended."""
        while signal.sigtimedwait([signal.SIGINT], 0):
            pass  # a signal of the previous turn
        self.turn, self.acted, self.interrupted = turn, set(), False
        outcome = {"outcome": "ok"}
        try:
            try:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
                self.language.run(text)
            finally:
                signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        except Leave:
            self.leave("shutdown", 0)
        except SystemExit as e:
            if no_exit:
                self.write("an exit ends the input, not the session\n")
                outcome = {"outcome": "error", "error": {"name": "SystemExit", "message": self.message(e)}}
                return self.rest(turn, outcome)
            code = e.code if isinstance(e.code, int) else int(e.code is not None)
            self.leave("exit", code, code=code)
        except BaseException as e:
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
            words = self.language.words(e)
            if words:
                self.write(words)
            outcome = {"outcome": "error", "error": {"name": type(e).__name__, "message": self.message(e)}}
            if self.interrupted:
                outcome = {"outcome": "interrupted"}
        self.rest(turn, outcome)

    def rest(self, turn, outcome):
        self.turn = 0
        self.send("idle", True, turn=turn, prompt="> ", **outcome)

    @staticmethod
    def message(error):
        try:
            return str(error)[:4000]
        except Exception:
            return ""  # an error of user code

    def leave(self, reason, status, **fields):
        self.send("session_end", True, reason=reason, **fields)
        os._exit(status)

    def ask(self, prompt=""):
        """Asks for a line and returns it. Code calls this to read its input."""
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            self.waits += 1
            wait = self.waits
            self.send("stdin_wait", True, turn=self.turn, wait=wait, prompt=prompt, kind="line", want="line")
            while True:
                m = self.receive()
                if m["type"] != "turn_input":
                    self.take(m)
                elif m["turn"] == self.turn and m["wait"] == wait:
                    break
            if m["eof"] and not m["input"]:
                raise EOFError("end of file")
            line = m["input"].decode("utf-8", "replace").rstrip("\r\n")
            self.send("input_line", True, turn=self.turn, prompt=prompt, text=line, secret=False)
            return line
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])

    # Interrupts

    def signalled(self, *_):
        """SIGINT while code runs: the frames carry the interrupt. A later signal reads the frames
        that this one leaves."""
        if self.reading or not self.turn:
            return
        self.reading = True
        try:
            while self.unread or select.select([self.inward], [], [], 0)[0]:
                self.take(self.receive())
        finally:
            self.reading = False

    def take(self, m):
        """Handles a frame other than turn_start."""
        if m["type"] == "interrupt":
            active = self.turn and m["turn"] == self.turn
            self.send("interrupt_ack", turn=m["turn"], seq=m["seq"], result="raised" if active else "stale")
            if active and m["seq"] not in self.acted:
                self.acted.add(m["seq"])
                self.interrupted = True
                raise KeyboardInterrupt
        elif m["type"] == "shutdown":
            if self.turn:
                raise Leave
            self.leave("shutdown", 0)
        elif m["type"] != "turn_input":  # a late turn_input answers a wait that is over
            self.refuse("a message of the type %s" % m["type"])


if __name__ == "__main__":
    Worker().serve()
