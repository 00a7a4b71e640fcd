"""One run(): code in, a Result out, and a session that is free again."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any, Awaitable, Callable, Dict, List, Optional, Union

from . import wire
from .errors import TurnstoneError
from .folding import Folder
from .result import CodeError, Display, Result, read_data

if TYPE_CHECKING:
    from .follower import Follower
    from .session import AsyncSession

# Bounds, in bytes and seconds.
MAX_BYTES = 32 << 20  # of text, of the value, of the traceback and of displays
GRACE = 5.0  # from an interrupt to the next one, and to giving up
MAX_ENDS_OF_FILE = 1000  # answered in one turn: code that reads on after each of them never ends

REQUEST_FIELDS = ("turn", "prompt", "kind", "secret", "terminal", "reader", "raw", "polls")

OnText = Callable[[str], Any]
OnDisplay = Callable[[Display], Any]
Answer = Callable[[wire.InputRequest], Union[None, str, Awaitable[Optional[str]]]]


class Options:
    """What the caller of run() wants."""

    def __init__(self, timeout: Optional[float], queue: bool, on_text: Optional[OnText], on_stderr: Optional[OnText], on_display: Optional[OnDisplay], answer: Optional[Answer], reset_stuck: bool, grace: float, max_bytes: int):
        for name, value in (("timeout", timeout), ("grace", grace), ("max_bytes", max_bytes)):
            if value is not None and not value >= 0:
                raise ValueError("%s=%r: use 0 or more" % (name, value))
        self.timeout, self.queue = timeout, queue
        self.on_text, self.on_stderr, self.on_display, self.answer = on_text, on_stderr, on_display, answer
        self.reset_stuck, self.grace, self.max_bytes = reset_stuck, grace, max_bytes


class Stop(Exception):
    """The end of a run that its caller has cancelled."""


class CallbackError(Exception):
    """A function of the caller has raised its cause."""


class Run:
    """The state of one run(). Its task goes on when the caller is cancelled, until the session is free."""

    def __init__(self, session: "AsyncSession", code: str, options: Options):
        self.session = session
        self.code = code
        self.options = options
        self.is_stopped = False  # the caller was cancelled
        self._folder = Folder(options.max_bytes)
        self._wake: "asyncio.Future[None]" = asyncio.get_running_loop().create_future()  # the turn must end
        self._timer: Optional[asyncio.TimerHandle] = None
        self._late = False  # the time was over
        self._muted = False  # no further callbacks
        self._calling: "Optional[asyncio.Future[Any]]" = None  # the callback that runs
        self._answering: "Optional[asyncio.Task[None]]" = None
        self._fault: Optional[BaseException] = None  # of the answer function
        self._ends_of_file = 0

    @property
    def _result(self) -> Result:
        return self._folder.result

    def stop(self) -> None:
        """End the turn because the caller was cancelled."""
        self.is_stopped = self._muted = True
        self._end_soon()
        if self._calling is not None:
            self._calling.cancel()

    def _end_soon(self) -> None:
        if not self._wake.done():
            self._wake.set_result(None)

    def _time_out(self) -> None:
        self._late = True
        self._end_soon()

    async def finish(self) -> Result:
        """Run the code, and return when the session is free."""
        session = self.session
        follower = await session._take_follower()
        try:
            self._result.turn = await self._start()
            folding = asyncio.ensure_future(self._fold(follower))
            try:
                await self._wait(folding)
                fault: Optional[BaseException] = None
                while True:
                    fault = fault or self._failure(folding)
                    self._muted = self._muted or fault is not None
                    if folding.done():
                        if not isinstance(_exception(folding), CallbackError):
                            break
                        folding = asyncio.ensure_future(self._fold(follower))
                    await self._end_turn(folding)
                if fault is not None:
                    raise fault
                if self.is_stopped:
                    raise Stop()
                folding.result()
                return self._folder.finish(self._late)
            finally:
                await self._abandon(folding)
        finally:
            if self._timer is not None:
                self._timer.cancel()
            await session._return_follower(follower)

    def _failure(self, folding: "asyncio.Task[None]") -> Optional[BaseException]:
        """Return what a function of the caller has raised."""
        error = _exception(folding)
        return error.__cause__ if isinstance(error, CallbackError) else self._fault

    async def _wait(self, task: "asyncio.Task[Any]") -> None:
        """Wait until a task is done, or the turn must end."""
        await asyncio.wait([task, self._wake], return_when=asyncio.FIRST_COMPLETED)

    async def _abandon(self, folding: "asyncio.Task[None]") -> None:
        for task in (folding, self._answering):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait([task])
        _exception(folding)  # marks it as retrieved

    # ---- the turn

    async def _start(self) -> int:
        """Start the turn and return its number. It waits while the session is prepared, or for its place in the queue."""
        params: Dict[str, Any] = {"input": self.code, "request": self.session.client.next_request(), **self.session._author()}
        if self.options.queue:
            params["queue"] = True
        starting = asyncio.ensure_future(self.session._call("turn/start", params))
        try:
            await self._wait(starting)
        except asyncio.CancelledError:
            starting.cancel()
            raise
        if starting.done():
            turn = starting.result()["turn"]
        else:
            starting.cancel()
            await asyncio.wait([starting])
            try:  # the same request tells whether the turn has started after all
                turn = (await self.session._call("turn/start", params))["turn"]
            except TurnstoneError as error:
                if error.kind != "cancelled":
                    raise
                raise Stop() from None
        if turn == 0:
            raise TurnstoneError("stale", "the code was not run: it answered a prompt of the interpreter's start")
        return turn

    async def _end_turn(self, folding: "asyncio.Task[None]") -> None:
        """Interrupt the turn, twice if needed, and wait for its end. Then reset the session, if the caller wants that."""
        turn, session, grace = self._result.turn, self.session, self.options.grace
        for _ in range(2):
            interrupting = asyncio.ensure_future(session.interrupt(turn))
            await asyncio.wait([folding], timeout=grace)
            if not folding.done() and await self._is_over(interrupting, grace):  # only events, or a callback, are left
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

    async def _is_over(self, interrupting: "asyncio.Task[str]", timeout: float) -> bool:
        """Return whether an interrupt found the turn at its end."""
        await asyncio.wait([interrupting], timeout=timeout)
        if not interrupting.done():
            interrupting.cancel()
            await asyncio.wait([interrupting])
        return not interrupting.cancelled() and interrupting.exception() is None and interrupting.result() in ("idle", "stale")

    # ---- events

    async def _fold(self, follower: "Follower") -> None:
        """Read the events until the turn is over, and build the result of them."""
        folder, turn = self._folder, self._result.turn
        while True:
            event = await follower.next()
            if event is None:
                raise TurnstoneError("no_session", "session %s was closed during turn %d" % (self.session.name, turn), {"turn": turn})
            kind = event["type"]
            had_started = folder.has_started
            folder.note(event, self.session._reported_end)
            if event.get("turn") == turn and not event.get("between_turns") and kind != "gap":
                folder.start(kind)
                if not had_started and self.options.timeout is not None:
                    self._timer = asyncio.get_running_loop().call_later(self.options.timeout, self._time_out)
                if await self._take(kind, event):
                    return
            elif not had_started and kind in ("worker_exited", "gap", "notice") and await self._has_never_started(event):
                return

    async def _take(self, kind: str, event: Any) -> bool:
        """Add an event of the turn to the result. Return whether it is the last one."""
        if kind == "text":
            await self._report_text(self._folder.add_text(event), event)
        elif kind == "display":
            display = await self._read_display(event)
            await self._call_back(self.options.on_display, display)
            self._folder.add_display(display, bool(event.get("update")))
        elif kind == "interrupt":
            self._folder.is_interrupted = True
        elif kind == "input_requested":
            if event.get("kind") not in ("permission", "form"):
                self._answering = asyncio.ensure_future(self._give_answer(event))
        elif kind == "input_request_ended":
            if self._answering is not None:
                self._answering.cancel()
        elif kind == "turn_ended":
            if event["outcome"] == "ended":
                self.session._reported_end = event.get("generation", 0)
            for piece, rest in self._folder.end(event):
                await self._report_text(rest, piece)
            return True
        return False

    async def _has_never_started(self, event: Any) -> bool:
        """Ask whether the turn is over without an event, because no interpreter could be started for it."""
        turn = self._result.turn
        reply = await self.session._call("turn/wait", {"turn": turn})
        if not reply.get("outcome") or any(e["turn"] == turn and e["type"] in ("turn_started", "turn_ended") for e in reply["events"]):
            return False
        self._result.outcome = reply["outcome"]
        if reply["outcome"] == "interrupted":
            self._result.error = CodeError("Interrupted", "before it ran")
        else:
            self._result.error = CodeError("WorkerEnded", event.get("message") or "the interpreter ended before the code ran", ended=True)
        return True

    async def _read_display(self, event: Any) -> Display:
        """Return a display with the data that the event leaves out, if there is room for it."""
        data = {mime: read_data(value) for mime, value in (event.get("data") or {}).items()}
        display = Display(data, event.get("title", ""), event.get("id", ""), bool(event.get("result")))
        room = self._folder.display_room - display.size
        for mime, left in (event.get("omitted") or {}).items():
            room -= left["bytes"]
            whole = await self.session._blob(left) if room >= 0 else None
            if whole is None:
                display.left_out[mime] = left["bytes"]
            else:
                display.data[mime] = whole
        return display

    # ---- the caller's functions

    async def _report_text(self, text: str, event: Any) -> None:
        if text:
            await self._call_back(self.options.on_text, text)
            if event.get("stream") == "stderr":
                await self._call_back(self.options.on_stderr, text)

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
        try:
            said = await self._ask(event)
            params: Dict[str, Any] = {"input_request": event["seq"], "input": said or "", **self.session._author()}
            if said is None:
                if event.get("polls"):
                    return  # the program may go on by itself
                self._ends_of_file += 1
                if self._ends_of_file > MAX_ENDS_OF_FILE:
                    self._result.notices.append("the code has asked for input %d times after the end of the input, and was interrupted" % MAX_ENDS_OF_FILE)
                    self._end_soon()
                    return
                params["eof"] = True
            elif not event.get("raw") and not said.endswith("\n"):
                params["input"] += "\n"
            await self.session._call("turn/input", params)
        except TurnstoneError as error:
            if error.kind in ("stale", "no_session", "unreachable", "outcome_unknown"):
                return  # another client was faster, or the events tell
            self._fault = error
            self._end_soon()
        except Exception as error:  # of the answer function
            self._fault = error
            self._end_soon()

    async def _ask(self, event: Any) -> Optional[str]:
        if self.options.answer is None or self._muted:
            return None
        request: Any = {"id": event["seq"], "prompt": "", **{name: event[name] for name in REQUEST_FIELDS if name in event}}
        said: Any = self.options.answer(request)
        if inspect.isawaitable(said):
            said = await said
        if said is not None and not isinstance(said, str):
            raise TypeError("the answer is of type %s, not str or None" % type(said).__name__)
        return said


def _exception(task: "asyncio.Task[Any]") -> Optional[BaseException]:
    return task.exception() if task.done() and not task.cancelled() else None
