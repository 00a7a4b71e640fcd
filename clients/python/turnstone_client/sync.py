"""A session, for programs without an event loop."""

from __future__ import annotations

import asyncio
import inspect
import os
import queue
import threading
import weakref
from typing import Any, AsyncGenerator, Awaitable, Callable, Dict, Generator, List, Optional, Set, Tuple, Union

from . import transfer, wire
from .errors import TurnstoneError
from .functions import Functions, refuse_within
from .result import Result
from .run import GRACE, MAX_BYTES, Answer, OnDisplay, OnText
from .session import AsyncSession

MAX_LOCK_WAIT = 0.1  # seconds: on Windows, Ctrl-C does not wake a thread that waits for a lock


class Session:
    """A session of Python, R or another language: AsyncSession for programs without an event loop.

        with Session() as s:
            print(s.run("6 * 7").value)

    The connection is served by a thread. So a Session works in several threads, and in a program or
    notebook that has an event loop, which a call blocks. Ctrl-C during a call interrupts the code,
    and raises KeyboardInterrupt when the session is free. A second Ctrl-C does not wait for that.

    Without a socket the session runs in a private supervisor, which ends with it and with this
    program. Python is then the interpreter of this program, unless runtime names another one. socket=True is the daemon of the user, and a string is the socket of a daemon: there a
    session with a name goes on after the end of the "with", and one without a name is closed.
    functions are given to its code, as set_functions() does.
    """

    def __init__(self, language: str = "python", *, name: Optional[str] = None, sandbox: Optional[str] = None, dir: "Union[str, os.PathLike[str], None]" = None, packages: Optional[List[str]] = None, limits: Optional[wire.SessionLimits] = None, env: Optional[Dict[str, str]] = None, repl: Optional[str] = None, socket: Union[None, bool, str] = None, author: str = "", functions: Optional[Functions] = None, **params: Any):
        self._session = AsyncSession(language, name=name, sandbox=sandbox, dir=dir, packages=packages, limits=limits, env=env, repl=repl, socket=socket, author=author, functions=functions, **params)
        self._loop = asyncio.new_event_loop()
        self._process_id = os.getpid()
        self._callers: Set[int] = set()  # threads that are in a function of theirs, which run() called
        self._thread = threading.Thread(target=self._loop.run_forever, name="turnstone", daemon=True)
        self._thread.start()
        self._ending = weakref.finalize(self, _end, self._session, self._loop, self._thread, self._process_id)
        try:
            self._do(self._session.open())
        except BaseException:
            self._ending()
            raise

    def __reduce__(self) -> Any:
        raise TypeError("a session cannot be pickled: its connection belongs to this process; open one in each process")

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: Any) -> None:
        self._finish(self._session.__aexit__)

    def close(self) -> None:
        """End the session permanently, and its private supervisor."""
        self._finish(self._session.close)

    def _finish(self, close: Callable[[], Awaitable[None]]) -> None:
        if self._process_id != os.getpid() or not self._ending.alive:
            return
        try:
            self._do(close())
        finally:
            self._ending()

    @property
    def name(self) -> str:
        """The name of the session."""
        return self._session.name

    @property
    def language(self) -> str:
        """The language of the session."""
        return self._session.language

    # ---- calls from this thread to that of the loop

    def _do(self, work: Awaitable[Any], calls: "Optional[queue.SimpleQueue[Any]]" = None) -> Any:
        """Run a coroutine in the loop, and the caller's functions for which it asks in this thread."""
        todo: "queue.SimpleQueue[Any]" = calls if calls is not None else queue.SimpleQueue()
        tasks: "List[asyncio.Task[Any]]" = []
        stopped: List[BaseException] = []
        try:
            self._check_use()
        except BaseException:
            work.close()  # type: ignore[attr-defined]
            raise

        def start() -> None:
            task = asyncio.ensure_future(work)
            tasks.append(task)
            task.add_done_callback(lambda _: todo.put(None))
            if stopped:
                task.cancel()

        def cancel() -> None:
            for task in tasks:
                task.cancel()

        try:
            self._loop.call_soon_threadsafe(start)
            while True:
                try:
                    call = _next(todo)
                    if call is None:
                        break
                    self._call_here(call, stopped)
                except KeyboardInterrupt as interrupt:
                    if stopped:
                        raise
                    stopped.append(interrupt)
                    self._loop.call_soon_threadsafe(cancel)
        except RuntimeError as error:
            if self._loop.is_closed():
                raise self._closed() from error
            raise
        if stopped:
            if not tasks[0].cancelled():
                tasks[0].exception()  # marks it as retrieved
            raise stopped[0]
        return tasks[0].result()

    def _call_here(self, call: "Tuple[Callable[[Any], Any], Any, asyncio.Future[Any]]", stopped: List[BaseException]) -> None:
        """Call a function of the caller for the loop, which waits for the answer."""
        function, argument, answer = call
        made: Any = None
        raised: Optional[BaseException] = None
        thread = threading.get_ident()
        self._callers.add(thread)
        try:
            if not stopped:
                made = function(argument)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raised = error
        finally:
            self._callers.discard(thread)
            self._loop.call_soon_threadsafe(_settle, answer, made, raised)

    def _check_use(self) -> None:
        if self._process_id != os.getpid():
            raise TurnstoneError("unsupported", "this session belongs to process %d, and a process that was forked from it cannot use it: open a new Session there" % self._process_id)
        if self._loop.is_closed() or not self._ending.alive:
            raise self._closed()
        if threading.current_thread() is self._thread:
            raise RuntimeError("this is the thread of the session's own event loop, which cannot wait for itself")

    def _closed(self) -> TurnstoneError:
        return TurnstoneError("no_session", "session %s was closed" % self._session.name)

    # ---- run

    def run(self, code: str, *, timeout: Optional[float] = None, queue: bool = False, on_text: Optional[OnText] = None, on_stderr: Optional[OnText] = None, on_display: Optional[OnDisplay] = None, answer: Optional[Answer] = None, reset_stuck: bool = False, grace: float = GRACE, max_bytes: int = MAX_BYTES) -> Result:
        """Run code and return what became of it, as AsyncSession.run() does.

        The functions are called in this thread. While one of them runs, no further output is read, and
        a timeout still interrupts the code.
        """
        refuse_within(self.name)
        if threading.get_ident() in self._callers:
            raise TurnstoneError("busy", "a function that run() calls cannot run code in the same session; use the result of run()")
        calls = _new_queue()
        given = {name: _forward(function, calls) for name, function in (("on_text", on_text), ("on_stderr", on_stderr), ("on_display", on_display), ("answer", answer)) if function is not None}
        work: Any = self._session.run(code, timeout=timeout, queue=queue, reset_stuck=reset_stuck, grace=grace, max_bytes=max_bytes, **given)
        try:
            return self._do(work, calls)
        except _Raised as error:
            assert error.__cause__ is not None
            raise error.__cause__.with_traceback(error.__cause__.__traceback__)

    # ---- the other calls, as in AsyncSession

    def set_functions(self, functions: Functions) -> None:
        """Give functions of this program to the code of the session. They run in threads of their own."""
        self._do(self._session.set_functions(functions))

    def put(self, path: transfer.Source, to: Optional[str] = None, overwrite: bool = False, *, parents: bool = False, on_progress: Optional[transfer.Progress] = None) -> None:
        """Put a file into the working directory; see AsyncSession.put. on_progress is called in the thread of the connection."""
        self._do(self._session.put(path, to, overwrite, parents=parents, on_progress=on_progress))

    def get(self, name: str, to: transfer.Target = None, *, on_progress: Optional[transfer.Progress] = None) -> Optional[bytes]:
        """Get a file of the working directory; see AsyncSession.get. on_progress is called in the thread of the connection."""
        return self._do(self._session.get(name, to, on_progress=on_progress))

    def list_files(self, path: str = "") -> wire.FileList:
        """List a directory by name; "" is the working directory, and "session:" the session's own one."""
        return self._do(self._session.list_files(path))

    def remove_file(self, path: str) -> None:
        """Remove a file or a link, but no directory."""
        self._do(self._session.remove_file(path))

    def start(self, code: str, *, silent: bool = False) -> int:
        """Start a turn and return its number. Clients that display a session skip a silent turn."""
        return self._do(self._session.start(code, silent=silent))

    def wait(self, turn: int = 0, *, after: int = 0, timeout: Optional[float] = None) -> wire.Reply:
        """Wait until a turn is over or asks for input, or for timeout seconds; 0 is the active one."""
        return self._do(self._session.wait(turn, after=after, timeout=timeout))

    def answer(self, request: Union[int, wire.InputRequest], answer: str, *, eof: bool = False, timeout: Optional[float] = None) -> wire.Reply:
        """Answer an input request, by its id, then wait as wait() does. A line needs a newline at its end."""
        return self._do(self._session.answer(request, answer, eof=eof, timeout=timeout))

    def type(self, keys: str = "", *, bytes: bytes = b"", secret: bool = False) -> int:
        """Type keys for a program that the code has started at the terminal, and return the turn."""
        return self._do(self._session.type(keys, bytes=bytes, secret=secret))

    def screen(self) -> wire.Screen:
        """Return what the programs of the running turn show on the terminal."""
        return self._do(self._session.screen())

    def interrupt(self, turn: int = 0) -> str:
        """Interrupt a turn, and return the result; 0 is the active turn."""
        return self._do(self._session.interrupt(turn))

    def info(self) -> wire.Session:
        """Describe the session now."""
        return self._do(self._session.info())

    def reset(self) -> wire.Session:
        """End the runtime, even while it is busy, and start a new one."""
        return self._do(self._session.reset())

    def complete(self, code: str, cursor: Optional[int] = None) -> wire.Completion:
        """Return completions of code at cursor. The cursor and the result's "start" count characters."""
        return self._do(self._session.complete(code, cursor))

    def parse(self, code: str) -> str:
        """Report whether code is a complete input: "complete", "incomplete", "invalid" or "unknown"."""
        return self._do(self._session.parse(code))

    def variables(self) -> wire.Variables:
        """List what user code has defined."""
        return self._do(self._session.variables())

    def output(self, **query: Any) -> wire.Output:
        """Read lines of the rendered output: grep and max, or from_ and to."""
        return self._do(self._session.output(**query))

    def read(self, **query: Any) -> wire.EventPage:
        """Read a window of the events; the params are those of timeline/read."""
        return self._do(self._session.read(**query))

    def events(self, after: int = 0, *, reconnect: bool = True) -> Generator[wire.Event, None, None]:
        """Yield every event after the cursor, and then each new one as it happens."""
        events: AsyncGenerator[wire.Event, None] = self._session.events(after, reconnect=reconnect)
        try:
            while True:
                try:
                    event = self._do(events.__anext__())
                except StopAsyncIteration:
                    return
                yield event
        finally:
            if self._ending.alive and self._process_id == os.getpid():
                self._do(events.aclose())


class _Raised(Exception):
    """A function of the caller has raised the cause, in the thread of the caller."""


def _new_queue() -> "queue.SimpleQueue[Any]":
    return queue.SimpleQueue()


def _next(todo: "queue.SimpleQueue[Any]") -> Any:
    if os.name != "nt":
        return todo.get()
    while True:
        try:
            return todo.get(timeout=MAX_LOCK_WAIT)
        except queue.Empty:
            pass


def _forward(function: Callable[[Any], Any], calls: "queue.SimpleQueue[Any]") -> Callable[[Any], Awaitable[Any]]:
    """Return a coroutine function that has the calling thread call a function of the caller."""
    if inspect.iscoroutinefunction(function):
        raise TypeError("%r is a coroutine function: use AsyncSession, or a plain function" % function)

    async def forwarded(argument: Any) -> Any:
        answer = asyncio.get_running_loop().create_future()
        calls.put((function, argument, answer))
        made, raised = await answer
        if raised is not None:
            raise _Raised() from raised
        return made

    return forwarded


def _settle(answer: "asyncio.Future[Any]", made: Any, raised: Optional[BaseException]) -> None:
    if not answer.done():
        answer.set_result((made, raised))


def _end(session: AsyncSession, loop: asyncio.AbstractEventLoop, thread: threading.Thread, process_id: int) -> None:
    """End the thread of a Session, and what it has not closed itself. Also called when it is forgotten, and at exit."""
    if process_id != os.getpid() or loop.is_closed():
        return

    async def leave() -> None:
        try:
            if session._client is not None and not session._client._closed:
                await session.__aexit__()
        finally:
            loop.stop()

    asyncio.run_coroutine_threadsafe(leave(), loop)
    if threading.current_thread() is not thread:
        thread.join()
        loop.close()
