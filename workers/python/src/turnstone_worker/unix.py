"""The part of the worker for Unix."""
import _signal
import os
from _thread import allocate_lock
from select import POLLIN, poll

FORKS = True
LATE_SIGNALS = False  # a signal that was sent has arrived
KEEPS_MARKERS = True  # a terminal passes on output unchanged
O_QUIET = os.O_CLOEXEC  # for files that children must not get

_read = os.read
_READ = 64 << 10  # bytes of one read: the usual size of a pipe
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
        return self.poller.poll(patience)

    def wait(self):
        """Blocks until receive would not. One thread at a time."""
        self.leading.poll()

    def arrived(self):
        """Reports whether receive would not block, while any other thread waits or receives."""
        poller = poll()
        poller.register(self.fd, POLLIN)
        return bool(poller.poll(0))

    def receive(self, chunks, need):
        """Appends what has arrived; b"" is the end. It blocks until there is something."""
        # The bytes are stored without a bytecode boundary after the system call.
        chunks.extend(map(_read, (self.fd,), (max(_READ, min(need, _MOST)),)))

    def close(self):
        try:
            os.close(self.fd)
        except OSError:
            pass


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
    return Inbox(out_of_the_way(int(inward))), out_of_the_way(int(outward))


def listen(nonce):
    """Nothing to do: interrupts are signals."""


def crash_log(nonce):
    """A descriptor for what faulthandler says: the terminal."""
    return 2


def out_of_the_way(fd):
    """Moves fd to where user code is unlikely to meet it, close-on-exec."""
    import fcntl

    for lowest in (2000, 900, 200, 10):  # code that becomes a daemon closes all up to 256 or 1024
        try:
            moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, lowest)
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
