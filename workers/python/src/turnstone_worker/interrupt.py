"""SIGINT, and which code it interrupts.

The supervisor writes an interrupt frame first and then sends the signal. The frame
says which turn is meant, so that one that comes too late never hits the next turn,
and that keeps one that comes too early. The signal makes it prompt. A retry repeats
both, with the same number, and only once the signal before has been sent; the next
turn_start comes only once all have. What is sent is pending, and is delivered before
the system call returns that reads the next frame. So when a turn begins, none of
another is under way, and while it runs, one at most whose frame has been read.

SIGINT's handler is always the one below, even while user code has set a handler:
that one is called for an interrupt of its turn, once, and never for a late signal.
"""
import _signal
import os
import sys
from _thread import get_ident

from turnstone_worker import system
from turnstone_worker.frames import is_ours, native_getframe

SIGINT = _signal.SIGINT
_set = _signal.signal
_get = _signal.getsignal
_native_handler = _signal.default_int_handler
_getpid = os.getpid
_settrace = sys.settrace

# How much later than its signal a frame may come, in milliseconds.
_LATE_FRAME = 5


class TurnAborted(BaseException):
    """Ends a turn that does not end by KeyboardInterrupt."""


TurnAborted.__module__ = "builtins"


class Wake(BaseException):
    """The handler has read frames, so a waiting thread must look at them before it blocks again."""


_critical = set()  # the ids of code, which is quicker than to compare it


def critical(function):
    """Marks a function in which SIGINT waits until it has returned.

    The handler looks for it on the stack. A counter would be wrong forever once an
    asynchronous exception of the user's has struck between its two halves. The caller
    looks at deferred afterwards.
    """
    _critical.add(id(function.__code__))
    return function


class Interrupts:
    def __init__(self):
        self.channel = None
        self.main = get_ident()
        self.process = _getpid()
        self.cut_off = None  # the first step of a fork
        self.turn = 0
        self.running = False  # user code runs in the main thread and may be interrupted
        self.missed = False  # a signal came while it did not
        self.deferred = False  # a signal waits for the end of a critical function
        self.blocking = False  # in a critical function that blocks: SIGINT may end the wait
        self.honoured = 0  # the last seq that was acted upon in this turn
        self.heard = False  # a frame or a signal has come since the last turn began
        self.owed = 0  # frames that were read and whose signals are not counted yet; -1: the reverse
        self.early = False  # a signal without a frame has struck, and is not counted: its frame may still come
        self.user_handler = None  # the handler of user code for SIGINT; None: it raises
        self.saved = None  # any other disposition that user code has set, saved between turns
        self.owner = "ours"  # as the supervisor knows it
        self.divert = None  # tries to deliver an interrupt in another way than by raising
        self.pass_on = None  # called for a signal that must wait
        self.unraisable = self._unraisable
        self.users_unraisable = None  # sys.unraisablehook, while ours replaces it
        self.tracer = None  # finds the instruction at which an interrupt is raised again

        def default_int_handler(signum, frame):
            if _getpid() != self.process:
                # A fork that was hit before its hook could run: it must not read the channel.
                if not self._in_critical(frame):  # in which it is being cut off
                    self.cut_off()
                    handler = _get(SIGINT)
                    if callable(handler):
                        handler(signum, frame)
            elif not self.running:
                self.missed = True
                self._count(0, 1)
            elif self._in_critical(frame):
                self.deferred = True
                if self.pass_on is not None:
                    self.pass_on()
            else:
                self._take(frame)
                self.catch_up()

        default_int_handler.__module__ = "_signal"
        default_int_handler.__qualname__ = "default_int_handler"
        self.handler = default_int_handler

    def install(self):
        """Takes over SIGINT. User code sees no difference."""
        _signal.default_int_handler = self.handler

        def getsignal(signalnum, /):
            handler = _get(signalnum)
            if signalnum == SIGINT and handler is self.handler and self.user_handler is not None:
                return self.user_handler
            return handler

        def signal(signalnum, handler, /):
            if signalnum != SIGINT or self.channel.mute:
                return _set(signalnum, handler)
            old = getsignal(SIGINT)
            if callable(handler) and handler is not self.handler:
                _set(SIGINT, self.handler)  # raises in a thread that may not
                self.user_handler = handler
            else:
                _set(SIGINT, handler)
                self.user_handler = None
            self.announce()
            return old

        for function, native in ((signal, _set), (getsignal, _get)):
            function.__qualname__ = function.__name__
            function.__module__ = "_signal"
            function.__doc__ = native.__doc__
            setattr(_signal, function.__name__, function)
        if "signal" in sys.modules:
            sys.modules["signal"].default_int_handler = self.handler
        inherited = _get(SIGINT)
        if inherited is not _native_handler:  # set by a start-up file, or ignored by our parent
            if callable(inherited):
                self.user_handler = inherited
            else:
                self.saved = inherited
        _set(SIGINT, self.handler)

    def forget(self):
        """In a forked child: SIGINT is Python's own again."""
        _signal.default_int_handler = _native_handler
        if "signal" in sys.modules:
            sys.modules["signal"].default_int_handler = _native_handler
        if _get(SIGINT) is self.handler:
            _set(SIGINT, self.user_handler or _native_handler)
        self._unwatch()

    # ------------------------------------------------------------ the turn

    def begin(self, turn):
        """User code of turn is about to run."""
        self.reset()
        if self.heard or self.channel.interruptions:
            system.take_signals(_set, self.handler, self.owed > 0)
            self.missed = True  # one of them may be of this turn: its frame has arrived
        if not self.heard or not system.LATE_SIGNALS:
            self.owed = 0
        self.heard = False
        self.early = False
        self.turn = turn
        self.honoured = 0
        if self.saved is not None:
            _set(SIGINT, self.saved)
        self.announce()

    def resume(self):
        self.running = True
        if self.missed:
            self.missed = False
            self.check()  # an early signal, whose frame has arrived

    def end(self):
        """User code has ended. Its handling of SIGINT is saved for the next turn."""
        self.running = False
        handler = _get(SIGINT)
        self.saved = None if handler is self.handler else handler
        _set(SIGINT, self.handler)
        bdb = sys.modules.get("bdb")
        if bdb is not None and type(self.user_handler) is type(self.end) and isinstance(self.user_handler.__self__, bdb.Bdb):
            self.user_handler = None  # a debugger leaves it behind when the code continues
        self._unwatch()

    def reset(self):
        self.blocking = False
        self.deferred = False
        self.pass_on = None
        self.channel.release()

    def announce(self):
        """Tells the supervisor which side handles SIGINT, if that has changed."""
        handler = _get(SIGINT)
        if handler is self.handler:
            owner = "ours" if self.user_handler is None else "user"
        else:
            owner = "ignored" if handler == _signal.SIG_IGN else "user"
        if owner != self.owner:
            self.owner = owner
            self.channel.send({"type": "sigint", "owner": owner})

    # ------------------------------------------------------------ delivery

    def catch_up(self):
        """Acts upon a signal that had to wait. Not in another thread."""
        while self.deferred and get_ident() == self.main:
            self.deferred = False
            if self.running:
                self._take(native_getframe())

    def check(self):
        """Looks for an interrupt whose signal the main thread has not seen, or did not act upon."""
        if not self.running or self.channel.mute or get_ident() != self.main:
            return
        signals = int(self.deferred)
        self.deferred = False
        self._act(self._checked(signals), native_getframe())
        self.catch_up()

    @critical
    def is_wanted(self):
        """Reports whether an interrupt of this turn has had no effect yet."""
        self.channel.look()
        return any(m["turn"] == self.turn and m["seq"] > self.honoured for m in self.channel.interruptions)

    def _take(self, frame):
        """A signal has arrived while user code runs."""
        level, wake = self._judge_signal()
        self._act(level, frame)
        if wake:
            raise Wake

    def _act(self, level, frame):
        """Delivers an interrupt to the turn."""
        if level == 0:
            return
        while frame is not None and is_ours(frame):
            frame = frame.f_back
        if level == 1 and self.user_handler is not None:
            blocking = self.blocking
            try:
                self.user_handler(SIGINT, frame)
            finally:
                self.blocking = blocking
        elif level > 1 or self.divert is None or not self.divert(frame):
            self._raise(TurnAborted if level > 1 else KeyboardInterrupt)

    # ------------------------------------------------------------ where Python cannot raise

    def _raise(self, kind):
        """Raises, and notices when the exception is lost, in a finalizer or a callback of C code."""
        hook = getattr(sys, "unraisablehook", None)
        if hook is not self.unraisable:
            self.users_unraisable = hook or sys.__unraisablehook__
            sys.unraisablehook = self.unraisable
        error = kind()
        error.__dict__["turnstone"] = self.turn  # no reference to it: it holds the frames
        raise error

    @critical
    def _unraisable(self, args):
        """sys.unraisablehook while an interrupt is under way. An interrupt that was ignored
        is raised again as soon as the interrupted code continues."""
        error = args.exc_value
        ours = isinstance(error, (KeyboardInterrupt, TurnAborted)) and error.__dict__.get("turnstone") == self.turn
        # Finalizers also run in the worker's own frames. Not in a critical one.
        frame = outer = native_getframe().f_back  # None at the end of Python, which calls from C
        while outer is not None:
            if id(outer.f_code) in _critical:
                frame = outer.f_back
            outer = outer.f_back
        if not ours or not self.running or frame is None or get_ident() != self.main:
            return self.users_unraisable(_without_ours(args) if ours else args)
        kind, turn = type(error), self.turn

        def strike(frame, event, arg):
            _settrace(None)
            frame.f_trace_opcodes = False
            self.deferred = False  # signals that came in the meantime are repeated
            if self.running and self.turn == turn:
                self._raise(kind)

        def trace(_, event, arg):
            # For a frame that is called in between. It is set again because Python 3.12 does not always
            # see the first call.
            if sys.gettrace() is trace:
                frame.f_trace = strike
                _settrace(trace)

        self.tracer = trace
        frame.f_trace = strike
        frame.f_trace_opcodes = True  # the line may go on with something that blocks
        _settrace(trace)

    def _unwatch(self):
        if self.users_unraisable is not None and getattr(sys, "unraisablehook", None) is self.unraisable:
            sys.unraisablehook = self.users_unraisable
        self.users_unraisable = None

    def block(self, wait):
        """Calls wait(): the only place in a critical function where SIGINT raises."""
        try:
            # First say "blocking", then look: the other order loses a signal between the two.
            self.blocking = True
            self.catch_up()
            wait()
        except Wake:
            self.blocking = False
        finally:
            self.blocking = False

    def _in_critical(self, frame):
        while frame is not None:
            code = frame.f_code
            if code is _BLOCK:
                return not self.blocking
            if id(code) in _critical:
                return True
            frame = frame.f_back
        return False

    @critical
    def _judge_signal(self):
        """The effect of a SIGINT, and whether a waiting thread must look at new frames."""
        blocking, self.blocking = self.blocking, False
        try:
            seen = self.channel.look()
            if not self._is_explained():
                # Its frame may be about to be written. If there is none, the signal has
                # another sender, and the delay does no harm.
                seen = self.channel.look(_LATE_FRAME) or seen
            return self._judge(True, 1), blocking and seen
        finally:
            self.blocking = blocking

    @critical
    def _checked(self, signals):
        self.channel.look()
        return self._judge(False, signals)

    def stale(self):
        """Answers interrupts that came after their turn. Called by the idle main thread.

        Those of a turn that has come behind them are its own.
        """
        channel = self.channel
        while channel.interruptions and not (channel.active and channel.interruptions[0]["turn"] == channel.turn):
            m = channel.interruptions.pop(0)
            self._count(1, int(self.early))
            self.early = False
            self._acknowledge(m["turn"], m["seq"], "stale")

    def _count(self, frames, signals):
        """Counts signals. Signals that come together count as one."""
        self.heard = self.heard or frames > 0 or signals > 0
        self.owed = max(-1, min(self.owed + frames - signals, self._to_come()))

    def _to_come(self):
        """How many signals may not be counted yet whose frames have been read.

        One is on its way, or is being looked into. Others may have struck before a handler
        could look, whose frame is on the stack then, and one may wait in deferred.
        """
        handlers, frame = 0, native_getframe()
        while frame is not None:
            handlers += frame.f_code is self.handler.__code__
            frame = frame.f_back
        return max(handlers, 1) + self.deferred

    def _is_explained(self):
        """Reports whether the cause of a signal is known."""
        return self.channel.interruptions or self.channel.shutdown is not None or self.owed > 0

    def _judge(self, signalled, signals):
        """The level of the interrupt to act upon, or 0. signals is how many have come and are not counted."""
        levels, count = self._sort()
        if signalled and count == 0 and self.owed <= 0:
            # Without a frame: os.kill, raise_signal, interrupt_main; or the thread that reads is slow.
            self.early = True
            return 1 if self.channel.shutdown is None else 2
        new = bool(levels)
        if self.early and count:
            self.early = False
            if count > signals:  # the signal that struck was of the first frame
                signals += 1
                if levels[:1] == [1]:
                    del levels[0]
        self._count(count, signals)
        if signalled and count == 0:
            return 0
        if self.channel.shutdown is not None:
            return 2
        if not new:
            return 0
        level = max(levels, default=0)
        if self.owner == "ignored" and level <= 1:
            self._acknowledge(self.turn, self.honoured, "pending")
            return 0
        self._acknowledge(self.turn, self.honoured, "raised")
        # A handler of user code does not end the waits, nor does what has struck already.
        self.channel.ask_again(but=self.main if level > (self.owner == "user") else None)
        return level

    def _sort(self):
        """Takes the frames that have arrived. Returns the levels of the interrupts of this turn that are new, and the number of frames."""
        levels, count = [], 0
        for m in self.channel.take_interruptions():
            count += 1
            if m["turn"] != self.turn:
                self._acknowledge(m["turn"], m["seq"], "stale")
            elif m["seq"] > self.honoured:
                self.honoured = m["seq"]
                levels.append(m["level"])
        return levels, count

    def _acknowledge(self, turn, seq, result):
        # A signal that strikes in the meantime must wait: it may belong to this frame, which is
        # not counted yet. The caller looks for it.
        if not self.channel.mute:
            self.channel._send({"type": "interrupt_ack", "turn": turn, "seq": seq, "result": result}, False)


def _without_ours(args):
    """The arguments of an unraisablehook without the frames of the handler that has raised."""
    tb = args.exc_traceback
    if tb is not None and is_ours(tb.tb_frame):
        return type(args)((args.exc_type, args.exc_value, None, args.err_msg, args.object))
    while tb is not None:
        if tb.tb_next is not None and is_ours(tb.tb_next.tb_frame):
            tb.tb_next = None
        tb = tb.tb_next
    return args


_BLOCK = Interrupts.block.__code__
_guarded = set()  # the ids of the globals of modules


def guard(names):
    """Marks a module, by its globals: its functions may be repeated, but not be entered again."""
    _guarded.add(id(names))


def is_inside(frame):
    """Reports whether the code at frame has interrupted the channel's own: it is a signal handler,
    or a finalizer."""
    while frame is not None:
        if id(frame.f_globals) in _guarded or id(frame.f_code) in _critical or frame.f_code is _BLOCK:
            return True
        frame = frame.f_back
    return False
