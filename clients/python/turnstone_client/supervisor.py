"""A private supervisor: repl serve --stdio as a child of this process, which ends with it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import weakref
from typing import Any, BinaryIO, Optional

from .client import Client
from .connection import MAX_LINE, Connection
from .errors import LostConnection, TurnstoneError
from .program import find_program

# Bounds, in seconds and bytes.
START_TIMEOUT = 20.0
EXIT_TIMEOUT = 15.0  # for the end of its sessions; then it is killed
EXIT_POLL_INTERVAL = 0.05
MAX_STDERR_BYTES = 2000  # of its end, in an error

_sockets: "weakref.WeakSet[socket.socket]" = weakref.WeakSet()  # of all private supervisors of this process


def _let_go() -> None:
    """Close the sockets in a forked child, which must not keep them open and must not close the objects."""
    with contextlib.suppress(OSError):
        nothing = os.open(os.devnull, os.O_RDWR)
        for one in list(_sockets):
            if one.fileno() >= 0:
                os.dup2(nothing, one.fileno(), inheritable=False)
        os.close(nothing)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


class PrivateClient(Client):
    """The client of a supervisor that serves only this process. It does not come back once it has ended."""

    def __init__(self, repl: Optional[str] = None, author: str = ""):
        super().__init__("", author, reconnect_timeout=0)
        self._repl = repl
        self._process: "Optional[subprocess.Popen[bytes]]" = None
        self._stderr: Optional[BinaryIO] = None

    @property
    def socket(self) -> str:
        return "the private supervisor"

    @property
    def pid(self) -> int:
        """The process of the supervisor."""
        assert self._process is not None
        return self._process.pid

    async def _dial(self) -> Connection:
        if self._process is not None:
            raise await self._ended()
        if sys.platform == "win32":
            raise TurnstoneError("unsupported", "a private supervisor needs Linux or macOS here: use the client for TypeScript or Go on Windows")
        program = find_program(self._repl)
        ours, theirs = socket.socketpair()
        self._stderr = tempfile.TemporaryFile()  # type: ignore[assignment]
        try:
            # A session of its own keeps the Ctrl-C of the terminal from it: that is for this program.
            self._process = subprocess.Popen([program, "serve", "--stdio", "--parent", str(os.getpid())], stdin=theirs, stdout=theirs, stderr=self._stderr, start_new_session=True)
        except OSError as error:
            ours.close()
            raise TurnstoneError("unreachable", "%s cannot be started: %s" % (program, error)) from None
        finally:
            theirs.close()
        _sockets.add(ours)
        reader, writer = await asyncio.open_unix_connection(sock=ours, limit=MAX_LINE)
        try:
            return await self._greet(reader, writer, program, START_TIMEOUT)
        except TurnstoneError as error:
            if error.kind != "unreachable":
                raise
            raise await self._ended() from None

    async def _ended(self) -> TurnstoneError:
        """Return the error of each call after the end of the supervisor."""
        await self._reap(1.0)
        assert self._process is not None
        status = self._process.returncode
        if status is None:
            why = "it has closed its connection"
        elif status < 0:
            why = "killed by %s" % signal.Signals(-status).name
        else:
            why = "exit status %d" % status
        said = self._read_stderr()
        if self._connection is None:
            return TurnstoneError("unreachable", "the program %s did not start as a private supervisor (%s)%s" % (self._process.args[0], why, ": " + said if said else ""))  # type: ignore[index]
        return TurnstoneError("unreachable", "the private supervisor has ended (%s), and the session and its variables are gone: open a new one%s" % (why, "; it said: " + said if said else ""))

    def _read_stderr(self) -> str:
        if self._stderr is None or self._stderr.closed:
            return ""
        end = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, end - MAX_STDERR_BYTES))
        return self._stderr.read().decode("utf-8", "replace").strip()

    def _lost(self, method: str, error: LostConnection) -> TurnstoneError:
        return TurnstoneError("outcome_unknown", "the private supervisor ended during %s (%s); the session and its variables are gone" % (method, error))

    def _gone(self, why: Any) -> TurnstoneError:
        return TurnstoneError("unreachable", "the private supervisor of this session has ended: %s" % why)

    async def _reap(self, timeout: float) -> None:
        """Wait for the end of the process."""
        assert self._process is not None
        end, pause = asyncio.get_running_loop().time() + timeout, 0.001
        while self._process.poll() is None and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(pause)
            pause = min(2 * pause, EXIT_POLL_INTERVAL)

    async def close(self) -> None:
        """End the supervisor, and with it all of its sessions."""
        await super().close()
        if self._process is not None:
            await self._reap(EXIT_TIMEOUT)
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
        if self._stderr is not None:
            self._stderr.close()
