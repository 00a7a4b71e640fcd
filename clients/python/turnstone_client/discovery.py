"""Discovery of the user's daemon, which works from every login of the user.

docs/daemon-protocol.md has the search order. The command and the other clients use the same one.
"""

from __future__ import annotations

import json
import os
import re
import socket
import stat
from typing import List, Optional, Tuple

from .proof import MAX_ANSWER_BYTES, Proof

MAX_PATH = 107  # of a Unix socket, in bytes; the system's own bound may be lower
MAX_NOTE_BYTES = 4 << 10  # of the daemon's note, a small file that names its socket
PROBE_TIMEOUT = 2.0  # for the answer of a socket, in seconds
BOOT_ID_LENGTH = 8  # characters of the boot ID in the name of the note


def default_socket() -> str:
    """Return the socket of this user's daemon, or where a new daemon would listen."""
    named = os.environ.get("TURNSTONE_SOCKET")
    if named or not hasattr(os, "getuid"):  # on Windows, connect() raises an error
        return named or ""
    notes = _read_notes()
    defaults = _login_sockets() + _own_sockets()
    fallback = next((path for path, trusted in notes if trusted), defaults[0])
    return next((path for path in dict.fromkeys([path for path, _ in notes] + defaults) if _answers(path)), fallback)


def _login_sockets() -> List[str]:
    for run in (os.environ.get("XDG_RUNTIME_DIR", ""), "/run/user/%d" % os.geteuid()):
        if os.path.isabs(run) and _is_own(run, stat.S_ISDIR):
            path = os.path.join(run, "turnstone", "daemon.sock")
            return [path] if _fits(path) else []
    return []


def _own_sockets() -> List[str]:
    name = os.path.join("turnstone-%d" % os.getuid(), "daemon.sock")
    path = os.path.join(os.environ.get("TMPDIR", ""), name)
    if not os.path.isabs(path) or not _fits(path):
        path = os.path.join("/tmp", name)
    host, state = _host_id(), _state_directory()
    if not host or not state:
        return [path]
    more = os.path.join(state, "run-" + host, "daemon.sock")
    return [path, more] if _fits(more) else [path]


def _fits(path: str) -> bool:
    return len(os.fsencode(path)) <= MAX_PATH


def _state_directory() -> Optional[str]:
    state = os.environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(state):
        return os.path.join(state, "turnstone")
    home = os.environ.get("HOME", "")
    if not _is_own(home, stat.S_ISDIR):  # it belongs to another user, after su or sudo
        import pwd

        try:
            home = pwd.getpwuid(os.geteuid()).pw_dir
        except KeyError:
            pass
    return os.path.join(home, ".local", "state", "turnstone") if os.path.isabs(home) else None


def _host_id() -> Optional[str]:
    """Return a name for this host, its boot and its PID namespace, or "": only Linux has all three."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read(BOOT_ID_LENGTH)
        space = re.sub(r"\D", "", os.readlink("/proc/self/ns/pid"))
    except OSError:
        return None
    return "%s-%s-%s" % (re.sub(r"[^A-Za-z0-9.]", "_", socket.gethostname()[:64]), boot, space)


def _read_notes() -> List[Tuple[str, bool]]:
    """Return the sockets in the notes of this user's live daemons.

    The second value is whether the note is trusted: no session can have written it.
    """
    host, state = _host_id(), _state_directory()
    notes: List[Tuple[str, bool]] = []
    if not host:
        return notes
    directories = [state] if state else []
    directories.append(os.path.dirname(_own_sockets()[0]))
    for directory in directories:
        try:
            if not _is_own(directory, stat.S_ISDIR, private=True):
                continue
            # Without O_NONBLOCK, opening a named pipe of that name would block.
            fd = os.open(os.path.join(directory, "daemon-%s.json" % host), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with open(fd, "rb") as file:
                if not _is_own(fd, stat.S_ISREG, private=True):
                    continue
                note = json.loads(file.read(MAX_NOTE_BYTES))
            if _start_ticks(note["pid"]) == note["start_ticks"] and os.path.isabs(note["socket"]):
                notes.append((str(note["socket"]), directory == state))
        except (OSError, ValueError, TypeError, KeyError, IndexError):
            continue
    return notes


def _start_ticks(pid: int) -> int:
    """Return when a process of this user started, in clock ticks since the boot."""
    directory = "/proc/%d" % pid
    with open(directory + "/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()  # the state is field 3, and this field 22
    if not _is_own(directory, stat.S_ISDIR) or fields[0] == b"Z":
        raise ValueError("no live process of this user")
    return int(fields[19])


def proof_for(path: str) -> Proof:
    """Return the challenge for a new connection to a socket."""
    return Proof(path, _state_directory())


def _answers(path: str) -> bool:
    """Report whether a daemon of this user listens at a socket. A killed daemon leaves its socket behind."""
    if not (_is_own(os.path.dirname(path), stat.S_ISDIR) and _is_own(path, stat.S_ISSOCK)):
        return False
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PROBE_TIMEOUT)
        proof, line = proof_for(path), b""
        try:
            connection.connect(path)
            connection.sendall(proof.question())
            while b"\n" not in line and len(line) < MAX_ANSWER_BYTES:
                part = connection.recv(MAX_ANSWER_BYTES)
                if not part:
                    return False
                line += part
        except OSError:
            return False
    return not proof.fault(line)


def _is_own(path, kind, private: bool = False) -> bool:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return False
    return kind(found.st_mode) and found.st_uid == os.geteuid() and not (private and found.st_mode & 0o022)
