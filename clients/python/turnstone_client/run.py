"""One run(): code in, a Result out, and a session that is free again."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any, Awaitable, Callable, Dict, List, Optional, Union

from . import wire
from .errors import TurnstoneError
from .result import CodeError, Display, Result, read_data
from .text import Decoder

if TYPE_CHECKING:
    from .follower import Follower
    from .session import AsyncSession

# Bounds, in bytes and seconds.
MAX_BYTES = 32 << 20  # of text, and again of displays
GRACE = 5.0  # from an interrupt to the next one, and to giving up
MAX_ENDS_OF_FILE = 1000  # answered in one turn: code that reads on after each of them never ends
MAX_NOTICES = 100  # of one result

REQUEST_FIELDS = ("turn", "prompt", "kind", "secret", "terminal", "reader", "raw", "polls")

OnText = Callable[[str], Any]
OnDisplay = Callable[[Display], Any]
Answer = Callable[[wire.InputRequest], Union[None, str, Awaitable[Optional[str]]]]


class Options:
    """What the caller of run() wants."""

    def __init__(self, timeout: Optional[float], queue: bool, on_text: Optional[OnText], on_stderr: Optional[OnText], on_display: Optional[OnDisplay], answer: Optional[Answer], reset_stuck: bool, grace: float, max_bytes: int):
        self.timeout, self.queue = timeout, queue
        self.on_text, self.on_stderr, self.on_display, self.answer = on_text, on_stderr, on_display, answer
        self.reset_stuck, self.grace, self.max_bytes = reset_stuck, grace, max_bytes


class Stop(Exception):
    """The end of a run that its caller has cancelled."""


class Run:
    """The state of one run(). Its task goes on when the caller is cancelled, until the session is free."""

    def __init__(self, session: "AsyncSession", code: str, options: Options):
        self.session = session
        self.code = code
        self.options = options
        self.result = Result(0)
        self._stopping: "asyncio.Future[None]" = asyncio.get_running_loop().create_future()
        self._muted = False  # no further callbacks
        self._calling: "Optional[asyncio.Future[Any]]" = None  # the callback that runs
        self._answering: "Optional[asyncio.Task[None]]" = None
        self._fault: Optional[BaseException] = None  # of the answer function
        self._late = False  # the time was over
        self._interrupted = False  # the session has recorded an interrupt of the turn
        self._decoder = Decoder()
        self._text: List[str] = []
        self._stderr: List[str] = []
        self._value: List[str] = []
        self._value_at = 0  # index in _text
        self._traceback: List[str] = []
        self._room = options.max_bytes  # for text
        self._display_room = options.max_bytes
        self._gap = 0  # bytes of a gap whose turn is not known yet
        self._started = False  # an event of the turn was seen
        self._ends_of_file = 0
        self._displays: Dict[str, int] = {}  # index of the display with an id

    def stop(self) -> None:
        """End the turn because the caller was cancelled."""
        self._muted = True
        if not self._stopping.done():
            self._stopping.set_result(None)
        if self._calling is not None:
            self._calling.cancel()

    @property
    def is_stopped(self) -> bool:
        return self._stopping.done()

    async def finish(self) -> Result:
        """Run the code, and return when the session is free."""
        session = self.session
        begun = asyncio.get_running_loop().time()
        follower = await session._take_follower()
        try:
            self.result.turn = await self._start(begun)
            folding = asyncio.ensure_future(self._fold(follower))
            try:
                await self._wait(folding, self._remaining(begun))
                fault: Optional[BaseException] = None
                while True:
                    fault = fault or self._failure(folding)
                    self._muted = self._muted or fault is not None
                    if folding.done():
                        if not isinstance(_exception(folding), CallbackError):
                            break
                        folding = asyncio.ensure_future(self._fold(follower))
                    self._late = self._late or fault is None and not self._stopping.done()
                    await self._end_turn(folding)
                if fault is not None:
                    raise fault
                if self._stopping.done():
                    raise Stop()
                folding.result()
                return self.result
            finally:
                await self._abandon(folding)
        finally:
            await session._return_follower(follower)

    def _remaining(self, begun: float) -> Optional[float]:
        if self.options.timeout is None:
            return None
        return max(0.0, begun + self.options.timeout - asyncio.get_running_loop().time())

    def _failure(self, folding: "asyncio.Task[None]") -> Optional[BaseException]:
        """Return what a function of the caller has raised."""
        error = _exception(folding)
        return error.__cause__ if isinstance(error, CallbackError) else self._fault

    async def _wait(self, task: "asyncio.Task[Any]", timeout: Optional[float]) -> None:
        """Wait until a task is done, the run is stopped, or the time is over."""
        await asyncio.wait([task, self._stopping], timeout=timeout, return_when=asyncio.FIRST_COMPLETED)

    async def _abandon(self, folding: "asyncio.Task[None]") -> None:
        for task in (folding, self._answering):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait([task])
        if not folding.cancelled():
            folding.exception()  # marks it as retrieved

    # ---- the turn

    async def _start(self, begun: float) -> int:
        """Start the turn and return its number. It waits while the session is prepared, or for its place in the queue."""
        params: Dict[str, Any] = {"input": self.code, "request": self.session.client.next_request(), **self.session._author()}
        if self.options.queue:
            params["queue"] = True
        starting = asyncio.ensure_future(self.session._call("turn/start", params))
        try:
            await self._wait(starting, self._remaining(begun))
        except asyncio.CancelledError:
            starting.cancel()
            raise
        if starting.done():
            return starting.result()["turn"]
        starting.cancel()
        await asyncio.wait([starting])
        try:  # the same request tells whether the turn has started after all
            return (await self.session._call("turn/start", params))["turn"]
        except TurnstoneError as error:
            if error.kind != "cancelled":
                raise
        if self._stopping.done():
            raise Stop()
        raise TurnstoneError("busy", "session %s was not free within %g s, so the code did not run" % (self.session.name, self.options.timeout or 0))

    async def _end_turn(self, folding: "asyncio.Task[None]") -> None:
        """Interrupt the turn, twice if needed, and wait for its end. Then reset the session, if the caller wants that."""
        turn, session, grace = self.result.turn, self.session, self.options.grace
        for _ in range(2):
            interrupting = asyncio.ensure_future(session.interrupt(turn))
            await asyncio.wait([folding], timeout=grace)
            if not folding.done():
                over = await self._outcome(interrupting, grace)
                if over in ("idle", "stale", "not running"):  # only events, or a callback, are left
                    await asyncio.wait([folding])
            if folding.done():
                interrupting.cancel()
                await asyncio.wait([interrupting])
                return
        if self.options.reset_stuck:
            await session.reset()
            await asyncio.wait([folding])
            return
        raise TurnstoneError("still_running", "turn %d of session %s still runs after two interrupts; reset() the session, or use reset_stuck=True, which loses its variables" % (turn, session.name), {"turn": turn})

    async def _outcome(self, interrupting: "asyncio.Task[str]", timeout: float) -> str:
        await asyncio.wait([interrupting], timeout=timeout)
        if not interrupting.done():
            interrupting.cancel()
            await asyncio.wait([interrupting])
        if interrupting.cancelled() or interrupting.exception() is not None:
            return ""
        return interrupting.result()

    # ---- events

    async def _fold(self, follower: "Follower") -> None:
        """Read the events until the turn is over, and build the result of them."""
        while True:
            event = await follower.next()
            if event is None:
                raise TurnstoneError("no_session", "session %s was closed during turn %d" % (self.session.name, self.result.turn), {"turn": self.result.turn})
            kind, turn = event["type"], event.get("turn", 0)
            if kind == "gap":
                self._gap += event.get("bytes", 0)
                continue
            mine = turn == self.result.turn and not event.get("between_turns")
            if mine:
                self._count_gap(kind)
            if mine or event.get("between_turns") or turn == 0:
                self._note(kind, event)
            if mine and await self._take(kind, event):
                return

    def _count_gap(self, kind: str) -> None:
        if self._started or kind != "turn_started":  # otherwise the gap was before the turn
            self.result.left_out += self._gap
        self._gap, self._started = 0, True

    def _note(self, kind: str, event: Any) -> None:
        said = ""
        if kind in ("notice", "limit"):
            said = event.get("message", "")
        elif kind == "access_denied":
            said = "denied: %s" % " ".join(str(event[name]) for name in ("op", "path", "host", "call", "detail") if event.get(name))
        elif kind == "access_granted":
            said = "granted: %s" % " ".join("%s %s" % (name, event[name]) for name in ("read", "write", "host", "call") if event.get(name))
        elif kind == "worker_exited" and event.get("message") and self.session._reported_end != event.get("generation"):
            said = "the interpreter had ended before, and its variables are lost: %s" % event["message"]
        if said and len(self.result.notices) < MAX_NOTICES:
            self.result.notices.append(said)
        elif said:
            self.result.notices[-1] = "further notices are in the events of the session"

    async def _take(self, kind: str, event: Any) -> bool:
        """Add an event of the turn to the result. Return whether it is the last one."""
        if kind == "text":
            await self._take_text(event)
        elif kind == "display":
            await self._take_display(event)
        elif kind == "interrupt":
            self._interrupted = True
        elif kind == "input_requested":
            if event.get("kind") not in ("permission", "form"):
                self._answering = asyncio.ensure_future(self._give_answer(event))
        elif kind == "input_request_ended":
            if self._answering is not None:
                self._answering.cancel()
        elif kind == "turn_ended":
            await self._take_end(event)
            return True
        return False

    async def _take_text(self, event: Any) -> None:
        text = self._decoder.decode(event)
        kind = event.get("kind")
        if kind == "traceback":
            self._traceback.append(self._cut(text))
        elif kind == "result":
            if self._value and len(self._text) > self._value_at:  # R shows several values: the last one is the value
                self._text[self._value_at : self._value_at] = self._value
                self._value = []
            if not self._value:
                self._value_at = len(self._text)
            self._value.append(self._cut(text))
        else:
            await self._output(text, event.get("stream") == "stderr")

    async def _output(self, text: str, is_stderr: bool) -> None:
        kept = self._cut(text)
        self._text.append(kept)
        if is_stderr:
            self._stderr.append(kept)
        await self._call_back(self.options.on_text, text)
        if is_stderr:
            await self._call_back(self.options.on_stderr, text)

    def _cut(self, text: str) -> str:
        """Return the part of text for which there is room, and count the rest."""
        size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        if size <= self._room:
            self._room -= size
            return text
        kept = text.encode("utf-8", "surrogatepass")[: self._room].decode("utf-8", "ignore")
        self.result.left_out += size - len(kept.encode())
        self._room = 0
        return kept

    async def _take_display(self, event: Any) -> None:
        display = Display({mime: read_data(value) for mime, value in (event.get("data") or {}).items()}, event.get("title", ""), event.get("id", ""), bool(event.get("result")))
        size = sum(len(value) if isinstance(value, (str, bytes)) else 0 for value in display.data.values())
        for mime, left in (event.get("omitted") or {}).items():
            size += left["bytes"]
            data = await self.session._blob(left) if size <= self._display_room else None
            if data is None:
                display.left_out[mime] = left["bytes"]
            else:
                display.data[mime] = data
        await self._call_back(self.options.on_display, display)
        if size > self._display_room:
            self.result.left_out_displays += 1
            return
        if display.left_out:
            self.result.left_out_displays += 1
        shown = self._displays.get(display.id) if display.id and event.get("update") else None
        if shown is not None:  # as in a notebook, an update replaces what was shown
            self.result.displays[shown] = display
            return
        self._display_room -= size
        if display.id:
            self._displays[display.id] = len(self.result.displays)
        self.result.displays.append(display)

    async def _take_end(self, event: Any) -> None:
        result = self.result
        for stream, rest in self._decoder.finish().items():
            await self._output(rest, stream == "stderr")
        result.outcome = event["outcome"]
        result.duration = event.get("elapsed_ms", 0) / 1000
        result.text, result.stderr = "".join(self._text), "".join(self._stderr)
        value = "".join(self._value)
        if self._value:
            result.value = value[:-1] if value.endswith("\n") else value
        else:
            result.value = next((shown.data["text/plain"] for shown in reversed(result.displays) if shown.is_value and "text/plain" in shown.data), None)
        ended = result.outcome == "ended"
        if ended:
            self.session._reported_end = event.get("generation", 0)
        if result.outcome != "ok":
            name = event.get("name") or ("WorkerEnded" if ended else "Interrupted" if result.outcome == "interrupted" else "Error")
            result.error = CodeError(name, event.get("message", ""), "".join(self._traceback), ended)
        result.timed_out = self._late and (self._interrupted or result.outcome in ("interrupted", "ended"))

    # ---- the caller's functions

    async def _call_back(self, function: Optional[Callable[[Any], Any]], argument: Any) -> None:
        if function is None or self._muted:
            return
        try:
            made = function(argument)
            if not inspect.isawaitable(made):
                return
            self._calling = asyncio.ensure_future(made)
            await self._calling
        except asyncio.CancelledError:
            if not self._muted:
                raise
        except Exception as error:
            raise CallbackError() from error
        finally:
            self._calling = None

    async def _give_answer(self, event: Any) -> None:
        """Answer an input request, with an end of file if the caller has no answer."""
        said: Optional[str] = None
        if self.options.answer is not None and not self._muted:
            request: Any = {"id": event["seq"], "prompt": "", **{name: event[name] for name in REQUEST_FIELDS if name in event}}
            try:
                said = self.options.answer(request)  # type: ignore[assignment]
                if inspect.isawaitable(said):
                    said = await said
                if said is not None and not isinstance(said, str):
                    raise TypeError("the answer is of type %s, not str or None" % type(said).__name__)
            except Exception as error:
                self._fault = error
                if not self._stopping.done():
                    self._stopping.set_result(None)
                return
        params: Dict[str, Any] = {"input_request": event["seq"], "input": said or "", **self.session._author()}
        if said is None:
            if event.get("polls"):
                return  # the program may go on by itself
            self._ends_of_file += 1
            if self._ends_of_file > MAX_ENDS_OF_FILE:
                self.result.notices.append("the code has asked for input %d times after the end of the input, and was interrupted" % MAX_ENDS_OF_FILE)
                await self.session.interrupt(self.result.turn)
                return
            params["eof"] = True
        elif not event.get("raw") and not said.endswith("\n"):
            params["input"] += "\n"
        try:
            await self.session._call("turn/input", params)
        except TurnstoneError as error:
            if error.kind not in ("stale", "no_session", "unreachable", "outcome_unknown"):  # another client was faster, or the events tell
                self._fault = error
                if not self._stopping.done():
                    self._stopping.set_result(None)


def _exception(task: "asyncio.Task[Any]") -> Optional[BaseException]:
    return task.exception() if task.done() and not task.cancelled() else None


class CallbackError(Exception):
    """A function of the caller has raised its cause."""
