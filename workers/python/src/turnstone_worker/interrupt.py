"""SIGINT, and which code it interrupts.

The supervisor writes an interrupt frame first and then sends the signal. The frame names the turn,
so that a late interrupt never hits the next turn, and an early one is kept. The signal makes the
interrupt prompt. A retry repeats both with the same number, but only once the previous signal was
sent. The next turn_start follows only once all signals were sent. A sent signal is pending, and is
delivered before the system call that reads the next frame returns. So when a turn begins, no signal
of another turn is on its way. While it runs, at most one signal whose frame was already read is on
its way.

SIGINT's handler is always the one below, even while user code has set a handler. The user's handler
is called once for an interrupt of its turn, and never for a late signal.
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

# How long after its signal a frame may arrive, in milliseconds.
_LATE_FRAME = 5


class TurnAborted(BaseException):
    """Ends a turn that does not end by KeyboardInterrupt."""


TurnAborted.__module__ = "builtins"


class Wake(BaseException):
    """The handler has read frames, so a waiting thread must look at them before it blocks again."""


_critical = set()  # the ids of code objects, because comparing code is slower


def critical(function):
    """Marks a function during which SIGINT is deferred.

    The handler looks for the function on the stack. A counter would stay wrong forever if an
    asynchronous exception struck between its increment and its decrement. The caller checks
    deferred afterwards.
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
        self.honoured = 0  # the last seq that was handled in this turn
        self.heard = False  # a frame or a signal has arrived since the last turn began
        self.owed = 0  # number of read frames whose signals are not counted yet; -1: a signal was counted before its frame
        self.early = False  # a signal without a frame has arrived and is not counted, because its frame may still come
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
                # A forked child was hit before its fork hook could run: it must not read the
                # channel.
                if not self._in_critical(frame):  # otherwise the hook is running
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
                _set(SIGINT, self.handler)  # raises in a thread that may not set handlers
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
        if inherited is not _native_handler:  # set by a start-up file, or ignored by the parent process
            if callable(inherited):
                self.user_handler = inherited
            else:
                self.saved = inherited
        _set(SIGINT, self.handler)

    def forget(self):
        """Gives SIGINT back to Python in a forked child."""
        _signal.default_int_handler = _native_handler
        if "signal" in sys.modules:
            sys.modules["signal"].default_int_handler = _native_handler
        if _get(SIGINT) is self.handler:
            _set(SIGINT, self.user_handler or _native_handler)
        self._unwatch()

    # ------------------------------------------------------------ the turn

    def begin(self, turn):
        """Prepares for user code of turn, which is about to run."""
        self.reset()
        if self.heard or self.channel.interruptions:
            system.take_signals(_set, self.handler, self.owed > 0)
            self.missed = True  # one of them may belong to this turn: its frame has arrived
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
        """Handles the end of user code, and saves its handling of SIGINT for the next turn."""
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
        """Handles a deferred signal. It does nothing in other threads."""
        while self.deferred and get_ident() == self.main:
            self.deferred = False
            if self.running:
                self._take(native_getframe())

    def check(self):
        """Looks for an interrupt whose signal the main thread has not seen or not handled."""
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
        """Handles a signal that arrives while user code runs."""
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
        """Raises an exception, and detects if it is lost in a finalizer or a callback of C code."""
        hook = getattr(sys, "unraisablehook", None)
        if hook is not self.unraisable:
            self.users_unraisable = hook or sys.__unraisablehook__
            sys.unraisablehook = self.unraisable
        error = kind()
        error.__dict__["turnstone"] = self.turn  # keep no reference to error, because it holds the frames
        raise error

    @critical
    def _unraisable(self, args):
        """Replaces sys.unraisablehook while an interrupt is in progress. An ignored interrupt is
        raised again as soon as the interrupted code continues."""
        error = args.exc_value
        ours = isinstance(error, (KeyboardInterrupt, TurnAborted)) and error.__dict__.get("turnstone") == self.turn
        # Finalizers also run in the worker's own frames. Critical frames are skipped.
        frame = outer = native_getframe().f_back  # None at Python's end, when C code calls
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
            # Traces a frame that is called in between. The trace function is set again because
            # Python 3.12 does not always see the first call.
            if sys.gettrace() is trace:
                frame.f_trace = strike
                _settrace(trace)

        self.tracer = trace
        frame.f_trace = strike
        frame.f_trace_opcodes = True  # the rest of the line may block
        _settrace(trace)

    def _unwatch(self):
        if self.users_unraisable is not None and getattr(sys, "unraisablehook", None) is self.unraisable:
            sys.unraisablehook = self.users_unraisable
        self.users_unraisable = None

    def block(self, wait):
        """Calls wait(): the only place in a critical function where SIGINT raises."""
        try:
            # Set blocking first and then check: the reverse order would lose a signal between
            # the two.
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
        """Returns the effect of a SIGINT, and whether a waiting thread must check for new frames."""
        blocking, self.blocking = self.blocking, False
        try:
            seen = self.channel.look()
            if not self._is_explained():
                # The frame may be about to be written. Without a frame, the signal has another
                # sender, and the delay is harmless.
                seen = self.channel.look(_LATE_FRAME) or seen
            return self._judge(True, 1), blocking and seen
        finally:
            self.blocking = blocking

    @critical
    def _checked(self, signals):
        self.channel.look()
        return self._judge(False, signals)

    def stale(self):
        """Answers interrupts that arrived after their turn. The idle main thread calls it.

        An interrupt of the turn that is about to start is kept for that turn.
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
        """Returns how many signals may be uncounted although their frames were read.

        One is on its way or is being handled. Others may have arrived before their handler could
        check; then that handler's frame is on the stack. One may be deferred.
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
        """Returns the level of the interrupt to deliver, or 0. signals is the number of uncounted signals."""
        levels, count = self._sort()
        if signalled and count == 0 and self.owed <= 0:
            # A signal without a frame comes from os.kill, raise_signal or interrupt_main, or the
            # reading thread is slow.
            self.early = True
            return 1 if self.channel.shutdown is None else 2
        new = bool(levels)
        if self.early and count:
            self.early = False
            if count > signals:  # the early signal belonged to the first frame
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
        # A user's handler does not end the waits, and neither does an interrupt that was
        # already delivered.
        self.channel.ask_again(but=self.main if level > (self.owner == "user") else None)
        return level

    def _sort(self):
        """Takes the frames that have arrived. Returns the levels of this turn's new interrupts, and the number of frames."""
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
        # A signal that arrives in the meantime is deferred: it may belong to this frame, which
        # is not counted yet. The caller checks for it.
        if not self.channel.mute:
            self.channel._send({"type": "interrupt_ack", "turn": turn, "seq": seq, "result": result}, False)


def _without_ours(args):
    """Returns the arguments of an unraisablehook without the frames of the handler that raised."""
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
    """Marks a module by its globals: its functions may be repeated, but are not re-entrant."""
    _guarded.add(id(names))


def is_inside(frame):
    """Reports whether the code at frame is a signal handler or finalizer that has interrupted the
    channel's code."""
    while frame is not None:
        if id(frame.f_globals) in _guarded or id(frame.f_code) in _critical or frame.f_code is _BLOCK:
            return True
        frame = frame.f_back
    return False
