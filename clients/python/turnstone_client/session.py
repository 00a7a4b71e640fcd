"""A session, for programs with an event loop."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
from typing import TYPE_CHECKING, Any, AsyncGenerator, Dict, List, Optional, Tuple, Union

from . import transfer, wire
from .connection import Connection, Progress
from .errors import TurnstoneError
from .follower import Follower
from .functions import Functions, refuse_within, set_functions
from .result import Result
from .run import GRACE, MAX_BYTES, Answer, OnDisplay, OnText, Options, Run, Stop

if TYPE_CHECKING:
    from .client import Client

MAX_WAIT_MS = 24 * 60 * 60 * 1000  # the daemon accepts no longer wait
MAX_REPLY_BYTES = 64 << 20  # of text and displays
MAX_PAGE_EVENTS, MAX_PAGE_INLINE_BYTES = 2000, 1 << 20  # the daemon accepts no larger page


class AsyncSession:
    """A session of Python, R or another language, for one event loop.

    Without a socket it runs in a private supervisor, which ends with the session and with this
    program. Python is then the interpreter of this program, unless runtime names another one. socket=True is the daemon of the user, and a string is the socket of a daemon: there a
    session with a name goes on after the end of the "async with", and one without a name is closed.
    functions are given to its code, as set_functions() does. The other arguments are those of
    session/create in docs/daemon-protocol.md.
    """

    def __init__(self, language: str = "python", *, name: Optional[str] = None, sandbox: Optional[str] = None, dir: "Union[str, os.PathLike[str], None]" = None, packages: Optional[List[str]] = None, limits: Optional[wire.SessionLimits] = None, env: Optional[Dict[str, str]] = None, repl: Optional[str] = None, socket: Union[None, bool, str] = None, author: str = "", functions: Optional[Functions] = None, **params: Any):
        if repl is not None and socket:
            raise TypeError("repl= is the program of a private supervisor, and socket= a daemon that runs: use one of them")
        given = {"language": language, "name": name, "sandbox": sandbox, "packages": packages, "limits": limits, "env": env}
        self._params = {**params, **{key: value for key, value in given.items() if value is not None}, "dir": os.path.abspath(dir or ".")}
        self._where = repl, socket, author
        self._given = functions
        self._set_up(None, name or "", 0, closes=not (name and socket), language=language)

    def _set_up(self, client: "Optional[Client]", name: str, after: Optional[int], closes: bool, language: str) -> None:
        self.name = name
        self.language = language  # "" if the session was not made by this client
        self._client = client
        self._owns_client = False
        self._closes = closes  # the session ends with the "async with"
        self._daemon: Optional[Tuple[Any, Any]] = None  # where the session is, once that is known
        self._after = after  # cursor of run(); None is the end of the events
        self._follower: Optional[Follower] = None
        self._reported_end = -1  # generation of a worker whose end is in a result
        self._order: Optional[asyncio.Lock] = None
        self._running: Optional[Run] = None
        self._process_id = os.getpid()

    @classmethod
    def _of(cls, client: "Client", name: str, after: Optional[int] = None, closes: bool = False, language: str = "") -> "AsyncSession":
        """Return a session of a client."""
        session = cls.__new__(cls)
        session._set_up(client, name, after, closes, language)
        if client._connection is not None:
            session._daemon = client._connection.daemon
        return session

    def __reduce__(self) -> Any:
        raise TypeError("a session cannot be pickled: its connection belongs to this process; open one in each process")

    @property
    def client(self) -> "Client":
        """The connection, for calls that are not about this session."""
        if self._client is None:
            raise TurnstoneError("no_session", 'the session is not open: use "async with AsyncSession() as session", or await session.open()')
        return self._client

    # ---- open and close

    async def open(self) -> "AsyncSession":
        """Open the session, as "async with" does."""
        if self._client is not None:
            return self
        from .client import Client
        from .program import own_interpreter
        from .supervisor import PrivateClient

        repl, socket, author = self._where
        client = Client(None if socket is True else socket, author) if socket else PrivateClient(repl, author)
        if not socket and self._params["language"] == "python" and not {"runtime", "command"} & set(self._params):
            own = own_interpreter()
            if own:  # the code finds the packages of this program
                self._params["runtime"] = own
        try:
            await client._connected_first()
            if self.name:
                opened = await client.open(self._params.pop("name"), **self._params)
            else:
                opened = await client.create(**self._params)
            if self._given is not None:
                await set_functions(opened, self._given)
        except BaseException:
            await client.close()
            raise
        self._client, self._owns_client = client, True
        self.name, self._daemon, self._after = opened.name, opened._daemon, opened._after
        return self

    async def __aenter__(self) -> "AsyncSession":
        return await self.open()

    async def __aexit__(self, *_: Any) -> None:
        if self._closes:
            await self.close()
        else:
            await self._leave()

    async def close(self) -> None:
        """End the session permanently, and its private supervisor."""
        if self._client is None:
            return
        try:
            if not self._client._closed:
                with contextlib.suppress(TurnstoneError):
                    await self._call("session/close", {})
        finally:
            await self._leave()

    async def _leave(self) -> None:
        follower, self._follower = self._follower, None
        if follower is not None:
            self.client._followers.pop(id(follower), None)
            await follower.close()
        if self._owns_client:
            await self.client.close()

    # ---- run

    async def run(self, code: str, *, timeout: Optional[float] = None, queue: bool = False, on_text: Optional[OnText] = None, on_stderr: Optional[OnText] = None, on_display: Optional[OnDisplay] = None, answer: Optional[Answer] = None, reset_stuck: bool = False, grace: float = GRACE, max_bytes: int = MAX_BYTES) -> Result:
        """Run code and return what became of it. An error of the code is in the result, and is not raised.

        The calls on one object run one after the other, in their order. If another client's code runs,
        the error has the kind "busy"; with queue=True the call waits for its turn.

        When the task is cancelled, or the code has run for timeout seconds, the code is interrupted, and
        again after grace seconds. run() returns when the session is free. If the code goes on for another
        grace seconds, the session is reset if reset_stuck is true. Otherwise the error has the kind
        "still_running". The timeout includes waits for input, but not the start of the interpreter, or
        a wait in the queue.

        on_text gets the pieces of Result.text and on_stderr those of Result.stderr while the code runs.
        on_display gets each Display. answer gets an input request of the code and returns a line, or
        None for an end of file, which code gets without an answer function. All may be coroutine
        functions. If one raises, the code is interrupted, and run() raises the same error.

        Of the text, the value, the traceback and the displays, max_bytes each are kept. The result counts
        the rest in left_out and left_out_displays.
        """
        _checked(code)
        self._check_use()
        refuse_within(self.name)
        if self._running is not None and self._running.is_calling(asyncio.current_task()):
            raise TurnstoneError("busy", "a function that run() calls cannot run code in the same session; use the result of run()")
        run = Run(self, code, Options(timeout, queue, on_text, on_stderr, on_display, answer, reset_stuck, grace, max_bytes))
        task = asyncio.ensure_future(self._run_in_order(run))
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            run.stop()
            if self._running is not run:  # it waits for the calls before it
                task.cancel()
            task.add_done_callback(_retrieve)
            await asyncio.wait([task])  # a second cancel ends this wait; the task then goes on by itself
            raise
        return task.result()

    async def _run_in_order(self, run: Run) -> Result:
        if self._order is None:
            self._order = asyncio.Lock()  # fair: first come, first served
        async with self._order:
            if run.is_stopped:
                raise Stop()
            self._running = run
            try:
                return await run.finish()
            finally:
                self._running = None

    async def _take_follower(self) -> Follower:
        """Return what reads the events for the next run. Its subscription is kept from run to run."""
        follower, self._follower = self._follower, None
        if follower is not None:
            self.client._followers.pop(id(follower), None)
            if follower.is_behind:  # other clients have written much: what they did is not for this run
                await follower.close()
                follower = None
                self._after = None
        if follower is None:
            if self._after is None:
                self._after = (await self._call("session/get", {})).get("last_seq", 0)
            follower = Follower(self, self._after or 0)
            await follower.subscribe()
        return follower

    async def _return_follower(self, follower: Follower) -> None:
        self._after = follower.after
        if self.client._closed or self._follower is not None:
            await follower.close()
            return
        self._follower = follower
        await self.client._keep_follower(self, follower)

    async def _drop_follower(self) -> None:
        follower, self._follower = self._follower, None
        if follower is not None:
            self._after = follower.after
            await follower.close()

    async def set_functions(self, functions: Functions) -> None:
        """Give functions of this program to the code of the session, in place of those before.

        functions is a dict of callables by name, or a list of them. Code calls them with
        "from turnstone import NAME" in Python, and turnstone$NAME() in R. Coroutine functions run in
        this event loop, and others in threads. Their signatures, annotations and docstrings
        describe them; a Function describes what these do not say. An exception is raised in the
        code, under its name. When the code is interrupted, a coroutine is cancelled, and
        current_call().cancelled is set for a function in a thread.

        They can be called while this client is connected. It gives them again after a lost connection.
        """
        await set_functions(self, functions)

    # ---- calls

    def _check_use(self) -> None:
        self.client._check_use()

    def _check_daemon(self, connection: Connection) -> None:
        """Refuse a call at a daemon that never had this session, but perhaps another one of that name."""
        if self._daemon is None:
            self._daemon = connection.daemon
        elif self._daemon != connection.daemon:
            raise TurnstoneError("no_session", "the daemon was restarted at %s, so session %s and its variables are gone; open a new one" % (connection.daemon[1], self.name))

    async def _call(self, method: str, params: Dict[str, Any], progress: Optional[Progress] = None) -> Any:
        return await self.client._call(method, {"session": self.name, **params}, progress, self)

    def _author(self) -> Dict[str, Any]:
        return {"author": self.client.author} if self.client.author else {}

    async def put(self, path: transfer.Source, to: Optional[str] = None, overwrite: bool = False, *, parents: bool = False, on_progress: Optional[transfer.Progress] = None) -> None:
        """Put a local file, bytes, or an open binary file into the working directory of the session.

        to is the path there, by default the name of the local file. The file appears when it is complete.
        An error of kind "file_exists" means that a file has this name and overwrite is false. Of the
        attributes only the right to execute is kept. parents creates missing directories. on_progress
        gets the bytes that have arrived.
        """
        await transfer.put(self, path, to, overwrite, parents=parents, on_progress=on_progress)

    async def get(self, name: str, to: transfer.Target = None, *, on_progress: Optional[transfer.Progress] = None) -> Optional[bytes]:
        """Get a file of the working directory.

        Without to, it returns the content. to is a local path, which is written or replaced once the file
        is complete, or an open binary file. An error of kind "file_changed" means that the file was
        changed while it was read. "session:NAME" is a file of the session's own directory.
        """
        return await transfer.get(self, name, to, on_progress=on_progress)

    async def list_files(self, path: str = "") -> wire.FileList:
        """List a directory by name; "" is the working directory, and "session:" the session's own one."""
        return await transfer.list_files(self, path)

    async def remove_file(self, path: str) -> None:
        """Remove a file or a link, but no directory."""
        await transfer.remove_file(self, path)

    async def start(self, code: str, *, silent: bool = False) -> int:
        """Start a turn and return its number. Clients that display a session skip a silent turn."""
        params: Dict[str, Any] = {"input": _checked(code), **self._author()}
        if silent:
            params["silent"] = True
        return (await self._call("turn/start", params))["turn"]

    async def wait(self, turn: int = 0, *, after: int = 0, timeout: Optional[float] = None, progress: Optional[Progress] = None) -> wire.Reply:
        """Wait until a turn is over or asks for input, or for timeout seconds; 0 is the active one.

        The reply has the events after the cursor and up to 64 MiB of output. Of larger output it has the
        beginning and the end, and an "omitted" event that names the events in between. Its "next" is
        the new cursor.
        """
        return await self._complement(await self._call("turn/wait", {"turn": turn, "after": after, "wait_ms": _milliseconds(timeout)}, progress))

    async def answer(self, request: Union[int, wire.InputRequest], answer: str, *, eof: bool = False, timeout: Optional[float] = None) -> wire.Reply:
        """Answer an input request, by its id, then wait as wait() does. A line needs a newline at its end.

        If the task is cancelled, the turn is interrupted.
        """
        number = request if isinstance(request, int) else request["id"]
        params = {"input_request": number, "input": answer, "wait_ms": _milliseconds(timeout), **self._author()}
        if eof:
            params["eof"] = True
        return await self._complement(await self._call("turn/input", params))

    async def _complement(self, reply: wire.Reply) -> wire.Reply:
        """Add the omitted output to a reply, unless it is too large."""
        events: List[Any] = reply["events"]
        size = sum(event.get("bytes", 0) for event in events if event["type"] == "omitted")
        first = next((event for event in events if event["type"] == "omitted"), None)
        if first is not None and size <= MAX_REPLY_BYTES:
            after, last = first["from"] - 1, reply["next"]
            events = [event for event in events[: events.index(first)] if event["seq"] <= after]  # the last event may be incomplete
            while after < last:
                page = await self.read(after=after, limit=MAX_PAGE_EVENTS, inline_bytes=MAX_PAGE_INLINE_BYTES)
                if not page["events"]:
                    break
                more: List[Any] = page["events"]
                events.extend(event for event in more if event.get("from", event["seq"]) <= last)
                after = page["last"]
            reply["events"] = events
        for event in events:
            for mime, left in list(event.get("omitted", {}).items()):
                size += left["bytes"]
                if size <= MAX_REPLY_BYTES:
                    await self._add_omitted(event, mime, left)
        return reply

    async def _add_omitted(self, event: Any, mime: str, left: wire.Blob) -> None:
        """Add omitted data to a display. Data that the session has dropped stays omitted."""
        data = await self._blob(left)
        if data is None:
            return
        event.setdefault("data", {})[mime] = data if isinstance(data, str) else {"base64": base64.b64encode(data).decode()}
        del event["omitted"][mime]
        if not event["omitted"]:
            del event["omitted"]

    async def _blob(self, left: wire.Blob) -> Union[None, str, bytes]:
        """Return data that was left out of a display, or None if the session has dropped it."""
        digest = left.get("digest")
        if not digest:
            return None
        parts, size = [], 0
        while size < left["bytes"]:
            try:
                part = base64.b64decode((await self._call("blob/get", {"digest": digest, "offset": size}))["data"])
            except TurnstoneError as error:
                if error.kind != "no_blob":
                    raise
                return None
            if not part:
                return None
            parts.append(part)
            size += len(part)
        data = b"".join(parts)
        try:
            return data.decode()
        except UnicodeDecodeError:
            return data

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
        the session is closed. If the connection is lost, it continues after the last event on the next
        connection. A slow reader does not delay the session.
        """
        self._check_use()
        follower = Follower(self, after, reconnect)
        try:
            while True:
                event = await follower.next()
                if event is None:
                    return
                yield event
        finally:
            await follower.close()


def _retrieve(task: "asyncio.Task[Any]") -> None:
    """Mark the error of a task as retrieved, or asyncio would log it."""
    if not task.cancelled():
        task.exception()


def _checked(code: str) -> str:
    if not isinstance(code, str):  # None would be an empty input
        raise TypeError("code is of type %s, not str" % type(code).__name__)
    return code


def _milliseconds(timeout: Optional[float]) -> int:
    return MAX_WAIT_MS if timeout is None else max(1, int(min(MAX_WAIT_MS, timeout * 1000)))
