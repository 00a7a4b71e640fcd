"""The part of the worker for Unix."""
import _signal
import os
import sys
from _thread import allocate_lock
from errno import EINVAL
from fcntl import F_DUPFD_CLOEXEC, fcntl as _fcntl, ioctl as _ioctl
from select import POLLIN, poll
from time import sleep as _sleep

from turnstone_worker.imports import quietly

FORKS = True
LATE_SIGNALS = False  # a signal that was sent has arrived
KEEPS_MARKERS = True  # a terminal passes on output unchanged
O_QUIET = os.O_CLOEXEC  # for files that children must not get

_read = os.read
_READ = 64 << 10  # bytes of one read: the default size of a pipe
_FIONREAD = 0x541B if sys.platform == "linux" else 0x4004667F  # the number in termios
_LOOK = 10  # milliseconds between two looks at a pipe that cannot be polled
_MOST = 1 << 20  # the same, of a large frame


class Inbox:
    """The receiving half of the channel."""

    def __init__(self, fd):
        self.fd = fd
        self.poller = poll()
        self.poller.register(fd, POLLIN)
        self.leading = poll()  # one at a time may poll an object
        self.leading.register(fd, POLLIN)

    def ready(self, patience):
        """Reports whether receive would not block, now or within patience milliseconds."""
        return _polled(self.poller, self.fd, patience)

    def wait(self):
        """Blocks until receive would not. One thread at a time."""
        _polled(self.leading, self.fd, None)

    def arrived(self):
        """Reports whether receive would not block, while any other thread waits or receives."""
        poller = poll()
        poller.register(self.fd, POLLIN)
        return _polled(poller, self.fd, 0)

    def receive(self, chunks, need):
        """Appends what has arrived; b"" is the end. It blocks until there is something."""
        # The bytes are stored without a bytecode boundary after the system call.
        chunks.extend(map(_read, (self.fd,), (max(_READ, min(need, _MOST)),)))

    def close(self):
        try:
            os.close(self.fd)
        except OSError:
            pass


def _polled(poller, fd, patience):
    """Reports whether there is something to read, now or within patience milliseconds; None waits for it.

    poll takes no more files than RLIMIT_NOFILE, so none at all where code has set that to 0. Then the
    pipe is looked at again and again. Its end is not seen; the monitor ends the worker then.
    """
    try:
        return bool(poller.poll(patience))
    except OSError as error:
        if error.errno != EINVAL:
            raise
    rest = patience
    while not _unread(fd):
        if rest is not None and rest <= 0:
            return False
        _sleep(_LOOK / 1000)
        if rest is not None:
            rest -= _LOOK
    return True


def _unread(fd):
    return any(_ioctl(fd, _FIONREAD, bytes(4)))  # imported before: no module can be opened now


def Gate():
    """A closed gate: acquire waits until another thread releases it, and SIGINT breaks that."""
    gate = allocate_lock()
    gate.acquire()
    return gate


def take_signals(set, handler, late):
    """Delivers every SIGINT sent so far to handler. Those that user code has blocked are dropped."""
    os.getppid()  # a signal that was sent is delivered when a system call returns, at the latest
    set(_signal.SIGINT, _signal.SIG_IGN)  # calls the handler for delivered signals, and drops the others
    set(_signal.SIGINT, handler)


def break_waits():
    """SIGINT breaks every wait."""


def open_channel(inward, outward):
    """The two halves of the channel: an Inbox and a descriptor."""
    return Inbox(move_high(int(inward))), move_high(int(outward))


def listen(nonce):
    """Nothing to do: interrupts are signals."""


def crash_log(nonce):
    """A descriptor for what faulthandler says: the terminal."""
    return 2


def move_high(fd):
    """Moves fd to where user code is unlikely to meet it, close-on-exec."""
    for lowest in (2000, 900, 200, 10):  # code that becomes a daemon closes all up to 256 or 1024
        try:
            moved = _fcntl(fd, F_DUPFD_CLOEXEC, lowest)
        except OSError:
            continue  # a low limit of open files
        os.close(fd)
        return moved
    os.set_inheritable(fd, False)
    return fd


def is_private(stat):
    """Reports whether stat is of a directory that only this user can write to."""
    return stat.st_uid == os.geteuid() and stat.st_mode & 0o170077 == 0o040000


def end_within(seconds):
    """Ends the process after that time, whatever it does."""
    _signal.setitimer(_signal.ITIMER_REAL, seconds)
    _signal.signal(_signal.SIGALRM, _signal.SIG_DFL)


def find_takes_keys():
    """A function that reports whether a terminal delivers each key, and not lines.

    It imports nothing, and raises what a handler of user code raises in it.
    """
    try:
        termios = quietly("termios")
    except ImportError:
        return lambda fd: False  # this Python has none
    get, error, lines = termios.tcgetattr, termios.error, termios.ICANON

    def takes_keys(fd):
        try:
            return not get(fd)[3] & lines
        except error:
            return False

    return takes_keys
