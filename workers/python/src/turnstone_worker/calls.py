"""Calls of the host's functions, from any thread.

A thread sends a call and then waits, as for an answer to input(). Any thread that waits for the
channel sorts the results of all calls. A result of an unknown call is dropped.
"""
import sys
from _functools import partial
from _thread import start_new_thread
from itertools import count

from turnstone_worker import imports
from turnstone_worker.atomic import together
from turnstone_worker.frames import native_getframe
from turnstone_worker.interrupt import guard, is_inside

guard(globals())

values = None  # the module, imported with the first call
MAX_OPEN = 1024  # further calls are an error in the calling code


class CallError(Exception):
    """A call of a function of the host failed. name is the host's name for the error."""

    name = "CallError"


CallError.__module__ = "turnstone"
_kinds = {"CallError": CallError}
_MAX_KINDS = 256


def _kind(name):
    """Returns the exception class for an error's name: a CallError that is also Python's exception of that name, if there is one."""
    kind = _kinds.get(name)
    if kind is None:
        own = getattr(imports.builtins, name, None)
        try:
            if not issubclass(own, Exception) or str(own("x")) == "":
                own = None
        except TypeError:
            own = None  # not a class, or one that cannot be made from a message alone
        if not name.isidentifier() or len(_kinds) >= _MAX_KINDS:
            return type("CallError", (CallError,), {"name": name, "__module__": "turnstone"})
        bases = (CallError,) if own is None else (CallError, own)
        kind = _kinds[name] = type(name, bases, {"name": name, "__module__": "turnstone", "__str__": Exception.__str__})
    return kind


def tool_error():
    """Returns the exception class for a tool that reports a failure."""
    return _kind("ToolError")


def error(encoded):
    """Returns the exception for the encoded error of a call."""
    try:
        fields = values.decode(encoded)
        return _kind(str(fields["name"]))(str(fields["message"]))
    except Exception as e:
        return CallError("the host's error cannot be read: %s" % e)


class Open:
    """A call that has no result yet."""

    def __init__(self, wake=None):
        self.parts = []  # call_result messages
        self.wake = wake  # called by any thread when the result is complete, perhaps more than once

    @property
    def done(self):
        return bool(self.parts) and not self.parts[-1]["more"]

    def result(self):
        parts = [m["value"] for m in self.parts]
        if self.parts[-1]["failed"]:
            raise error(b"".join(parts))
        try:
            return values.decode(*parts)
        except ValueError as e:
            raise CallError("the result cannot be read: %s" % e) from None


class Calls:
    def __init__(self, channel):
        self.channel = channel
        self.numbers = count(1)  # next() is one step of C, so no two threads or handlers get the same number
        self.open = {}
        self.leading = False  # a thread reads the channel for the awaited calls
        self.complete = []  # awaited calls that have their results but are not woken yet

    def call(self, name, args):
        """Calls a function of the host, and waits for its result."""
        encoded = self._ready(name, args)
        number, one = next(self.numbers), Open()
        channel = self.channel
        try:
            self.open[number] = one
            self._send(number, name, encoded)
            if not one.done:
                channel.wait(lambda: one.done or channel.ending)
        finally:
            self.open.pop(number, None)
            if not one.done and not channel.mute:
                channel.send({"type": "call_cancel", "id": number})
        if not one.done:
            raise CallError("the session is ending")
        return one.result()

    def _ready(self, name, args):
        """Returns the encoded arguments; raises if no call can be made now."""
        global values
        if values is None:
            from turnstone_worker import values
        channel = self.channel
        if channel.forked:
            raise CallError("%s: a forked child cannot call functions of the host: call in the parent, and pass the result on" % name)
        if is_inside(native_getframe(2)):
            raise CallError(
                "%s: a signal handler or finalizer that has interrupted the session's own work cannot call functions of the host: note it, and call later" % name
            )
        if channel.ending:
            raise CallError("%s: the session is ending" % name)
        if len(self.open) >= MAX_OPEN:
            raise CallError("%s: %d calls are open already: wait for some to end" % (name, MAX_OPEN))
        try:
            return values.encode(args)
        except (TypeError, ValueError, OverflowError) as e:
            raise type(e)("%s: argument %s" % (name, e)) from None

    def _send(self, number, name, encoded):
        channel = self.channel
        message = {"type": "call", "id": number, "turn": channel.turn if channel.active else 0, "name": name, "args": encoded}
        channel.send(message, channel.fresh)

    def accept(self, arrived):
        """Takes the result at the front of arrived, exactly once, whatever exception strikes."""
        one = self.open.get(arrived[0]["id"])
        if one is None:
            del arrived[0]
            return
        steps = [partial(one.parts.append, arrived[0]), partial(arrived.pop, 0)]
        if one.wake is not None and not arrived[0]["more"]:
            steps.append(partial(self.complete.append, one))
        together([], *steps)

    def rouse(self):
        """Wakes the awaited calls that have their results; may be repeated."""
        while self.complete:
            self.complete[-1].wake()
            self.complete.pop()

    # ------------------------------------------------------------ await

    async def wait_for(self, name, args):
        """Calls a function of the host without blocking the event loop."""
        import asyncio

        encoded = self._ready(name, args)
        loop = asyncio.get_running_loop()
        future = loop.create_future()

        def settle():
            if not future.done():
                future.set_result(None)

        def wake():
            try:
                loop.call_soon_threadsafe(settle)
            except RuntimeError:
                pass  # the loop is closed

        number, one = next(self.numbers), Open(wake)
        try:
            self.open[number] = one
            self._send(number, name, encoded)
            self._lead()
            if not one.done:
                await future
        finally:
            self.open.pop(number, None)
            if not one.done and not self.channel.mute:
                self.channel.send({"type": "call_cancel", "id": number})
        if not one.done:
            raise CallError("the session is ending")
        return one.result()

    def _lead(self):
        """Starts a thread that reads the channel while calls are awaited, because the loop's thread does not."""
        if not self.leading:
            self.leading = True
            start_new_thread(self._leader, ())

    def _leader(self):
        try:
            self.channel.wait(lambda: self.channel.ending or not self._awaits())
        except BaseException:
            pass  # the channel is closed, so the process is about to end
        finally:
            self.leading = False
            for one in list(self.open.values()):
                if one.wake is None:
                    continue
                if self.channel.ending:
                    one.wake()
                elif not one.done:
                    self._lead()  # this call was made while the thread was about to end

    def _awaits(self):
        return any(one.wake is not None and not one.done for one in list(self.open.values()))
