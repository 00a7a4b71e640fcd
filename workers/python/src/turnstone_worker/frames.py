"""Hides the worker's frames from user code. They are below the code of an input, or between two
parts of it, such as print() and the write of a stream.
"""
import sys

from turnstone_worker.natives import replace, resemble

native_getframe = sys._getframe

_PROGRAM = "turnstone_worker.program"  # the __name__ of code in an input that runs a whole program

_entries = set()  # the ids of code


def is_ours(frame):
    name = frame.f_globals.get("__name__")
    return type(name) is str and name.startswith("turnstone_worker.")


def entry(function):
    """Marks a function that runs user code. No frame below it is visible."""
    _entries.add(id(function.__code__))
    return function


def _is_entry(frame):
    return id(frame.f_code) in _entries or is_program(frame)


def is_program(frame):
    """Reports whether a frame belongs to an input's own code that runs a program. No frame below the program is visible."""
    return frame.f_globals.get("__name__") == _PROGRAM


def _visible(items):
    """Yields the items whose first element is a frame of user code. The items are those of a stack,
    from its top, or of a traceback, which may begin below the input's code."""
    seen = False
    for item in items:
        if not is_ours(item[0]):
            seen = True
            yield item
        elif seen and _is_entry(item[0]):
            return


def install():
    def _getframe(depth=0, /):
        """Return a frame object from the call stack.

        If optional integer depth is given, return the frame object that many
        calls below the top of the stack. If that is deeper than the call
        stack, ValueError is raised. The default for depth is zero, returning
        the frame at the top of the call stack."""
        frame = native_getframe(1)
        while frame is not None:
            if is_ours(frame):
                if _is_entry(frame):
                    break
            elif depth <= 0:
                return frame
            else:
                depth -= 1
            frame = frame.f_back
        raise ValueError("call stack is not deep enough")

    replace(sys, native_getframe, _getframe)


def teach_traceback(traceback):
    summary = traceback.StackSummary
    name = "_extract_from_extended_frame_gen"  # since 3.11
    name = name if hasattr(summary, name) else "extract"
    native, native_walk = getattr(summary, name).__func__, traceback.walk_stack

    def extract(klass, frame_gen, **options):
        return native(klass, _visible(frame_gen), **options)

    def walk_stack(f=None):
        return native_walk(native_getframe(1) if f is None else f)

    resemble(extract, native)
    resemble(walk_stack, native_walk)
    setattr(summary, name, classmethod(extract))
    traceback.walk_stack = walk_stack


def teach_inspect(inspect):
    for name in ("getouterframes", "getinnerframes"):
        _filter(inspect, name)


def _filter(inspect, name):
    native = getattr(inspect, name)

    def function(*args, **options):
        return list(_visible(native(*args, **options)))

    resemble(function, native)
    setattr(inspect, name, function)


def teach_warnings(warnings):
    """Removes the line from warnings that finalizers cause while the worker runs, as if no code ran."""
    native = warnings._showwarnmsg

    def _showwarnmsg(msg):
        if msg.filename.startswith("<turnstone_worker/"):
            msg.filename, msg.lineno = "<sys>" if sys.version_info >= (3, 14) else "sys", 1
        native(msg)

    warnings._showwarnmsg = resemble(_showwarnmsg, native)


def teach_bdb(bdb):
    """Hides from debuggers the worker's frames, and the loop's frames below an input that awaits. Debuggers do not stop there either."""
    native_stop_here, native_get_stack, native_exception = bdb.Bdb.stop_here, bdb.Bdb.get_stack, bdb.Bdb.dispatch_exception

    def stop_here(self, frame):
        return not is_ours(frame) and native_stop_here(self, frame) and not _is_below(frame)

    def get_stack(self, frame, traceback):
        stack, current = native_get_stack(self, frame, traceback)
        below = max((i + 1 for i, (f, _) in enumerate(stack[: current + 1]) if _is_entry(f)), default=0)
        visible = [i for i, (f, _) in enumerate(stack) if i >= below and not is_ours(f)]
        return [stack[i] for i in visible], max(0, sum(i <= current for i in visible) - 1)

    def dispatch_exception(self, frame, arg):
        """Ignores exceptions in hidden frames, such as the StopIteration with which a coroutine returns to its caller."""
        if is_ours(frame) or _is_below(frame):
            return self.trace_dispatch
        return native_exception(self, frame, arg)

    resemble(dispatch_exception, native_exception)
    bdb.Bdb.dispatch_exception = dispatch_exception
    resemble(stop_here, native_stop_here)
    resemble(get_stack, native_get_stack)
    bdb.Bdb.stop_here, bdb.Bdb.get_stack = stop_here, get_stack


def _is_below(frame):
    """Reports whether a frame belongs to the event loop that runs an input, and was not called by code of the input."""
    while frame is not None:
        name = frame.f_globals.get("__name__")
        if type(name) is not str or name.partition(".")[0] not in ("asyncio", "selectors", "contextlib"):
            return type(name) is str and is_ours(frame)
        frame = frame.f_back
    return False
