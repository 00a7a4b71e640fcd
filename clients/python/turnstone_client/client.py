"""The client of a daemon. It connects again when its connection is lost, and repeats what it may repeat."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from collections import OrderedDict
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import wire
from .connection import MAX_LINE, Connection, Progress
from .discovery import default_socket, proof_for
from .errors import LostConnection, TurnstoneError
from .proof import Proof
from .functions import FunctionHost
from .session import AsyncSession
from .follower import Follower

# Bounds, in seconds.
DIAL_TIMEOUT = 5.0
RECONNECT_TIMEOUT = 30.0  # from the loss of a connection until its calls fail
RECONNECT_PAUSES = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
MAX_LOSSES = 8  # of connections in a row during one call: it may be the reason
MAX_IDLE_FOLLOWERS = 32  # subscriptions kept for the next run(); the daemon allows 64 on a connection

# Methods that change something. A request id lets the daemon answer a repetition without a second effect.
CHANGES = frozenset(("session/create", "session/reset", "session/close", "turn/start", "turn/input", "turn/type", "turn/interrupt", "file/remove"))
# Other methods with an effect are not repeated at another daemon: they were about a session that is gone.
READS = ("server/", "connection/list", "session/list", "session/get", "timeline/", "output/", "query/", "blob/", "file/list", "file/get", "turn/wait")


async def connect(socket: Optional[str] = None, *, author: str = "", reconnect_timeout: float = RECONNECT_TIMEOUT) -> "Client":
    """Connect to the daemon at a socket, by default the user's own, within 5 s.

    author is the name under which inputs, answers and interrupts are recorded. When the connection is
    lost later, calls wait for reconnect_timeout seconds until the daemon is reached again. An error is
    a TurnstoneError of kind "unreachable", or "protocol" for a daemon of another version.
    """
    client = Client(socket, author, reconnect_timeout=reconnect_timeout)
    await client._connected_first()
    return client


def _protocol_message(where: str, version: str, protocol: int) -> str:
    """Say which side is older, and how to go on."""
    age, advice = "older", ""
    if protocol > wire.PROTOCOL:
        age, advice = "newer", "upgrade this client, or "
    return "the daemon at %s is %s than this client: version %s speaks protocol %s, and this client speaks %s; %send the daemon, its sessions and their variables with repl daemon drain" % (
        where, age, version, protocol, wire.PROTOCOL, advice)


class Client:
    """A client of one daemon, for one event loop. Use connect() to make one."""

    def __init__(self, socket: Optional[str] = None, author: str = "", *, reconnect_timeout: float = RECONNECT_TIMEOUT):
        self.author = author
        self._socket = socket
        self._reconnect_timeout = reconnect_timeout
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._process_id = os.getpid()
        self._id = secrets.token_urlsafe(24)  # names this client to the daemon on each of its connections
        self._epoch = 0
        self._connection: Optional[Connection] = None
        self._dialing: "Optional[asyncio.Task[Connection]]" = None
        self._lost_at = 0.0
        self._last_request = 0
        self._closed = False
        self._functions = FunctionHost(self)  # of this program, for the code of sessions
        self._followers: "OrderedDict[int, AsyncSession]" = OrderedDict()  # sessions whose subscription waits for the next run()

    def __reduce__(self) -> Any:
        raise TypeError("a %s cannot be pickled: it belongs to this process; connect in each process" % type(self).__name__)

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    @property
    def socket(self) -> str:
        """The address of the daemon."""
        return self._socket or default_socket()

    async def close(self) -> None:
        """End the connection. The sessions stay alive. A running events() ends with an error."""
        if self._loop is not None and self._loop.is_closed():
            return  # which has ended the connection
        self._check_use()
        self._closed = True
        if self._dialing is not None:
            self._dialing.cancel()
            await asyncio.wait([self._dialing])
        if self._connection is not None:
            await self._connection.close()

    def _check_use(self) -> None:
        """Refuse a call in another process or event loop, which would never be answered."""
        if self._process_id != os.getpid():
            raise TurnstoneError("unsupported", "this connection belongs to process %d, and a process that was forked from it cannot use it: open another one there" % self._process_id)
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        if self._loop is not asyncio.get_running_loop():
            raise RuntimeError("this client was connected in another event loop, or thread: connect in this one, too")

    # ---- the connection

    async def _connected(self) -> Connection:
        """Return the connection. If it was lost, connect again, together with all other calls."""
        while True:
            if self._closed:
                raise self._gone("it was closed")
            if self._connection is not None and not self._connection.lost:
                return self._connection
            if self._dialing is None:
                self._dialing = asyncio.ensure_future(self._dial_again())
                self._dialing.add_done_callback(self._dialed)
            dialing = self._dialing
            await asyncio.wait([dialing])  # does not cancel it
            if not dialing.cancelled():
                dialing.result()

    def _dialed(self, dialing: "asyncio.Task[Connection]") -> None:
        self._dialing = None
        if not dialing.cancelled() and dialing.exception() is None:
            self._connection = dialing.result()

    async def _dial_again(self) -> Connection:
        """Connect. After a loss, try until RECONNECT_TIMEOUT is over, and at least once."""
        loop = asyncio.get_running_loop()
        if self._connection is None:
            return await self._dial()
        if not self._lost_at:
            self._lost_at = loop.time()
        attempt = 0
        while True:
            try:
                connection = await self._dial()
                self._lost_at = 0.0
                return connection
            except TurnstoneError as error:
                pause = RECONNECT_PAUSES[min(attempt, len(RECONNECT_PAUSES) - 1)]
                if error.kind != "unreachable" or loop.time() + pause >= self._lost_at + self._reconnect_timeout:
                    raise
            await asyncio.sleep(pause)
            attempt += 1

    async def _dial(self) -> Connection:
        if sys.platform == "win32":
            raise TurnstoneError("unsupported", "this client supports only Unix sockets, and on Windows the daemon listens at a named pipe: use the client for TypeScript or Go there")
        path = self.socket
        try:
            owner = os.stat(path).st_uid
            if owner not in (os.getuid(), 0):
                raise TurnstoneError("unreachable", "%s belongs to user %d, not to you: the daemon of another user would see your code" % (path, owner))
            proof = proof_for(path)
            reader, writer = await asyncio.wait_for(asyncio.open_unix_connection(path, limit=MAX_LINE), DIAL_TIMEOUT)
        except (OSError, asyncio.TimeoutError) as error:
            raise TurnstoneError("unreachable", "no daemon answers at %s (%s); start one with repl serve" % (path, error)) from None
        await self._check(path, proof, reader, writer)
        return await self._greet(reader, writer, path)

    async def _check(self, path: str, proof: Proof, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Verify that the program at the socket is a daemon of this user. Nothing else is sent before."""
        try:
            writer.write(proof.question())
            fault = proof.fault(await asyncio.wait_for(reader.readline(), DIAL_TIMEOUT))
        except asyncio.TimeoutError:
            fault = "it does not answer"
        except (OSError, ValueError) as error:  # a line that is too long is a ValueError
            fault = str(error)
        except asyncio.CancelledError:
            writer.close()
            raise
        if fault:
            writer.close()
            raise TurnstoneError("unreachable", "the program that listens at %s does not prove that it is your daemon, so nothing is sent to it: %s" % (path, fault))

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, where: str, timeout: float = DIAL_TIMEOUT) -> Connection:
        """Identify this client, as every connection does first."""
        connection = Connection(reader, writer)
        self._epoch += 1
        try:
            about = await asyncio.wait_for(connection.call("client/hello", {"id": self._id, "epoch": self._epoch}), timeout)
            if about["protocol"] != wire.PROTOCOL:
                raise TurnstoneError("protocol", _protocol_message(where, about["version"], about["protocol"]))
        except BaseException as error:
            await connection.close()
            if isinstance(error, asyncio.TimeoutError):
                raise TurnstoneError("unreachable", "the program that listens at %s does not answer like a daemon" % where) from None
            if isinstance(error, LostConnection):
                raise TurnstoneError("unreachable", "the connection to the daemon at %s ended: %s" % (where, error)) from None
            raise
        connection.daemon = about["pid"], about["started"]
        connection.known = bool(about.get("known"))
        connection.functions = self._functions
        self._functions.connected(connection, self._connection.daemon if self._connection is not None else None)
        return connection

    async def _connected_first(self) -> None:
        """Connect now. Otherwise the first call connects."""
        self._check_use()
        await self._connected()

    async def _keep_follower(self, session: "AsyncSession", follower: Follower) -> None:
        """Keep the subscription of a session for its next run(). The one that was not used for longest ends."""
        self._followers[id(follower)] = session
        if len(self._followers) > MAX_IDLE_FOLLOWERS:
            _, oldest = self._followers.popitem(last=False)
            await oldest._drop_follower()

    def _gone(self, why: Any) -> TurnstoneError:
        return TurnstoneError("unreachable", "the connection to the daemon at %s ended: %s" % (self.socket, why))

    # ---- calls

    async def call(self, method: str, params: Optional[Dict[str, Any]] = None, progress: Optional[Progress] = None) -> Any:
        """Call a method and return its result.

        When the task is cancelled, the daemon interrupts or abandons the work, as described in
        docs/daemon-protocol.md. A call that started or answered a turn ends when the interrupt has
        taken effect, or after 5 s, so that the session can take the next input. A reset or close
        continues; the call ends with it, or after 5 s. progress is called with the seconds and a
        message while a long call runs. If it raises, the call ends with that error and the work
        continues.

        If the connection is lost, the call is repeated on the next one, and its effect happens once.
        If the daemon was restarted in between, only calls without an effect are repeated. The error
        of the others has the kind "outcome_unknown".
        """
        return await self._call(method, params, progress)

    async def _call(self, method: str, params: Optional[Dict[str, Any]] = None, progress: Optional[Progress] = None, session: "Optional[AsyncSession]" = None) -> Any:
        self._check_use()
        params = dict(params or {})
        if method in CHANGES:
            params.setdefault("request", self.next_request())
        end = asyncio.get_running_loop().time() + params.get("wait_ms", 0) / 1000
        before: Optional[Connection] = None
        losses = 0
        while True:
            try:
                connection = await self._connected()
            except TurnstoneError as error:
                if before is None or method not in CHANGES or error.kind != "unreachable" or self._closed:
                    raise
                raise TurnstoneError("outcome_unknown", "%s may have had its effect: %s" % (method, error)) from None
            if before is not None:
                self._check_repetition(method, before, connection)
                if "wait_ms" in params:
                    params["wait_ms"] = max(1, int(1000 * (end - asyncio.get_running_loop().time())))
            if session is not None:
                session._check_daemon(connection)
            try:
                return await connection.call(method, params, progress)
            except LostConnection as error:
                before, losses = connection, losses + 1
                if losses > MAX_LOSSES:
                    raise self._gone("%d connections in a row ended during %s (%s)" % (losses, method, error)) from None

    def next_request(self) -> str:
        """Return a name for a call that changes something."""
        self._last_request += 1
        return "%x" % self._last_request

    def _check_repetition(self, method: str, before: Connection, connection: Connection) -> None:
        """Refuse to repeat a call that may have had its effect."""
        if connection.daemon != before.daemon:
            if not method.startswith(READS):
                raise TurnstoneError("outcome_unknown", "the daemon was restarted at %s and its sessions are gone; %s was not repeated and may have had its effect" % (connection.daemon[1], method))
        elif method in CHANGES and not connection.known:
            raise TurnstoneError("outcome_unknown", "the daemon forgot this client while the connection was down; %s was not repeated and may have had its effect" % method)

    # ---- the daemon

    async def info(self) -> wire.Daemon:
        """Describe the daemon."""
        return await self.call("server/info")

    async def list(self) -> List[wire.Session]:
        """Describe all sessions, by name."""
        return (await self.call("session/list"))["sessions"]

    async def create(self, name: str = "", **params: Any) -> "AsyncSession":
        """Create a session; for "" the daemon chooses a name. The params are those of session/create, such as packages=["numpy"].

        At the end of an "async with", a session without a name of yours is closed.
        """
        if name:
            params["name"] = name
        made = await self.call("session/create", params)
        return AsyncSession._of(self, made["name"], after=0, closes=not name, language=made["language"])

    async def open(self, name: str, **params: Any) -> "AsyncSession":
        """Return the session with this name, and create it if it does not exist.

        If it exists with another language, sandbox or limits than the params ask for, the error is of the kind "differs".
        """
        try:
            return await self.create(name, **params)
        except TurnstoneError as error:
            if error.kind != "exists":
                raise
        return AsyncSession._of(self, name, language=(await self.call("session/get", {"session": name}))["language"])

    def session(self, name: str) -> "AsyncSession":
        """Return the session with this name. It does no I/O."""
        return AsyncSession._of(self, name)
