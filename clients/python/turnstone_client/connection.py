"""One connection to a daemon: lines of JSON-RPC over a stream. Client makes them, one after the other."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Tuple, Union

from .errors import LostConnection, TurnstoneError

if TYPE_CHECKING:
    from .functions import FunctionHost

# Bounds, in bytes and seconds.
MAX_LINE = 20 << 20  # the daemon sends at most 16 MiB
MAX_QUEUED = 4 << 20  # queued for a subscription whose reader is slow
MESSAGE_OVERHEAD = 512  # approximate memory of a notification in addition to its text
INTERRUPT_TIMEOUT = 5.0  # of a cancelled call, for its reset or its interrupt, which takes the daemon 2 s at most

Progress = Callable[[float, str], Any]


class Connection:
    """A connection on which the calls are made. It does not come back once it is lost."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self.lost = ""  # why it ended
        self.daemon: Tuple[Any, Any] = (None, None)  # process and start time, which tell one daemon from the next
        self.known = False  # the daemon remembers the client's earlier requests
        self.streams: Dict[str, "Stream"] = {}
        self.functions: "Optional[FunctionHost]" = None  # answers the requests of the daemon
        self._writer = writer
        self._draining = asyncio.Lock()
        self._calls: Dict[int, Tuple[str, "asyncio.Future[Any]"]] = {}
        self._progress: Dict[int, Progress] = {}
        self._last_id = 0
        self._reading = asyncio.ensure_future(self._read(reader))

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(Exception):
            await self._writer.wait_closed()
        await asyncio.wait([self._reading])

    async def call(self, method: str, params: Dict[str, Any], progress: Optional[Progress] = None) -> Any:
        """Make a call once. A LostConnection says that its answer did not come.

        A param "data" that is bytes follows the line. So does the "data" of a result, if the params ask for it with "buffer".
        """
        if self.lost:
            raise LostConnection(self.lost)
        self._last_id += 1
        number = self._last_id
        if progress is not None:
            self._progress[number] = progress
            params = {**params, "_meta": {"progressToken": number}}
        answer = asyncio.get_running_loop().create_future()
        self._calls[number] = method, answer
        try:
            data = params.get("data")
            if isinstance(data, bytes):
                params = {name: value for name, value in params.items() if name != "data"}
                self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params}, data)
            else:
                self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            await self._drain()
            await asyncio.wait([answer])  # does not cancel the answer
            return answer.result()
        except asyncio.CancelledError:
            if not answer.done():
                await self._give_up(number, method, answer)
            raise
        except OSError as error:
            self.lost = self.lost or str(error)  # the reader may not know it yet
            self._writer.close()
            raise LostConnection(self.lost) from None
        finally:
            if answer.done() and not answer.cancelled():
                answer.exception()  # marks it as retrieved, or asyncio would log it
            self._calls.pop(number, None)
            self._progress.pop(number, None)

    async def _give_up(self, number: int, method: str, answer: "asyncio.Future[Any]") -> None:
        """Cancel a call. The daemon answers once the interrupt has taken effect. A reset or close cannot be cancelled."""
        continues = method in ("session/reset", "session/close")
        with contextlib.suppress(OSError):
            if not continues:
                self._send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}})
            if continues or method in ("turn/start", "turn/input"):
                await asyncio.wait([answer], timeout=INTERRUPT_TIMEOUT)

    def _send(self, message: Dict[str, Any], data: bytes = b"") -> None:
        if data:
            message["buffer"] = len(data)
        try:
            line = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"
        except UnicodeEncodeError as error:
            raise TurnstoneError("invalid_params", "the params contain %r, which is half of a character" % error.object[error.start]) from error
        except ValueError as error:
            raise TurnstoneError("invalid_params", "the params cannot be sent: %s" % error) from error
        if self._writer.transport.is_closing():
            raise ConnectionResetError(self.lost or "it was closed")
        self._writer.write(line)
        if data:
            self._writer.write(data)

    def answer(self, answer: "Union[bytes, Dict[str, Any]]") -> None:
        """Answer a request of the daemon, with a message or a line. An answer that cannot be sent is for nobody."""
        with contextlib.suppress(OSError):
            if isinstance(answer, dict):
                self._send({"jsonrpc": "2.0", **answer})
            elif not self._writer.transport.is_closing():
                self._writer.write(answer + b"\n")

    async def drain(self) -> None:
        with contextlib.suppress(OSError):
            await self._drain()

    async def _drain(self) -> None:
        async with self._draining:  # until Python 3.9 only one task may wait
            await self._writer.drain()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        why: Any = "the daemon hung up"
        try:
            while True:
                line = await reader.readline()
                if not line.endswith(b"\n"):
                    break
                message = json.loads(line)
                if "buffer" in message:
                    message["result"]["data"] = await reader.readexactly(message["buffer"])
                self._received(message, len(line))
        except (OSError, EOFError, ValueError, asyncio.CancelledError) as error:
            why = str(error) or type(error).__name__
        finally:
            self.lost = str(why)
            self._writer.close()
            for _, answer in list(self._calls.values()):
                if not answer.done():
                    answer.set_exception(LostConnection(self.lost))
            for stream in self.streams.values():
                stream.put(LostConnection(self.lost))
            if self.functions is not None:
                self.functions.disconnected(self)

    def _received(self, message: Dict[str, Any], size: int) -> None:
        method = message.get("method")
        if method is None:
            called, answer = self._calls.get(message.get("id"), ("", None))  # type: ignore[arg-type]
            if answer is None or answer.done():
                return  # the call was cancelled
            if "error" in message:
                error = message["error"]
                data = dict(error.get("data") or {})
                answer.set_exception(TurnstoneError(data.pop("kind", "internal"), error["message"], data))
            else:
                if called == "stream/subscribe":  # its notifications are next
                    subscription = message["result"]["subscription"]
                    self.streams[subscription] = Stream(self, subscription)
                answer.set_result(message["result"])
            return
        params = message.get("params") or {}
        if method == "notifications/progress":
            self._report(params)
        elif self.functions is not None and "id" in message:
            self.functions.request(self, message)
        elif self.functions is not None and method == "notifications/cancelled":
            self.functions.cancel(self, params)
        elif method.startswith("stream/") and params["subscription"] in self.streams:
            self.streams[params["subscription"]].put((method, params), size + MESSAGE_OVERHEAD)

    def _report(self, params: Dict[str, Any]) -> None:
        number = params.get("progressToken")
        report = self._progress.get(number)  # type: ignore[arg-type]
        if report is None:
            return
        try:
            report(params.get("progress", 0), params.get("message", ""))
        except Exception as error:  # of the caller's function
            _, answer = self._calls.get(number, ("", None))  # type: ignore[arg-type]
            if answer is not None and not answer.done():
                answer.set_exception(error)

    async def subscribe(self, params: Dict[str, Any]) -> "Stream":
        made = asyncio.ensure_future(self.call("stream/subscribe", params))
        try:
            # The call is not cancelled: a subscription that the daemon has made must be ended.
            return self.streams[(await asyncio.shield(made))["subscription"]]
        except asyncio.CancelledError:
            made.add_done_callback(self._unsubscribe_unread)
            raise

    def _unsubscribe_unread(self, made: "asyncio.Future[Any]") -> None:
        """End a subscription whose task was cancelled before the daemon's answer."""
        if not made.cancelled() and made.exception() is None:
            self._leaving = asyncio.ensure_future(self.streams[made.result()["subscription"]].leave())


class Stream:
    """The queued notifications of a subscription, which its reader has not received yet.

    The daemon pauses when more than MAX_QUEUED bytes are queued, and resumes when half of them have
    been read. Until the pause takes effect, the daemon still sends its own queue: at most a megabyte
    and one notification.
    """

    def __init__(self, connection: Connection, subscription: str):
        self.connection = connection
        self.subscription = subscription
        self.bytes = 0
        self.full = False
        self._waiting: "asyncio.Queue[Any]" = asyncio.Queue()

    def put(self, item: Union[Tuple[str, Any], Exception], size: int = 0) -> None:
        self._waiting.put_nowait((item, size))
        self._count(size)

    async def next(self) -> Tuple[str, Any]:
        item, size = await self._waiting.get()
        self._count(-size)
        if isinstance(item, Exception):
            raise item
        return item

    async def leave(self) -> None:
        try:
            with contextlib.suppress(TurnstoneError, LostConnection):
                await self.connection.call("stream/unsubscribe", {"subscription": self.subscription})
        finally:
            self.connection.streams.pop(self.subscription, None)

    def _count(self, size: int) -> None:
        self.bytes += size
        if self.full != (self.bytes > (MAX_QUEUED // 2 if self.full else MAX_QUEUED)):
            self.full = not self.full
            self._pausing = asyncio.ensure_future(self._send_flow("stream/pause" if self.full else "stream/resume"))

    async def _send_flow(self, method: str) -> None:
        """Call pause or resume. The daemon handles these calls in order."""
        try:
            await self.connection.call(method, {"subscription": self.subscription})
        except LostConnection:
            pass  # the reader of the connection reports its end
        except TurnstoneError as error:
            # An unknown subscription is one whose session has been closed.
            self.put(("stream/ended", {}) if error.kind == "unknown_subscription" else error)
