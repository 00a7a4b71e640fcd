"""The channel to the supervisor: frames out, a mailbox in.

There is no reader thread. The main thread reads the pipe when it is idle and when user code asks
for input. Frames that arrive while user code computes wait in the kernel's pipe; the SIGINT handler
reads them. When several threads wait, one of them (the leader) reads for all.
"""
import os
from _functools import partial
from _thread import RLock, get_ident

from turnstone_worker import atomic, codec
from turnstone_worker.atomic import progress, together, write_all
from turnstone_worker.interrupt import Wake, critical, guard
from turnstone_worker.system import Gate

guard(globals())
guard(vars(atomic))


class Gone(BaseException):
    """The supervisor has closed the channel, so waiting is pointless."""


class Channel:
    def __init__(self, inbox, fd_out, interrupts):
        self.inbox = inbox
        self.fd_out = fd_out
        self.interrupts = interrupts
        self.fence = None  # where markers are written; None: frames carry no marks
        self.forked = False  # in a forked child: the channel belongs to the parent
        self.mute = False  # in a forked child, or when the supervisor does not read: frames are dropped

        # An asynchronous exception may leave locks of the main thread locked, even after a with
        # statement. So they are re-entrant, and are released at the end of the turn.
        self.writing = RLock()
        self.reading = RLock()
        self.followers = []
        self.sorting = False  # the leader has received something that it has not sorted yet
        self.mark = 0
        self.fresh = False  # this process has written text since the last mark
        self.writers = {}  # threads whose text is not plain output: "begin", "result", "traceback", or a function that gets the text

        # Input that has arrived.
        self.chunks = []  # bytes that are not parsed yet
        self.need = 4  # number of bytes needed for the next frame
        self.arrived = []  # messages that are not sorted yet
        self.closed = False

        # The mailbox: one slot for each kind of message.
        self.start = None  # a turn_start that has not been started
        self.turn = 0  # of the last turn_start
        self.active = True  # from turn_start to idle; turn 0 is active from the beginning
        self.asked = {}  # open waits: the thread that asked, and the message
        self.answers = {}  # turn_input by wait
        self.interruptions = []  # interrupt, not judged yet
        self.queries = []
        self.functions = None  # the last list of the host's functions
        self.calls = None  # takes their results
        self.shutdown = None
        self.last_wait = 0

    # ------------------------------------------------------------ frames out

    def send(self, message, placed=False):
        """Sends one message. If placed is set, marks its position among the terminal's bytes.

        The frame and its marker are completed before an asynchronous exception propagates. An
        exception that strikes before the first byte drops the frame.
        """
        if not self.mute:
            self._send(message, placed)
            if self.interrupts.deferred and get_ident() == self.interrupts.main:
                self.interrupts.catch_up()

    def prepare(self, message):
        """Prepares a placed message for deliver, which sends it exactly once, whatever exception strikes."""
        return [message, None]

    def deliver(self, prepared):
        """Sends a message from prepare; may be called again after an exception."""
        if not self.mute:
            with self.writing:  # marks must appear in the terminal in order
                if prepared[1] is None:
                    steps = self._steps(prepared[0], True)
                    prepared[1] = steps, progress(steps)
                steps, done = prepared[1]
                self._write(steps, done, True)

    @critical
    def _send(self, message, placed):
        with self.writing:
            self._write(self._steps(message, placed))

    def _steps(self, message, placed):
        if not placed or self.fence is None:
            return ((self.fd_out, codec.frame(message)),)
        self.mark += 1
        self.fresh = False
        message["mark"] = mark = self.mark
        # The marker comes first, so that the reader of the frame finds it without waiting.
        return (self.fence.fd, self.fence.marker(mark)), (self.fd_out, codec.frame(message))

    def _write(self, steps, done=None, must=False):
        try:
            write_all(steps, done, must)
        except BrokenPipeError:
            self.mute = True  # the next wait for the channel sees its end

    # ------------------------------------------------------------ frames in

    def wait(self, ready):
        """Blocks until ready() is true, and serves the mailbox in the meantime. Any thread may call it."""
        main = get_ident() == self.interrupts.main
        while not ready():
            try:
                self._wait(main, ready)
            except Wake:
                pass
            if main:
                if self.interruptions:
                    self.interrupts.check()  # its signal may be blocked, or late
                if self.interrupts.deferred:
                    self.interrupts.catch_up()

    @critical
    def _wait(self, main, ready):
        while not ready():
            if self.closed:
                raise Gone
            if self._has_interruption(main):
                return
            if self.reading.acquire(False):
                self._lead(main, ready)
            else:
                self._follow(main, ready)

    def _has_interruption(self, main):
        return main and self.interruptions and self.interrupts.running

    @critical
    def look(self, patience=0):
        """Sorts messages that have arrived or arrive within patience milliseconds; reports whether there were any.

        Only the main thread calls it. If another thread is the leader, the main thread waits
        briefly for it, and up to a second more while the leader has something to sort.
        """
        if self.reading.acquire(False):
            try:
                return self._sweep(patience)
            finally:
                self._step_down()
        if not self.interruptions:
            gate = Gate()
            self.followers.append(gate)
            gate.acquire(True, 0.05)
            for _ in range(20):  # a woken leader may have to wait for computing threads
                if self.interruptions or not (self.sorting or self.inbox.arrived()):
                    break
                gate.acquire(True, 0.05)
        return True

    @critical
    def poll(self):
        """Sorts messages that have arrived, unless another thread is about to. Any thread may call it."""
        if self.reading.acquire(False):
            try:
                self._sweep(0)
            finally:
                self._step_down()

    @critical
    def readable(self):
        """Reports whether there is unread input. Another thread that reads input also sorts it."""
        if self.chunks:
            return True
        if not self.reading.acquire(False):
            return False  # two concurrent reads would take frames from each other
        try:
            return bool(self.inbox.ready(0))
        finally:
            self._step_down()

    def ask(self, message):
        """Sends a stdin_wait and returns its number."""
        self.last_wait += 1
        message["wait"] = wait = self.last_wait
        self.asked[wait] = get_ident(), message
        self.send(message, True)
        return wait

    def ask_again(self, but=None):
        """Repeats the requests of the waiting threads, except one, after an interrupt, which ends every wait."""
        for wait, (thread, message) in list(self.asked.items()):
            if thread != but and wait not in self.answers and message["turn"] == self.turn:
                self._send(message, True)

    def take_interruptions(self):
        taken = []
        while self.interruptions:
            together(taken, partial(self.interruptions.pop, 0))
        return taken

    def fail(self, error):
        """Reports that the supervisor broke the protocol, and ends the worker at once."""
        self.send({"type": "session_end", "reason": "protocol_error", "code": 70, "message": codec.text(str(error))}, True)
        os._exit(70)

    def check(self):
        """Ends the worker, with a reason, if user code has closed its channel."""
        try:
            os.get_inheritable(self.inbox.fd), os.get_inheritable(self.fd_out)
        except OSError:
            try:
                os.write(2, b"[the code has closed descriptors %d and %d, without which the session cannot go on]\n" % (self.inbox.fd, self.fd_out))
            finally:
                os._exit(70)

    @property
    def ending(self):
        return self.closed or self.shutdown is not None

    def release(self):
        """Releases locks that an asynchronous exception left locked in this thread."""
        while self.writing._is_owned():
            self.writing.release()
        while self.reading._is_owned():
            self._step_down()

    def forget(self):
        """Gives up the channel in a forked child, because it belongs to the parent."""
        self.forked = self.mute = True
        self.inbox.close()
        try:
            os.close(self.fd_out)
        except OSError:
            pass

    def _lead(self, main, ready):
        try:
            if self._sort():
                return  # an exception struck before this input could be sorted
            if ready() or self.closed or self._has_interruption(main):
                return  # the previous leader has read it since this thread checked
            if main:
                self.interrupts.block(self._receive)
            else:
                self.inbox.wait()
                self.sorting = True
                self._receive()
            self._sort()
        finally:
            self.sorting = False
            self._step_down()

    def _step_down(self):
        self.reading.release()
        while self.followers:
            try:
                gate = self.followers.pop()
            except IndexError:
                return  # another thread was faster and has led since
            gate.release()

    def _follow(self, main, ready):
        gate = Gate()
        self.followers.append(gate)
        if self.reading.acquire(False):  # the leader stopped before it could see the gate
            self._step_down()
        elif not ready():
            if main:
                self.interrupts.block(gate.acquire)
            else:
                gate.acquire()

    def _receive(self):
        self.inbox.receive(self.chunks, self.need)

    def _sweep(self, patience):
        seen = bool(self.chunks)
        while not self.closed and self.inbox.ready(patience):
            patience = 0
            self._receive()
            self._sort()
            seen = True
        self._sort()
        return seen

    def _sort(self):
        """Parses the chunks and sorts their messages; reports whether there were any. It may be
        repeated from any point.
        """
        chunks = self.chunks
        if chunks:
            if not chunks[-1]:
                self.closed = True
            elif len(chunks) == 1 or sum(map(len, chunks)) >= self.need:
                count = len(chunks)
                try:
                    messages, rest, need = codec.split(chunks[0] if count == 1 else b"".join(chunks))
                except codec.ProtocolError as e:
                    self.fail(e)
                together(
                    [],
                    partial(self.arrived.extend, messages),
                    partial(chunks.__setitem__, slice(0, count), [rest] if rest else ()),
                    partial(self.__dict__.__setitem__, "need", need),
                )
        found = False
        while self.arrived:
            found = True
            if self.arrived[0]["type"] == "call_result":
                self.calls.accept(self.arrived)
                continue
            self._accept(self.arrived[0])
            del self.arrived[0]
        if self.calls is not None and self.calls.complete:
            self.calls.rouse()
        return found

    def _accept(self, m):
        kind = m["type"]
        if kind == "turn_start":
            if m["turn"] == self.turn:
                return  # repeated after an exception
            if self.active:
                self.fail("turn_start %d while turn %d is active" % (m["turn"], self.turn))
            self.__dict__.update(start=m, turn=m["turn"], active=True)  # all or nothing
        elif kind == "turn_input":
            if m["wait"] in self.asked and m["turn"] == self.turn:
                self.answers[m["wait"]] = m
        elif kind == "interrupt":
            self.interruptions.append(m)
        elif kind == "query":
            self.queries.append(m)
        elif kind == "functions":
            self.functions = m
        else:
            self.shutdown = m
