"""SIGINT, and who is to be interrupted by it.

The supervisor writes an interrupt frame first and then sends the signal. The frame
says which turn is meant, so that one that comes too late never hits the next turn,
and that keeps one that comes too early. The signal makes it prompt. A retry repeats
both, with the same number.
"""
import _signal
from _thread import get_ident
from time import monotonic

SIGINT = _signal.SIGINT
_set = _signal.signal
_get = _signal.getsignal
_native_handler = _signal.default_int_handler

# How long, in seconds, the signal of a frame that was found without it may be under way.
_UNDER_WAY = 0.2

# How long, in milliseconds, the frame of a signal may be under way.
_LATE_FRAME = 5


class TurnAborted(BaseException):
    """Ends a turn that does not end by KeyboardInterrupt."""


TurnAborted.__module__ = "builtins"


class Wake(BaseException):
    """The handler has read frames: whoever waits for one must look before it blocks again."""


_critical = set()


def critical(function):
    """Marks a function in which SIGINT waits until it has returned.

    The handler looks for it on the stack. A counter would be wrong for ever once an
    asynchronous exception of the user's has struck between its two halves. The caller
    looks at deferred afterwards.
    """
    _critical.add(function.__code__)
    return function


class Interrupts:
    def __init__(self):
        self.channel = None
        self.main = get_ident()
        self.turn = 0
        self.running = False  # user code runs in the main thread and may be interrupted
        self.missed = False  # a signal came while it did not
        self.deferred = False  # a signal waits for the end of a critical function
        self.blocking = False  # in one that blocks: SIGINT may break it
        self.honoured = 0  # the last seq that was acted upon in this turn
        self.unsignalled = 0  # frames whose signal has not come yet
        self.until = 0.0  # and when it is no longer waited for
        self.user_handler = None  # of SIGINT, kept while no user code runs
        self.owner = "ours"

        def default_int_handler(signum, frame):
            if not self.running:
                self.missed = True
            elif self._in_critical(frame):
                self.deferred = True
            else:
                self._judge_signal()
                self.catch_up()

        default_int_handler.__module__ = "_signal"
        default_int_handler.__qualname__ = "default_int_handler"
        self.handler = default_int_handler

    def install(self):
        """Takes SIGINT over. What user code sees of it is as ever."""
        _signal.default_int_handler = self.handler

        def signal(signalnum, handler, /):
            if signalnum != SIGINT or self.channel.mute:
                return _set(signalnum, handler)
            if self.owner != "ours":
                self.absorb()
            old = _set(signalnum, handler)
            self.announce()
            return old

        signal.__qualname__ = "signal"
        signal.__module__ = "_signal"
        signal.__doc__ = _set.__doc__
        _signal.signal = signal
        import sys

        if "signal" in sys.modules:
            sys.modules["signal"].default_int_handler = self.handler
        inherited = _get(SIGINT)
        if inherited is not _native_handler:
            self.user_handler = inherited  # set by a start-up file, or ignored by whoever started us
        _set(SIGINT, self.handler)

    def forget(self):
        """In a forked child: SIGINT is Python's own again."""
        import sys

        _signal.default_int_handler = _native_handler
        if "signal" in sys.modules:
            sys.modules["signal"].default_int_handler = _native_handler
        if _get(SIGINT) is self.handler:
            _set(SIGINT, _native_handler)

    # ------------------------------------------------------------ the turn

    def begin(self, turn):
        """User code of turn is about to run."""
        self.reset()
        self.turn = turn
        self.honoured = 0
        if self.user_handler is not None:
            _set(SIGINT, self.user_handler)
            self.announce(always=True)

    def resume(self):
        self.running = True
        if self.missed:
            self.missed = False
            self.check()  # one that came early: its frame is there

    def end(self):
        """User code does not run any more. Keeps the user's own handler for the next turn."""
        self.running = False
        handler = _get(SIGINT)
        if handler is self.handler:
            self.user_handler = None
        else:
            if handler is not None:
                self.user_handler = handler
            _set(SIGINT, self.handler)
        self.owner = "ours"

    def reset(self):
        self.blocking = False
        self.deferred = False
        self.channel.release()

    def announce(self, always=False):
        """Tells the supervisor who handles SIGINT, when that has changed."""
        handler = _get(SIGINT)
        owner = "ours" if handler is self.handler else "ignored" if handler == _signal.SIG_IGN else "user"
        if owner != self.owner or always:
            self.owner = owner
            self.channel.send({"type": "sigint", "owner": owner})

    # ------------------------------------------------------------ delivery

    def catch_up(self):
        """Acts upon a signal that had to wait."""
        while self.deferred:
            self.deferred = False
            if self.running:
                self._judge_signal()

    def check(self):
        """Looks for an interrupt whose signal the main thread has not seen, or did not act upon."""
        if not self.running or self.channel.mute or get_ident() != self.main:
            return
        exception = self._checked()
        if exception is not None:
            raise exception
        self.catch_up()

    @critical
    def absorb(self):
        """User code handles SIGINT itself: it has been told, by the signal."""
        if not self.running or get_ident() != self.main:
            return
        self.channel.look()
        new, _, _ = self._sort()
        if new:
            self._acknowledge(self.turn, self.honoured, "pending")
            self.channel.ask_again()

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
            if code in _critical:
                return True
            frame = frame.f_back
        return False

    @critical
    def _judge_signal(self):
        """A SIGINT has arrived while user code runs."""
        blocking, self.blocking = self.blocking, False
        try:
            seen = self.channel.look()
            if not self._explained():
                # Its frame may be about to be written. If there is none, the signal is
                # somebody else's, and is not harmed by the delay.
                seen = self.channel.look(_LATE_FRAME) or seen
            exception = self._judge(True)
        finally:
            self.blocking = blocking
        if exception is not None:
            raise exception
        if blocking and seen:
            raise Wake

    @critical
    def _checked(self):
        if self.owner != "ours":
            self.absorb()
            return None
        self.channel.look()
        return self._judge(False)

    def stale(self):
        """Answers interrupts that came too late for their turn. For the idle main thread."""
        for m in self.channel.take_interruptions():
            self._expect(1)
            self._acknowledge(m["turn"], m["seq"], "stale")

    def _explained(self):
        """Reports whether it is known why there is a signal."""
        channel = self.channel
        return channel.interruptions or channel.shutdown is not None or self.unsignalled and monotonic() < self.until

    def _judge(self, signalled):
        """The exception to raise, or None."""
        new, level, count = self._sort()
        if signalled and count == 0:
            if self.unsignalled and monotonic() < self.until:
                self.unsignalled -= 1
                return None
            if self.channel.shutdown is not None:
                return TurnAborted
            return KeyboardInterrupt  # nobody's frame: os.kill, raise_signal, interrupt_main
        if count:
            self._expect(count - 1 if signalled else count)
        if self.channel.shutdown is not None:
            return TurnAborted
        if not new:
            return None
        self._acknowledge(self.turn, self.honoured, "raised")
        self.channel.ask_again(but=self.main)
        return TurnAborted if level > 1 else KeyboardInterrupt

    def _sort(self):
        """Takes the frames that have arrived: is there a new one for this turn, its level, and how many in all."""
        new, level, count = False, 1, 0
        for m in self.channel.take_interruptions():
            count += 1
            if m["turn"] != self.turn:
                self._acknowledge(m["turn"], m["seq"], "stale")
            elif m["seq"] > self.honoured:
                new = True
                self.honoured = m["seq"]
                level = max(level, m["level"])
        return new, level, count

    def _expect(self, count):
        if count > 0:
            self.unsignalled += count
            self.until = monotonic() + _UNDER_WAY
        if self.unsignalled and monotonic() > self.until:
            self.unsignalled = 0

    def _acknowledge(self, turn, seq, result):
        # A signal that strikes meanwhile waits: it may be that of this very frame, which
        # is not accounted for yet. Whoever asked for the judgement looks for it.
        if not self.channel.mute:
            self.channel._send({"type": "interrupt_ack", "turn": turn, "seq": seq, "result": result}, False)


_BLOCK = Interrupts.block.__code__
