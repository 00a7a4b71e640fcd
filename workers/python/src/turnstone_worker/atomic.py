"""System calls that survive asynchronous exceptions.

A user's signal handler, such as one for SIGALRM or SIGINT, may run between any two bytecodes of the
main thread and raise an exception there. In
    n = os.write(fd, data)
the exception may strike after the bytes are written and before n is stored. Then the count is lost,
and with it the framing of the channel. Here the C code that makes the system call also stores the
result, with no bytecode in between.
"""
import errno
from _functools import partial
from os import write as _write

_call = partial.__call__
_TRIES = 10000  # consecutive tries of a write that raises, because a user's handlers may raise repeatedly
_HOPELESS = (errno.EPIPE, errno.EIO, errno.EBADF, errno.ENXIO, errno.EINVAL, errno.ENOSPC)


def together(results, *steps):
    """Runs C functions (partials) with no bytecode in between, and stores what they return."""
    results.extend(map(_call, steps))


def progress(steps):
    """Returns the progress for write_all. A caller that may have to continue later keeps it."""
    return [[] for _ in steps]


def write_all(steps, done=None, must=False):
    """Writes each (fd, data) of steps completely, in order.

    A write that has started is finished before an exception that struck in the meantime propagates. A
    write that has not started is dropped, unless it must be done.
    """
    if done is None:
        done = progress(steps)
    late, tries = None, 0
    while True:
        try:
            _finish(steps, done)
            break
        except BaseException as e:
            if isinstance(e, OSError) and e.errno in _HOPELESS:
                raise
            tries += 1
            if tries > _TRIES or not must and not any(done):
                raise
            late = e
    if late is not None:
        raise late


def _finish(steps, done):
    """Writes the rest of the steps. It is a separate function, because an exception may strike at
    the jump of a loop. Some Pythons compile that jump as if it were outside the try around the
    loop."""
    for (fd, data), counts in zip(steps, done):
        n = sum(counts)
        while n < len(data):
            try:
                counts.extend(map(_write, (fd,), (data if n == 0 else memoryview(data)[n:],)))
            except BlockingIOError:
                _until_writable(fd)  # a child made the terminal nonblocking
            n = sum(counts)


def _until_writable(fd):
    from select import POLLOUT, poll
    from time import sleep

    p = poll()
    p.register(fd, POLLOUT)
    try:
        p.poll(1000)
    except OSError:  # RLIMIT_NOFILE is 0
        sleep(0.01)
