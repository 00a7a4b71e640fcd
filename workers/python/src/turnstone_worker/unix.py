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
LATE_SIGNALS = False  # a sent signal has always arrived
KEEPS_MARKERS = True  # a terminal passes on output unchanged
O_QUIET = os.O_CLOEXEC  # for files that children must not inherit

_read = os.read
_READ = 64 << 10  # bytes of one read: the default size of a pipe
_FIONREAD = 0x541B if sys.platform == "linux" else 0x4004667F  # the number in termios
_LOOK = 10  # milliseconds between two checks of a pipe that cannot be polled
_MOST = 1 << 20  # bytes of one read within a large frame


class Inbox:
    """The receiving half of the channel."""

    def __init__(self, fd):
        self.fd = fd
        self.poller = poll()
        self.poller.register(fd, POLLIN)
        self.leading = poll()  # only one thread at a time may use a poll object
        self.leading.register(fd, POLLIN)

    def ready(self, patience):
        """Reports whether receive would not block, now or within patience milliseconds."""
        return _polled(self.poller, self.fd, patience)

    def wait(self):
        """Blocks until receive would not. Only one thread at a time may call it."""
        _polled(self.leading, self.fd, None)

    def arrived(self):
        """Reports whether receive would not block, while any other thread waits or receives."""
        poller = poll()
        poller.register(self.fd, POLLIN)
        return _polled(poller, self.fd, 0)

    def receive(self, chunks, need):
        """Waits for bytes and appends them; b"" means the end."""
        # The bytes are stored without a bytecode boundary after the system call.
        chunks.extend(map(_read, (self.fd,), (max(_READ, min(need, _MOST)),)))

    def close(self):
        try:
            os.close(self.fd)
        except OSError:
            pass


def _polled(poller, fd, patience):
    """Reports whether there is something to read, now or within patience milliseconds; None means
    no limit. poll accepts at most RLIMIT_NOFILE files, and so none if code has set that to 0. Then
    the pipe is checked at intervals. That does not show its end; the monitor ends the worker in
    that case."""
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
    return any(_ioctl(fd, _FIONREAD, bytes(4)))  # imported earlier, because no module can be opened now


def Gate():
    """A closed gate: acquire waits until another thread releases it, and SIGINT breaks that."""
    gate = allocate_lock()
    gate.acquire()
    return gate


def take_signals(set, handler, late):
    """Delivers every SIGINT sent so far to handler. Signals that user code has blocked are dropped."""
    os.getppid()  # a sent signal is delivered when a system call returns, at the latest
    set(_signal.SIGINT, _signal.SIG_IGN)  # calls the handler for delivered signals, and drops the others
    set(_signal.SIGINT, handler)


def break_waits():
    """Does nothing, because SIGINT breaks every wait."""


def open_channel(inward, outward):
    """Returns the two halves of the channel: an Inbox and a descriptor."""
    return Inbox(move_high(int(inward))), move_high(int(outward))


def listen(nonce):
    """Does nothing, because interrupts are signals."""


def crash_log(nonce):
    """Returns the descriptor for faulthandler's output: the terminal."""
    return 2


def move_high(fd):
    """Moves fd to a number that user code is unlikely to use, close-on-exec."""
    for lowest in (2000, 900, 200, 10):  # code that becomes a daemon closes all descriptors up to 256 or 1024
        try:
            moved = _fcntl(fd, F_DUPFD_CLOEXEC, lowest)
        except OSError:
            continue  # a low limit of open files
        os.close(fd)
        return moved
    os.set_inheritable(fd, False)
    return fd


def is_private(stat):
    """Reports whether stat describes a directory that only this user can write to."""
    return stat.st_uid == os.geteuid() and stat.st_mode & 0o170077 == 0o040000


def end_within(seconds):
    """Ends the process after this time, whatever it does."""
    _signal.setitimer(_signal.ITIMER_REAL, seconds)
    _signal.signal(_signal.SIGALRM, _signal.SIG_DFL)


def find_takes_keys():
    """Returns a function that reports whether a terminal delivers single keys instead of lines. The
    function imports nothing. An exception of a user's handler propagates from it."""
    try:
        termios = quietly("termios")
    except ImportError:
        return lambda fd: False  # this Python lacks the module
    get, error, lines = termios.tcgetattr, termios.error, termios.ICANON

    def takes_keys(fd):
        try:
            return not get(fd)[3] & lines
        except error:
            return False

    return takes_keys
