"""The event loop of a session, and the context of its inputs.

An input with an await runs in the session's loop. A task that another input has created runs as
soon as the loop runs. All inputs share one context: a context variable keeps the value that an
input sets, whether the input awaits or not.
"""
import builtins
import sys
from _contextvars import copy_context
from _thread import get_ident

from turnstone_worker import imports
from turnstone_worker.frames import entry
from turnstone_worker.interrupt import TurnAborted, critical
from turnstone_worker.natives import resemble

_COROUTINE = 0x80  # inspect.CO_COROUTINE
_WAITS = "[%s not done: it goes on while an input with an await runs, and not between inputs]\n"


class _Steps:
    """Awaits a coroutine and runs each of its steps in a context. Tasks can do so only from Python 3.11 on, and not in every loop."""

    def __init__(self, context, coroutine):
        self.context, self.coroutine = context, coroutine

    @entry
    def __await__(self):
        step, value = self.coroutine.send, None
        while True:
            try:
                request = self.context.run(step, value)
            except StopIteration as e:
                return e.value
            try:
                step, value = self.coroutine.send, (yield request)
            except BaseException as e:
                step, value = self.coroutine.throw, e


async def _input(run, *args):
    return await run(*args)


_input.__code__ = _input.__code__.replace(co_filename="<input>", co_firstlineno=0)
_input = entry(_input)
_input.__name__ = _input.__qualname__ = "<module>"  # as a task shows it


class Loops:
    def __init__(self, interrupts):
        self.interrupts = interrupts
        self.context = copy_context()  # of the inputs
        self.loop = None  # of top-level await
        self.task = None  # of an input that awaits, while it runs
        self.lent = False  # an input has used the loop
        self.reported = False  # whether the notice about tasks between inputs was shown

    def run(self, function, *args):
        """Calls a function in the context of the inputs."""
        return self.context.run(function, *args)

    def evaluate(self, part, namespace):
        """Runs a part of an input. It restores __builtins__, because a cleared namespace would get the worker's own builtins."""
        namespace.setdefault("__builtins__", builtins)
        return self.context.run(eval, part, namespace)

    def leave(self):
        """Copies the inputs' context variables to the current context at the end of the session, for exit handlers."""
        for variable, value in self.context.items():
            variable.set(value)

    # ------------------------------------------------------------ whose loop it is

    @critical
    def open(self, asyncio):
        """Returns the loop, and creates it if needed. It is critical because an incomplete loop would complain when it is finalized.

        It is the loop that user code has made current if the session has no other loop, or if only
        the user's loop has tasks.
        """
        current = _current(asyncio)
        if not _is_free(self.loop):  # an interrupt may have left it running
            self.loop = current if _is_free(current) else asyncio.new_event_loop()
        elif current is not self.loop and _is_free(current) and asyncio.all_tasks(current) and not asyncio.all_tasks(self.loop):
            self.loop = current
        if current is not self.loop:
            asyncio.set_event_loop(self.loop)
        return self.loop

    def teach(self, asyncio):
        """Lets inputs without an await use the loop, too, as they could in a notebook."""
        events, tasks = asyncio.events, asyncio.tasks
        policy = getattr(events, "_BaseDefaultEventLoopPolicy", None) or events.BaseDefaultEventLoopPolicy
        native_task, native_loop = tasks.create_task, policy.get_event_loop

        def create_task(coro, **options):
            if events._get_running_loop() is None and self._may_lend():
                self.lent = True
                return self.open(asyncio).create_task(coro, **options)
            return native_task(coro, **options)

        def get_event_loop(self_):
            local = getattr(self_, "_local", None)
            if local is not None and self._may_lend():
                self.lent = True
                if not _is_open(getattr(local, "_loop", None)):
                    self.open(asyncio)
            return native_loop(self_)

        for function, native in ((create_task, native_task), (get_event_loop, native_loop)):
            resemble(function, native)
        asyncio.create_task = tasks.create_task = create_task
        policy.get_event_loop = get_event_loop

    def _may_lend(self):
        return get_ident() == self.interrupts.main and not self.interrupts.channel.forked

    # ------------------------------------------------------------ await

    @entry
    async def _run_in_loop(self, parts, namespace):
        """Runs a whole input with an await in the loop, because it may create tasks before it
        awaits. It returns a StopIteration, which cannot propagate out of a coroutine."""
        for part in parts:
            try:
                value = self.evaluate(part, namespace)
                if part.co_flags & _COROUTINE:
                    await _Steps(self.context, value)
            except StopIteration as e:
                return e
            except RuntimeError as e:
                stop = e.__cause__
                if type(stop) is StopIteration and stop.__traceback__ is not None and stop.__traceback__.tb_frame.f_code is part:
                    return stop
                raise

    @critical
    def _make_task(self, loop, parts, namespace):
        """Creates the coroutine and its task; neither must exist without the other."""
        self.task = loop.create_task(_input(self._run_in_loop, parts, namespace))

    def settle(self):
        """Starts the tasks that an input without an await has created."""
        self.lent = False
        asyncio, loop = sys.modules["asyncio"], self.loop
        if _is_free(loop) and (self.has_work() or asyncio.all_tasks(loop)):
            self.finish((), None)

    def has_work(self):
        """Reports whether something is about to run in the loop, as far as the loop shows it."""
        return bool(getattr(self.loop, "_ready", None))

    @entry
    def finish(self, parts, namespace):
        """Runs an input with an await to its end."""
        asyncio = imports.quietly("asyncio")
        loop = self.open(asyncio)
        self.interrupts.catch_up()
        self.task = None
        asked = late = False  # the task was cancelled; it had already ended

        def cancel(frame):
            """Cancels the task as asyncio does. Raising in the loop itself would leave its state inconsistent."""
            nonlocal asked, late
            in_c = loop.is_running() and (frame is None or frame.f_back is None)  # a loop without frames, such as uvloop's
            if asked or self.task is None or not (in_c or is_of_loop(frame)):
                return False
            asked, late = True, not self.task.cancel()
            loop.call_soon_threadsafe(int)  # wakes up the loop
            return True

        try:
            self.interrupts.divert = cancel
            self._make_task(loop, parts, namespace)
            self.interrupts.catch_up()
            stop = loop.run_until_complete(self.task)
            self.lent = bool(parts)
            if late:
                raise KeyboardInterrupt
            if stop is not None:
                raise stop
        except asyncio.CancelledError as e:
            if not asked:
                raise
            raise KeyboardInterrupt().with_traceback(e.__traceback__) from None
        except (KeyboardInterrupt, SystemExit, TurnAborted):  # another task may have raised it
            task = self.task
            if task is not None and not task.done() and not loop.is_running():
                task.cancel()
                try:
                    loop.run_until_complete(task)
                except BaseException:
                    pass  # a cancelled task may raise anything
            raise
        finally:
            self.interrupts.divert = None
            if self.task is not None and not self.task.done():
                self.task._log_destroy_pending = False
            self.task = None
        if not self.reported and not parts:
            waiting = len(asyncio.all_tasks(loop))
            if waiting:
                self.reported = True
                sys.stderr.write(_WAITS % ("1 task is" if waiting == 1 else "%d tasks are" % waiting))

    def close(self):
        """Ends the loop of top-level await, without warnings about unfinished tasks."""
        loop = self.loop
        if loop is not None and not loop.is_closed() and not loop.is_running():
            for task in imports.quietly("asyncio").all_tasks(loop):
                task._log_destroy_pending = False
            loop.close()


def _current(asyncio):
    """Returns the current loop of this thread, or None. It does not ask asyncio, which may create a loop."""
    events = asyncio.events
    policy = (getattr(events, "_get_event_loop_policy", None) or events.get_event_loop_policy)()
    return getattr(getattr(policy, "_local", None), "_loop", None)


def _is_open(loop):
    return loop is not None and not loop.is_closed()


def _is_free(loop):
    return _is_open(loop) and not loop.is_running()


RUN_IN_LOOP = Loops._run_in_loop.__code__

# A frame of these modules belongs to the loop if the loop has called it.
_HELPERS = frozenset(("weakref", "_weakrefset", "abc", "_py_abc", "inspect", "threading", "socket"))


def is_of_loop(frame):
    """Reports whether a frame belongs to an event loop or its helpers, and not to a task's code."""
    while frame is not None:
        name = frame.f_globals.get("__name__")
        if type(name) is not str or name not in _HELPERS:
            return type(name) is str and (name == "selectors" or name.startswith("asyncio."))
        frame = frame.f_back
    return False
