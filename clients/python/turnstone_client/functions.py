"""Functions of this program that the code of a session can call.

    def search(query: str, limit: int = 10) -> list:
        "Search the documents."
        ...

    async with AsyncSession(functions={"search": search}) as session:
        result = await session.run("from turnstone import search; search('birds')")
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import json
import logging
import queue
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Mapping, Optional, Set, Union

from . import values
from .errors import LostConnection, TurnstoneError
from .schemas import schema_of_parameters, schema_of_result

if TYPE_CHECKING:
    from .client import Client
    from .connection import Connection
    from .session import AsyncSession

MAX_RUNNING = 2048  # calls, and functions that go on after their call was cancelled
MAX_LARGE_RESULTS = 4  # that are encoded and sent at the same time; others wait
SMALL_TEXT = 64 << 10  # a text up to this size is encoded at once
IDLE_THREAD = 10.0  # seconds until a thread without work ends
FAILED = -32001

_log = logging.getLogger("turnstone_client")


class Function:
    """A function for the code of a session, where a callable alone does not say enough.

    parameters is the JSON schema of an object. If it is missing, it is derived from the signature and
    the annotations of call, and the description from its docstring. unpack=False passes all arguments
    as one dict, as the tools of frameworks often want them. group is the namespace of the function:
    search of the group docs is turnstone.tools.docs.search in Python, and docs.search in R.
    """

    def __init__(self, call: Callable[..., Any], *, description: Optional[str] = None, parameters: Optional[Mapping[str, Any]] = None, returns: Optional[Mapping[str, Any]] = None, group: str = "", unpack: bool = True):
        if not callable(call):
            raise TypeError("%.100r cannot be called" % (call,))
        self.call = call
        self.group = group
        self.unpack = unpack
        self.description = description if description is not None else inspect.getdoc(call) if inspect.isroutine(call) else ""
        if parameters is None and unpack:
            parameters = schema_of_parameters(call)
        self.parameters = parameters
        properties = (parameters or {}).get("properties") or {}
        self._integers = {name for name, schema in properties.items() if isinstance(schema, dict) and schema.get("type") in ("integer", ["integer", "null"])}
        self.returns = returns if returns is not None else schema_of_result(call)
        self.is_async = inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(getattr(call, "__call__", None))

    def start(self, arguments: Dict[str, Any]) -> Any:
        for name, value in arguments.items():
            if type(value) is float and name in self._integers and value.is_integer():
                arguments[name] = int(value)  # R has only floats
        return self.call(**arguments) if self.unpack else self.call(arguments)


Functions = Union[Mapping[str, Union[Callable[..., Any], Function]], Iterable[Callable[..., Any]]]


class Call:
    """A call of a function by the code of a session."""

    def __init__(self, session: str, turn: int, function: str):
        self.session = session
        self.turn = turn  # 0 between turns
        self.function = function
        self.over = False
        self.cancelled = threading.Event()  # set when the code was interrupted, and when the daemon is gone


_current: "contextvars.ContextVar[Optional[Call]]" = contextvars.ContextVar("turnstone_call", default=None)


def current_call() -> Optional[Call]:
    """Return the call that the running function was started for, or None outside of one.

    A function that takes long looks at its "cancelled", because a thread cannot be stopped.
    """
    return _current.get()


def refuse_within(name: str) -> None:
    """Refuse to run code in a session whose running code waits for the function that wants to run it."""
    call = _current.get()
    if call is not None and call.session == name and call.turn and not call.over and not call.cancelled.is_set():
        raise TurnstoneError("busy", "the code of session %s waits for the function %s, which therefore cannot run code there" % (name, call.function))


async def set_functions(session: "AsyncSession", functions: Functions) -> None:
    """Replace the functions that this client gives to the code of a session."""
    await session.client._functions.give(session, _described(functions))


def _described(functions: Functions) -> Dict[str, Function]:
    if isinstance(functions, Mapping):
        given = dict(functions)
    else:
        given = {}
        for one in functions:
            name = getattr(one, "__name__", None)
            if not isinstance(name, str):
                raise TypeError("%.100r has no name: give a dict with names" % (one,))
            if name in given:
                raise ValueError("two functions have the name %r: give a dict with names" % name)
            given[name] = one
    described = {}
    for name, one in given.items():
        try:
            function = one if isinstance(one, Function) else Function(one)
        except TypeError as error:
            raise TypeError("function %s: %s" % (name, error)) from None
        described["%s.%s" % (function.group, name) if function.group else name] = function
    return described


class FunctionHost:
    """The functions that a client gives, and their calls. All methods belong to the client's event loop."""

    def __init__(self, client: "Client"):
        self._client = client
        self._sets: Dict[str, "_Set"] = {}  # by session
        self._tasks: "Dict[Any, asyncio.Task[None]]" = {}  # by connection and request
        self._calls: Dict[Any, Call] = {}
        self._threads = _Threads()
        self._sending: Optional[asyncio.Semaphore] = None
        self._restoring: "Set[asyncio.Future[Any]]" = set()

    async def give(self, session: "AsyncSession", functions: Dict[str, Function]) -> None:
        name = session.name
        one = _Set({"session": name, "functions": [_document(full, function) for full, function in functions.items()], **session._author()}, functions, self._sets.get(name))
        self._sets[name] = one
        try:
            await session._call("session/functions", one.params)
        except BaseException:
            if self._sets.get(name) is one:
                self._put(name, one.before)
            raise
        one.before = None
        if self._sets.get(name) is one and not functions:
            self._put(name, None)

    def _put(self, name: str, one: "Optional[_Set]") -> None:
        if one is None:
            self._sets.pop(name, None)
        else:
            self._sets[name] = one

    # ---- the connection

    def connected(self, connection: "Connection", last: Any) -> None:
        """Give the functions again on a new connection, before any other call. last is the daemon of the one before."""
        if last not in (None, connection.daemon):
            self._sets.clear()  # that daemon had the sessions; this one may have others with these names
        for name, one in self._sets.items():
            task = asyncio.ensure_future(self._restore(connection, name, one))
            self._restoring.add(task)
            task.add_done_callback(self._restoring.discard)

    async def _restore(self, connection: "Connection", name: str, one: "_Set") -> None:
        try:
            await connection.call("session/functions", one.params)
        except LostConnection:
            pass  # the next connection tries again
        except TurnstoneError as error:
            _log.warning("the functions of session %s were not given again: %s", name, error)
            if error.kind == "no_session" and self._sets.get(name) is one:
                del self._sets[name]

    def disconnected(self, connection: "Connection") -> None:
        """Cancel the calls of a connection that was lost. If there are functions, connect again, because code may call them."""
        for key in list(self._tasks):
            if key[0] is connection:
                self._stop(key)
        if self._sets and not self._client._closed:
            task = asyncio.ensure_future(self._reconnect())
            self._restoring.add(task)
            task.add_done_callback(self._restoring.discard)

    async def _reconnect(self) -> None:
        try:
            await self._client._connected()
        except TurnstoneError as error:
            if not self._client._closed:
                _log.warning("the functions of this program cannot be called: %s", error)

    # ---- calls

    def request(self, connection: "Connection", message: Dict[str, Any]) -> None:
        """Start what answers a request of the daemon."""
        number, params = message["id"], message.get("params") or {}
        if message["method"] != "function/call":
            connection.answer({"id": number, "error": {"code": -32601, "message": "method not found: %r" % message["method"]}})
            return
        if len(self._tasks) + self._threads.abandoned >= MAX_RUNNING:
            connection.answer(_failure(number, "CallError", "%d functions are running already: wait for some to end" % MAX_RUNNING))
            return
        key = connection, number
        self._calls[key] = Call(params["session"], params["turn"], params["function"])
        self._tasks[key] = task = asyncio.ensure_future(self._answer(connection, number, params, self._calls[key]))

        def forget(_: Any) -> None:
            self._tasks.pop(key, None)
            self._calls.pop(key).over = True

        task.add_done_callback(forget)

    def cancel(self, connection: "Connection", params: Dict[str, Any]) -> None:
        """Cancel a call whose code no longer waits."""
        self._stop((connection, params.get("requestId")))

    def _stop(self, key: Any) -> None:
        if key in self._tasks:
            self._calls[key].cancelled.set()
            self._tasks[key].cancel()

    async def _answer(self, connection: "Connection", number: Any, params: Dict[str, Any], call: Call) -> None:
        try:
            result = await self._run(connection, params, call)
            if _is_small(result):
                connection.answer(_success(number, values.encode(result)))
                return
            if self._sending is None:
                self._sending = asyncio.Semaphore(MAX_LARGE_RESULTS)
            async with self._sending:
                connection.answer(_success(number, await self._threads.run(values.encode, result)))
                await connection.drain()
        except LostConnection:
            pass
        except asyncio.CancelledError:
            if call.cancelled.is_set():
                raise
            connection.answer(_failure(number, "Cancelled", "the function was cancelled"))
        except BaseException as error:  # a function that raises SystemExit ends the call, not the program
            _log.debug("the function %s has failed", call.function, exc_info=True)
            connection.answer(_failure(number, type(error).__name__, _text(error)))
            if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise  # the user ends the program; in the thread of a Session it would end only the connection

    async def _run(self, connection: "Connection", params: Dict[str, Any], call: Call) -> Any:
        function = self._find(call)
        if function is None:
            raise NameError("%s: the client no longer gives this function" % call.function)
        if "arguments" in params:
            arguments = values.decode(params["arguments"])
        else:
            arguments = await self._read_arguments(connection, params["call"])
        _current.set(call)  # in the context of this task
        if function.is_async:
            return await function.start(arguments)
        result = await self._threads.run(function.start, arguments)
        return await result if inspect.isawaitable(result) else result

    def _find(self, call: Call) -> Optional[Function]:
        one = self._sets.get(call.session)
        while one is not None:
            if call.function in one.functions:
                return one.functions[call.function]
            one = one.before
        return None

    async def _read_arguments(self, connection: "Connection", call: str) -> Any:
        parts: List[str] = []
        offset, more = 0, True
        while more:
            part = await connection.call("function/arguments", {"call": call, "offset": offset})
            parts.append(part["text"])
            offset, more = part["next"], part.get("more", False)
        return await self._threads.run(_parse, "".join(parts))


class _Set:
    """The functions of one session."""

    def __init__(self, params: Dict[str, Any], functions: Dict[str, Function], before: "Optional[_Set]"):
        self.params = params
        self.functions = functions
        self.before = before  # can be called until the daemon has answered


def _document(full: str, function: Function) -> Dict[str, Any]:
    document: Dict[str, Any] = {"name": full[len(function.group) + 1 :] if function.group else full}
    for name, value in (("group", function.group), ("description", function.description), ("parameters", function.parameters), ("returns", function.returns)):
        if value:
            document[name] = value
    return document


def _parse(text: str) -> Any:
    return values.decode(json.loads(text))


def _is_small(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float)) or isinstance(value, str) and len(value) <= SMALL_TEXT


def _success(number: Any, text: str) -> bytes:
    return ('{"jsonrpc":"2.0","id":%s,"result":{"value":' % json.dumps(number)).encode() + text.encode() + b"}}"


def _failure(number: Any, name: str, message: str) -> Dict[str, Any]:
    return {"id": number, "error": {"code": FAILED, "message": message, "data": {"kind": "call", "name": name}}}


def _text(error: BaseException) -> str:
    try:
        text = str(error) or type(error).__name__
    except Exception:
        text = type(error).__name__
    return text.encode("utf-8", "backslashreplace").decode()


class _Threads:
    """Threads that run functions, each one at a time. They do not keep the program from ending."""

    def __init__(self) -> None:
        self.abandoned = 0  # functions that go on although nobody waits
        self._idle = 0
        self._work: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        self._lock = threading.Lock()

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function in a thread. A cancel ends the wait, and the function goes on."""
        loop = asyncio.get_running_loop()
        answer: "asyncio.Future[Any]" = loop.create_future()
        context = contextvars.copy_context()

        def finish(result: Any, error: Optional[BaseException]) -> None:
            if answer.cancelled():
                self.abandoned -= 1
            elif error is None:
                answer.set_result(result)
            elif isinstance(error, StopIteration):  # a future cannot have it
                answer.set_exception(RuntimeError("the function raised StopIteration"))
            else:
                answer.set_exception(error)

        def work() -> None:
            result, failure = None, None
            try:
                result = context.run(function, *arguments)
            except BaseException as error:
                failure = error
            try:
                loop.call_soon_threadsafe(finish, result, failure)
            except RuntimeError:
                pass  # the loop is closed

        with self._lock:
            starts = self._idle == 0
            if not starts:
                self._idle -= 1
        if starts:
            threading.Thread(target=self._serve, args=(work,), name="turnstone-function", daemon=True).start()
        else:
            self._work.put(work)
        try:
            return await answer
        except asyncio.CancelledError:
            if answer.cancelled():
                self.abandoned += 1
            raise

    def _serve(self, work: Callable[[], None]) -> None:
        while True:
            work()
            with self._lock:
                self._idle += 1
            try:
                work = self._work.get(timeout=IDLE_THREAD)
            except queue.Empty:
                with self._lock:
                    if self._idle > 0:
                        self._idle -= 1
                        return
                work = self._work.get()  # all idle threads are promised work, which comes now
