"""The connection to a daemon, and sessions in it."""

from __future__ import annotations

import asyncio
import base64
import codecs
import contextlib
import json
import os
import sys
from typing import Any, AsyncGenerator, Callable, Dict, Iterable, List, Optional, Set, Tuple, Union

from . import wire
from .discovery import default_socket, proof_for
from .proof import Proof

# Bounds, in bytes and seconds.
MAX_LINE = 20 << 20  # the daemon sends at most 16 MiB
DIAL_TIMEOUT = 5.0
MAX_QUEUED = 4 << 20  # queued for a subscription whose reader is slow
MESSAGE_OVERHEAD = 512  # approximate memory of a notification in addition to its text
MAX_WAIT_MS = 24 * 60 * 60 * 1000  # the daemon accepts no longer wait
RECONNECT_TIMEOUT = 30.0  # of events(), until the daemon is reached again
INTERRUPT_TIMEOUT = 5.0  # of a cancelled call, for its reset or its interrupt, which takes the daemon 2 s at most
MAX_REPLY_BYTES = 64 << 20  # of text and displays
MAX_PAGE_EVENTS, MAX_PAGE_INLINE_BYTES = 2000, 1 << 20  # the daemon accepts no larger page
RECONNECT_PAUSES = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)


class TurnstoneError(Exception):
    """The daemon refused a call, or cannot be reached.

    kind is one of the kinds in docs/daemon-protocol.md, such as "busy" or "unreachable". data has the
    fields of that kind, for example the input_request of "waiting".
    """

    def __init__(self, kind: str, message: str, data: Optional[Dict[str, Any]] = None):
        super().__init__(message)
        self.kind = kind
        self.data = data or {}

    def __reduce__(self) -> Any:
        return type(self), (self.kind, str(self), self.data)  # with pickle, a process pool passes an error to its parent


def text(events: Iterable[wire.Event], *, missing: Optional[str] = None) -> str:
    """Return the text of events, from both streams in order.

    Some output may be missing from the events, because it was too large for a reply or the session
    has dropped it. The argument missing replaces it. Without that argument, text() raises a
    TurnstoneError of kind "incomplete".
    """
    parts = []
    decoders: Dict[str, codecs.IncrementalDecoder] = {}  # a character may be written in two parts
    for event in events:
        if event["type"] == "text":
            stream = event.get("stream", "stdout")
            data = event["text"].encode() if "text" in event else base64.b64decode(event.get("data", ""))
            parts.append(decoders.setdefault(stream, codecs.getincrementaldecoder("utf-8")("replace")).decode(data))
        elif event["type"] == "gap" or (event["type"] == "omitted" and event.get("bytes")):
            if missing is None:
                raise TurnstoneError("incomplete", _what_is_missing(event))
            parts.append(missing)
    return "".join(parts + [decoder.decode(b"", True) for decoder in decoders.values()])


def _what_is_missing(event: Union[wire.GapEvent, wire.OmittedEvent]) -> str:
    which = "%d bytes of output, in the events %d to %d" % (event.get("bytes", 0), event.get("from", 0), event.get("to", 0))
    if event["type"] == "gap":
        return which + ", were dropped by the session; call text() with missing= to insert another text instead"
    return which + ", are not in the reply: read them in parts with read(after=...), or use text() with missing="


async def connect(socket: Optional[str] = None, *, author: str = "") -> "Client":
    """Connect to the daemon at a socket, by default the user's own, within 5 s.

    author is the name under which inputs, answers and interrupts are recorded. An error is a
    TurnstoneError of kind "unreachable", or "protocol" for a daemon of another version.
    """
    path = socket or default_socket()
    client = Client(path, author)
    await client._dial()
    return client


class Client:
    """A connection to a daemon, for one event loop. Use connect() to make one."""

    def __init__(self, socket: str, author: str = ""):
        self.socket = socket
        self.author = author
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._writer: Optional[asyncio.StreamWriter] = None
        self._reading: Optional["asyncio.Task[None]"] = None
        self._calls: Dict[int, Tuple[str, "asyncio.Future[Any]"]] = {}
        self._progress: Dict[int, Callable[[float, str], None]] = {}
        self._streams: Dict[str, "_Stream"] = {}
        self._closed = False
        self._others: Set["Client"] = set()  # connections that events() made after this one was lost
        self._last_id = 0

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    async def close(self) -> None:
        """End the connection. The sessions stay alive. A running events() ends with an error."""
        if self._loop is None or not self._loop.is_closed():  # a closed loop has ended the connection
            self._check_loop()
            await self._disconnect()

    async def _disconnect(self) -> None:
        self._closed = True
        for other in list(self._others):
            await other.close()
        if self._writer is not None:
            self._writer.close()
            with contextlib.suppress(Exception):
                await self._writer.wait_closed()
        if self._reading is not None:
            await asyncio.wait([self._reading])

    def _check_loop(self) -> None:
        """Refuse a call in another event loop, which would never be answered."""
        if self._loop not in (None, asyncio.get_running_loop()):
            raise RuntimeError("this client was connected in another event loop, or thread: connect in this one, too")

    async def _dial(self) -> None:
        self._loop = asyncio.get_running_loop()
        if sys.platform == "win32":
            raise TurnstoneError("unsupported", "this client supports only Unix sockets, and on Windows the daemon listens at a named pipe: use the client for TypeScript or Go there")
        try:
            owner = os.stat(self.socket).st_uid
            if owner not in (os.getuid(), 0):
                raise TurnstoneError("unreachable", "%s belongs to user %d, not to you: the daemon of another user would see your code" % (self.socket, owner))
            proof = proof_for(self.socket)
            reader, self._writer = await asyncio.wait_for(asyncio.open_unix_connection(self.socket, limit=MAX_LINE), DIAL_TIMEOUT)
        except (OSError, asyncio.TimeoutError) as error:
            raise TurnstoneError("unreachable", "no daemon answers at %s (%s); start one with repl serve" % (self.socket, error)) from None
        await self._check(proof, reader)
        self._reading = asyncio.ensure_future(self._read(reader))
        try:
            about = await asyncio.wait_for(self.info(), DIAL_TIMEOUT)
        except asyncio.TimeoutError:
            await self.close()
            raise TurnstoneError("unreachable", "the program that listens at %s does not answer like a daemon" % self.socket) from None
        if about["protocol"] != wire.PROTOCOL:
            await self.close()
            raise TurnstoneError("protocol", "the daemon at %s is version %s and speaks protocol %s; this client speaks %s" % (self.socket, about["version"], about["protocol"], wire.PROTOCOL))

    async def _check(self, proof: Proof, reader: asyncio.StreamReader) -> None:
        """Verify that the program at the socket is a daemon of this user. Nothing else is sent before."""
        assert self._writer is not None
        try:
            self._writer.write(proof.question())
            fault = proof.fault(await asyncio.wait_for(reader.readline(), DIAL_TIMEOUT))
        except asyncio.TimeoutError:
            fault = "it does not answer"
        except (OSError, ValueError) as error:  # a line that is too long is a ValueError
            fault = str(error)
        if fault:
            self._writer.close()
            raise TurnstoneError("unreachable", "the program that listens at %s does not prove that it is your daemon, so nothing is sent to it: %s" % (self.socket, fault))

    # ---- lines

    async def call(self, method: str, params: Optional[Dict[str, Any]] = None, progress: Optional[Callable[[float, str], None]] = None) -> Any:
        """Call a method and return its result.

        When the task is cancelled, the daemon interrupts or abandons the work, as described in
        docs/daemon-protocol.md. A call that started or answered a turn ends when the interrupt has
        taken effect, or after 5 s, so that the session can take the next input. A reset or close
        continues; the call ends with it, or after 5 s. progress is called with the seconds and a
        message while a long call runs. If it raises, the call ends with that error and the work
        continues.
        """
        self._check_loop()
        self._last_id += 1
        number = self._last_id
        request: Dict[str, Any] = {"jsonrpc": "2.0", "id": number, "method": method, "params": dict(params or {})}
        if progress is not None:
            self._progress[number] = progress
            request["params"]["_meta"] = {"progressToken": number}
        answer = asyncio.get_running_loop().create_future()
        self._calls[number] = method, answer
        try:
            self._send(request)
            if self._writer is not None:
                await self._writer.drain()
            await asyncio.wait([answer])  # does not cancel the answer
            return answer.result()
        except asyncio.CancelledError:
            if not answer.done():
                await self._give_up(number, method, answer)
            if answer.done():
                answer.exception()  # marks it as retrieved, or asyncio would log it
            raise
        except OSError as error:
            raise self._gone(error) from None
        finally:
            self._calls.pop(number, None)
            self._progress.pop(number, None)

    async def _give_up(self, number: int, method: str, answer: "asyncio.Future[Any]") -> None:
        """Cancel a call. The daemon answers once the interrupt has taken effect. A reset or close cannot be cancelled."""
        continues = method in ("session/reset", "session/close")
        with contextlib.suppress(TurnstoneError):
            if not continues:
                self._send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}})
            if continues or method in ("turn/start", "turn/input"):
                await asyncio.wait([answer], timeout=INTERRUPT_TIMEOUT)

    def _gone(self, why: Any) -> TurnstoneError:
        return TurnstoneError("unreachable", "the connection to the daemon at %s ended: %s" % (self.socket, why))

    def _send(self, message: Dict[str, Any]) -> None:
        if self._writer is None or self._writer.is_closing() or self._reading is None or self._reading.done():
            raise self._gone("it is closed")
        # Invalid JSON or UTF-8, such as half a surrogate pair, fails here: the daemon's answer would not name the call.
        self._writer.write(json.dumps(message, ensure_ascii=False, allow_nan=False).encode() + b"\n")

    async def _read(self, reader: asyncio.StreamReader) -> None:
        why: Any = "the daemon hung up"
        try:
            while True:
                line = await reader.readline()
                if not line.endswith(b"\n"):
                    break
                self._received(json.loads(line), len(line))
        except (OSError, ValueError, asyncio.CancelledError) as error:
            why = error
        finally:
            if self._writer is not None:
                self._writer.close()
            for _, answer in self._calls.values():
                if not answer.done():
                    answer.set_exception(self._gone(why))
            for stream in self._streams.values():
                stream.put(self._gone(why))

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
                    self._streams[subscription] = _Stream(self, subscription)
                answer.set_result(message["result"])
            return
        params = message.get("params") or {}
        if method == "notifications/progress":
            number = params.get("progressToken", 0)
            report = self._progress.get(number)
            if report is None:
                return
            try:
                report(params.get("progress", 0), params.get("message", ""))
            except Exception as error:  # of the caller's function
                if number in self._calls and not self._calls[number][1].done():
                    self._calls[number][1].set_exception(error)
        elif method.startswith("stream/") and params["subscription"] in self._streams:
            self._streams[params["subscription"]].put((method, params), size + MESSAGE_OVERHEAD)

    def _unsubscribe_unread(self, made: "asyncio.Future[Any]") -> None:
        """End a subscription whose task was cancelled before the daemon's answer."""
        if not made.cancelled() and made.exception() is None:
            self._leaving = asyncio.ensure_future(self._streams[made.result()["subscription"]].leave())

    # ---- the daemon

    async def info(self) -> wire.Daemon:
        """Describe the daemon."""
        return await self.call("server/info")

    async def list(self) -> List[wire.Session]:
        """Describe all sessions, by name."""
        return (await self.call("session/list"))["sessions"]

    async def create(self, name: str = "", **params: Any) -> "Session":
        """Create a session; for "" the daemon chooses a name. The params are those of session/create, such as packages=["numpy"]."""
        if name:
            params["name"] = name
        return self.session((await self.call("session/create", params))["name"])

    async def open(self, name: str, **params: Any) -> "Session":
        """Return the session with this name, and create it if it does not exist."""
        try:
            return await self.create(name, **params)
        except TurnstoneError as error:
            if error.kind != "exists":
                raise
            return self.session(name)

    def session(self, name: str) -> "Session":
        """Return the session with this name. It does no I/O."""
        return Session(self, name)


class _Stream:
    """The queued notifications of a subscription, which its reader has not received yet.

    The daemon pauses when more than MAX_QUEUED bytes are queued, and resumes when half of them have
    been read. Until the pause takes effect, the daemon still sends its own queue: at most a megabyte
    and one notification.
    """

    def __init__(self, client: Client, subscription: str):
        self.client = client
        self.subscription = subscription
        self.bytes = 0
        self._waiting: "asyncio.Queue[Any]" = asyncio.Queue()
        self._full = False

    def put(self, item: Union[Tuple[str, Any], TurnstoneError], size: int = 0) -> None:
        self._waiting.put_nowait((item, size))
        self._count(size)

    async def next(self) -> Tuple[str, Any]:
        item, size = await self._waiting.get()
        self._count(-size)
        if isinstance(item, TurnstoneError):
            raise item
        return item

    async def leave(self) -> None:
        try:
            with contextlib.suppress(TurnstoneError):
                await self.client.call("stream/unsubscribe", {"subscription": self.subscription})
        finally:
            self.client._streams.pop(self.subscription, None)

    def _count(self, size: int) -> None:
        self.bytes += size
        if self._full != (self.bytes > (MAX_QUEUED // 2 if self._full else MAX_QUEUED)):
            self._full = not self._full
            self._pausing = asyncio.ensure_future(self._send_flow("stream/pause" if self._full else "stream/resume"))

    async def _send_flow(self, method: str) -> None:
        """Call pause or resume. The daemon handles these calls in order."""
        try:
            await self.client.call(method, {"subscription": self.subscription})
        except TurnstoneError as error:
            if error.kind == "unknown_subscription":  # the session has been closed
                self.put(("stream/ended", {}))
            elif error.kind != "unreachable":  # the reader of the connection reports its end
                self.put(error)


class Session:
    """A session of a daemon, by its name."""

    def __init__(self, client: Client, name: str):
        self.client = client
        self.name = name

    async def _call(self, method: str, params: Dict[str, Any], progress: Optional[Callable[[float, str], None]] = None) -> Any:
        return await self.client.call(method, {"session": self.name, **params}, progress)

    def _author(self) -> Dict[str, Any]:
        return {"author": self.client.author} if self.client.author else {}

    async def run(self, code: str, *, timeout: Optional[float] = None, progress: Optional[Callable[[float, str], None]] = None) -> wire.Reply:
        """Run code, and return when it is done or asks for input, or after timeout seconds.

        The turn continues after a timeout: wait() returns the rest. If the task is cancelled, the
        turn is interrupted, and run() ends when the interrupt has taken effect, or after 5 s. The
        reply has all events of the turn and up to 64 MiB of output. Of larger output it has the
        beginning and the end, and an "omitted" event that names the events in between.
        """
        return await self._complement(await self._call("turn/start", {"input": _checked(code), "wait_ms": _milliseconds(timeout), **self._author()}, progress))

    async def start(self, code: str, *, silent: bool = False) -> int:
        """Start a turn and return its number. Clients that display a session skip a silent turn."""
        params: Dict[str, Any] = {"input": _checked(code), **self._author()}
        if silent:
            params["silent"] = True
        return (await self._call("turn/start", params))["turn"]

    async def wait(self, turn: int = 0, *, after: int = 0, timeout: Optional[float] = None, progress: Optional[Callable[[float, str], None]] = None) -> wire.Reply:
        """Wait until a turn is over or asks for input; 0 is the active one.

        The reply has the events after the cursor, in the same form as the reply of run(). Its "next" is the new cursor.
        """
        return await self._complement(await self._call("turn/wait", {"turn": turn, "after": after, "wait_ms": _milliseconds(timeout)}, progress))

    async def answer(self, request: Union[int, wire.InputRequest], answer: str, *, eof: bool = False, timeout: Optional[float] = None) -> wire.Reply:
        """Answer an input request, by its id, then wait as run() does. A line needs a newline at its end."""
        number = request if isinstance(request, int) else request["id"]
        params = {"input_request": number, "input": answer, "wait_ms": _milliseconds(timeout), **self._author()}
        if eof:
            params["eof"] = True
        return await self._complement(await self._call("turn/input", params))

    async def _complement(self, reply: wire.Reply) -> wire.Reply:
        """Add the omitted output to a reply, unless it is too large."""
        events = reply["events"]
        omitted = [event for event in events if event["type"] == "omitted"]
        size = sum(event.get("bytes", 0) for event in omitted)
        first = omitted[0] if omitted else None
        if first is not None and size <= MAX_REPLY_BYTES:
            after, last = first.get("from", 1) - 1, reply["next"]
            events = [event for event in events[: events.index(first)] if event["seq"] <= after]  # the last event may be incomplete
            while after < last:
                page = await self.read(after=after, limit=MAX_PAGE_EVENTS, inline_bytes=MAX_PAGE_INLINE_BYTES)
                if not page["events"]:
                    break
                events.extend(event for event in page["events"] if (event.get("from", event["seq"]) if event["type"] == "gap" else event["seq"]) <= last)
                after = page["last"]
            reply["events"] = events
        for event in events:
            if event["type"] != "display":
                continue
            for mime, left in list(event.get("omitted", {}).items()):
                size += left["bytes"]
                if size <= MAX_REPLY_BYTES and left.get("digest"):
                    await self._add_omitted(event, mime, left)
        return reply

    async def _add_omitted(self, event: wire.DisplayEvent, mime: str, left: wire.Blob) -> None:
        """Add omitted data to a display. Data that the session has dropped stays omitted."""
        data = b""
        while len(data) < left["bytes"]:
            try:
                piece = await self._call("blob/get", {"digest": left.get("digest"), "offset": len(data)})
            except TurnstoneError as error:
                if error.kind != "no_blob":
                    raise
                return
            data += base64.b64decode(piece["data"])
        types = event.setdefault("data", {})
        try:
            types[mime] = data.decode()
        except UnicodeDecodeError:
            types[mime] = {"base64": base64.b64encode(data).decode()}
        rest = event.get("omitted", {})
        del rest[mime]
        if not rest:
            event.pop("omitted", None)

    async def type(self, keys: str = "", *, bytes: bytes = b"", secret: bool = False) -> int:
        """Type keys for a program that the code has started at the terminal, and return the turn.

        keys is text with named keys, such as "yes<Enter>" or "<Down><C-c>": docs/sessions.md lists
        the names. Nothing is added, not even Enter. bytes are typed unchanged, instead of keys.
        secret keeps them out of the session's record. The call does not wait until the keys are
        typed: wait() returns the output, and screen() shows what the program draws. Between turns
        the error is of kind "stale", and of kind "waiting" while the code itself asks for input.
        """
        params: Dict[str, Any] = {"text": _checked(keys), **self._author()}
        if bytes:
            params["bytes"] = base64.b64encode(bytes).decode()
        if secret:
            params["secret"] = True
        return (await self._call("turn/type", params))["turn"]

    async def screen(self) -> wire.Screen:
        """Return what the programs of the running turn show on the terminal. Between turns the error is of kind "stale"."""
        return await self._call("session/screen", {})

    async def interrupt(self, turn: int = 0) -> str:
        """Interrupt a turn, and return the result; 0 is the active turn."""
        which: Dict[str, Any] = {"turn": turn} if turn else {"active": True}
        return (await self._call("turn/interrupt", {**which, **self._author()}))["result"]

    async def info(self) -> wire.Session:
        """Describe the session now."""
        return await self._call("session/get", {})

    async def reset(self) -> wire.Session:
        """End the runtime, even while it is busy, and start a new one. A cancelled reset continues."""
        return await self._call("session/reset", {})

    async def close(self) -> None:
        """End the session permanently."""
        await self._call("session/close", {})

    async def complete(self, code: str, cursor: Optional[int] = None) -> wire.Completion:
        """Return completions of code at cursor. The cursor and the result's "start" count characters."""
        before = code if cursor is None else code[:cursor]
        result = await self._call("query/complete", {"text": code, "cursor": len(before.encode())})
        result["start"] = len(code.encode()[: result["start"]].decode("utf-8", "ignore"))
        return result

    async def parse(self, code: str) -> str:
        """Report whether code is a complete input: "complete", "incomplete", "invalid" or "unknown"."""
        return (await self._call("query/parse", {"text": code}))["status"]

    async def variables(self) -> wire.Variables:
        """List what user code has defined."""
        return await self._call("query/variables", {})

    async def output(self, **query: Any) -> wire.Output:
        """Read lines of the rendered output: grep and max, or from_ and to."""
        return await self._call("output/query", {key.rstrip("_"): value for key, value in query.items()})

    async def read(self, **query: Any) -> wire.EventPage:
        """Read a window of the events; the params are those of timeline/read."""
        return await self._call("timeline/read", query)

    async def events(self, after: int = 0, *, reconnect: bool = True) -> AsyncGenerator[wire.Event, None]:
        """Yield every event after the cursor, and then each new one as it happens.

        Each event comes once and in order; a "gap" stands for dropped events. The sequence ends when
        the session is closed. If the connection is lost, events() tries for 30 s to reach the daemon
        again, and continues after the last event on a new connection, unless the client was closed. A
        slow reader does not delay the session.
        """
        client = self.client
        try:
            while True:
                subscribed = self._subscribed(client, after)
                try:
                    async for event in subscribed:
                        after = event.get("to", event["seq"]) if event["type"] == "gap" else event["seq"]
                        yield event
                    return
                except TurnstoneError as error:
                    if error.kind != "unreachable" or not reconnect or self.client._closed:
                        raise
                    await self._close_other(client)
                    client = await _redial(self.client)
                    self.client._others.add(client)
                finally:
                    await subscribed.aclose()
        finally:
            await self._close_other(client)

    async def _close_other(self, client: Client) -> None:
        """Close a connection that events() made."""
        if client is not self.client:
            self.client._others.discard(client)
            await client.close()

    async def _subscribed(self, client: Client, after: int) -> AsyncGenerator[wire.Event, None]:
        made = asyncio.ensure_future(client.call("stream/subscribe", {"session": self.name, "after": after, **self._author()}))
        try:
            # The call is not cancelled: a subscription that the daemon has made must be ended.
            subscription = (await asyncio.shield(made))["subscription"]
        except asyncio.CancelledError:
            made.add_done_callback(client._unsubscribe_unread)
            raise
        stream = client._streams[subscription]
        try:
            while True:
                method, params = await stream.next()
                if method == "stream/snapshot":
                    for event in params["events"]:
                        yield event
                elif method == "stream/event":
                    yield params["event"]
                elif method == "stream/ended":
                    if params.get("detached"):
                        raise TurnstoneError("detached", params["reason"])
                    return
        finally:
            await stream.leave()


async def _redial(lost: Client) -> Client:
    """Connect to the daemon again, within 30 s."""
    loop = asyncio.get_running_loop()
    end = loop.time() + RECONNECT_TIMEOUT
    attempt = 0
    while True:
        client = Client(lost.socket, lost.author)
        try:
            await client._dial()
            if lost._closed:
                await client.close()
                raise lost._gone("it was closed")
            return client
        except TurnstoneError as error:
            if error.kind != "unreachable" or loop.time() >= end or lost._closed:
                raise
        await asyncio.sleep(RECONNECT_PAUSES[min(attempt, len(RECONNECT_PAUSES) - 1)])
        attempt += 1


def _checked(code: str) -> str:
    if not isinstance(code, str):  # None would be an empty input
        raise TypeError("code is of type %s, not str" % type(code).__name__)
    return code


def _milliseconds(timeout: Optional[float]) -> int:
    return MAX_WAIT_MS if timeout is None else max(1, int(min(MAX_WAIT_MS, timeout * 1000)))
