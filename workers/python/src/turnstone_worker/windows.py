"""The part of the worker for Windows.

A pending read or wait is broken by SIGINT only in WaitForMultipleObjects, and only in
the main thread. So everything that blocks does so there.
"""
import _overlapped
import _signal
import _winapi
import os
from _functools import partial
from _thread import get_ident, start_new_thread

from turnstone_worker.atomic import together

FORKS = False
LATE_SIGNALS = True  # CTRL_C is a thread of this process, which starts some time after it was sent
KEEPS_MARKERS = False  # a pseudo console redraws output
O_QUIET = os.O_NOINHERIT | os.O_BINARY

_READ = 64 << 10  # bytes of one read: the size of the pipe
_GENERIC_READ = 0x80000000
_OPEN_EXISTING = 3
_FILE_FLAG_OVERLAPPED = 0x40000000
_ERROR_OPERATION_ABORTED = 995
_FOREVER = 0xFFFFFFFF
_LATE_SIGNAL = 500  # how much later than its frame a CTRL_C may come, in milliseconds
_wait_for_one = _winapi.WaitForSingleObject


class Inbox:
    """The receiving half of the channel. A read is always under way, and waits are for its end."""

    def __init__(self, name):
        self.handle = _winapi.CreateFile(name, _GENERIC_READ, 0, 0, _OPEN_EXISTING, _FILE_FLAG_OVERLAPPED, 0)
        self.reads = []  # the one under way, with its error

    def _begin(self):
        """Reports whether a read is under way; if not, the channel has ended."""
        if not self.reads:
            try:
                # Stored without a bytecode boundary after the system call.
                self.reads.extend(map(_winapi.ReadFile, (self.handle,), (_READ,), (True,)))
            except OSError:
                return False
        return True

    def ready(self, patience):
        """Reports whether receive would not block, now or within patience milliseconds."""
        return not self._begin() or _wait_for_one(self.reads[0][0].event, patience) == _winapi.WAIT_OBJECT_0

    def wait(self):
        """Nothing: receive itself waits."""

    def arrived(self):
        """Not known: the read under way belongs to the thread that waits for it."""
        return False

    def receive(self, chunks, need):
        """Appends what has arrived; b"" is the end. It blocks until there is something."""
        while True:
            if not self._begin():
                chunks.append(b"")
                return
            read = self.reads[0][0]
            if not _wait(read.event):
                continue
            try:
                n, error = read.GetOverlappedResult(True)
            except OSError:
                n, error = 0, 0
            data = read.getbuffer() if n else b""
            if error == _ERROR_OPERATION_ABORTED:  # the thread that began it has ended
                self.reads.clear()
                continue
            together([], partial(chunks.append, data), partial(self.reads.clear))
            return

    def close(self):
        _winapi.CloseHandle(self.handle)


def _wait(event, milliseconds=_FOREVER):
    """Reports whether event is set; SIGINT ends the wait of the main thread."""
    try:
        return _winapi.WaitForMultipleObjects([event], False, milliseconds) == _winapi.WAIT_OBJECT_0
    except OSError:
        return False  # EINTR: the handler runs before the caller goes on


class Gate:
    """A closed gate: acquire waits until another thread releases it, and SIGINT breaks that."""

    def __init__(self):
        self.event = _overlapped.CreateEvent(None, True, False, None)

    def acquire(self, blocking=True, timeout=-1):
        if timeout >= 0:
            return _wait_for_one(self.event, int(timeout * 1000)) == _winapi.WAIT_OBJECT_0
        while not _wait(self.event):
            pass
        return True

    def release(self):
        _overlapped.SetEvent(self.event)

    def __del__(self):
        _winapi.CloseHandle(self.event)


def take_signals(set, handler, late):
    """Waits for a CTRL_C that was sent and is not here yet. It may never come: the console may be
    another by now, or the interrupt's event has struck in the same moment."""
    if late:
        never = Gate()
        _wait(never.event, _LATE_SIGNAL)


def break_waits():
    """Lets SIGINT break a wait for a process, such as that of subprocess.run: a child that
    is about to start may miss its CTRL_C, and the worker would wait forever."""
    main = get_ident()

    def WaitForSingleObject(handle, milliseconds, /):
        if milliseconds == _FOREVER and get_ident() == main:
            while not _wait(handle):
                pass
            return _winapi.WAIT_OBJECT_0
        return _wait_for_one(handle, milliseconds)

    _winapi.WaitForSingleObject = WaitForSingleObject


def open_channel(inward, outward):
    """The two halves of the channel: an Inbox and a descriptor."""
    inbox = Inbox(inward)
    return inbox, move_high(os.open(outward, os.O_WRONLY | O_QUIET))


def listen(nonce):
    """Receives interrupts where no CTRL_C arrives: a thread waits for the supervisor's event."""
    event = _overlapped.CreateEvent(None, False, False, "Local\\turnstone-interrupt-" + nonce)

    def wait():
        while _wait_for_one(event, _FOREVER) == _winapi.WAIT_OBJECT_0:
            _signal.raise_signal(_signal.SIGINT)

    start_new_thread(wait, ())


def crash_log(nonce):
    """A descriptor for what faulthandler says, which the supervisor shows if the process has died of it.

    Windows tells faulthandler of every exception, those included that are handled afterwards, as ctypes
    and many libraries do (vectored exception handlers come first). OSError: no user would read it."""
    return move_high(os.open("\\\\.\\pipe\\turnstone-crash-" + nonce, os.O_WRONLY | O_QUIET), 201)


def move_high(fd, to=200):
    """Moves fd to where user code is unlikely to meet it, not inheritable."""
    moved = os.dup2(fd, to, False)
    os.close(fd)
    return moved


def is_private(stat):
    """The user's cache directory belongs to the user; the mode tells nothing more."""
    return True


def end_within(seconds):
    """Ends the process after that time, whatever it does."""

    def end():
        _wait_for_one(_winapi.GetCurrentProcess(), int(seconds * 1000))
        os._exit(0)

    start_new_thread(end, ())


def find_takes_keys():
    """On Windows the console delivers keys by its own functions (msvcrt)."""
    return lambda fd: False
