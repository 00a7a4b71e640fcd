"""The part of the worker for Windows.

SIGINT ends a pending read or wait only in WaitForMultipleObjects, and only in the main thread. So
everything that blocks uses that function.
"""
import _overlapped
import _signal
import _winapi
import os
from _functools import partial
from _thread import get_ident, start_new_thread

from turnstone_worker.atomic import together

FORKS = False
LATE_SIGNALS = True  # CTRL_C is a thread of this process, which starts some time after the signal was sent
KEEPS_MARKERS = False  # a pseudo console redraws output
O_QUIET = os.O_NOINHERIT | os.O_BINARY

_READ = 64 << 10  # bytes of one read: the size of the pipe
_GENERIC_READ = 0x80000000
_OPEN_EXISTING = 3
_FILE_FLAG_OVERLAPPED = 0x40000000
_ERROR_OPERATION_ABORTED = 995
_FOREVER = 0xFFFFFFFF
_LATE_SIGNAL = 500  # how long after its frame a CTRL_C may arrive, in milliseconds
_wait_for_one = _winapi.WaitForSingleObject


class Inbox:
    """The receiving half of the channel. A read is always pending, and waits end with it."""

    def __init__(self, name):
        self.handle = _winapi.CreateFile(name, _GENERIC_READ, 0, 0, _OPEN_EXISTING, _FILE_FLAG_OVERLAPPED, 0)
        self.reads = []  # the pending read, with its error

    def _begin(self):
        """Reports whether a read is pending; if not, the channel has ended."""
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
        """Does nothing, because receive itself waits."""

    def arrived(self):
        """Returns False, because the pending read belongs to the thread that waits for it."""
        return False

    def receive(self, chunks, need):
        """Waits for bytes and appends them; b"" means the end."""
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
        return False  # EINTR: the handler runs before the caller continues


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
    """Waits for a CTRL_C that was sent but has not arrived yet. It may never arrive: the console
    may have changed, or the interrupt's event was set at the same moment."""
    if late:
        never = Gate()
        _wait(never.event, _LATE_SIGNAL)


def break_waits():
    """Lets SIGINT end a wait for a process, as in subprocess.run. A child that is about to start
    may miss its CTRL_C, and the worker would wait forever."""
    main = get_ident()

    def WaitForSingleObject(handle, milliseconds, /):
        if milliseconds == _FOREVER and get_ident() == main:
            while not _wait(handle):
                pass
            return _winapi.WAIT_OBJECT_0
        return _wait_for_one(handle, milliseconds)

    _winapi.WaitForSingleObject = WaitForSingleObject


def open_channel(inward, outward):
    """Returns the two halves of the channel: an Inbox and a descriptor."""
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
    """Returns a descriptor for faulthandler's output, which the supervisor shows if the process has
    crashed. Windows reports every exception to faulthandler, even one that ctypes or another
    library handles afterwards (vectored exception handlers come first). Raises OSError if no one
    would read the output."""
    return move_high(os.open("\\\\.\\pipe\\turnstone-crash-" + nonce, os.O_WRONLY | O_QUIET), 201)


def move_high(fd, to=200):
    """Moves fd to a number that user code is unlikely to use, not inheritable."""
    moved = os.dup2(fd, to, False)
    os.close(fd)
    return moved


def is_private(stat):
    """Returns True: the user's cache directory belongs to the user, and the mode shows nothing more."""
    return True


def end_within(seconds):
    """Ends the process after this time, whatever it does."""

    def end():
        _wait_for_one(_winapi.GetCurrentProcess(), int(seconds * 1000))
        os._exit(0)

    start_new_thread(end, ())


def find_takes_keys():
    """Returns a function that is always false: on Windows, programs read keys through the console's functions (msvcrt)."""
    return lambda fd: False
