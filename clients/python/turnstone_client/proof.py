"""The check whether the program at a socket is the daemon of this user.

A sandboxed session runs as the same user, so the owner of a socket says little. A daemon proves that
it has the user's key, which a sandboxed session cannot read. docs/daemon-protocol.md has the rules.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import stat
from typing import List, Optional

KEY_NAME = "daemon.key"
KEY_BYTES = 32
MAX_ANSWER_BYTES = 16 << 10


class Proof:
    """The challenge for one new connection to a socket, and the check of its answer."""

    def __init__(self, path: str, state: Optional[str]):
        directory, name = os.path.split(os.path.abspath(path))
        self._address = os.path.join(os.path.realpath(directory), name)
        self._state = state
        self._nonce = secrets.token_urlsafe(24)

    def question(self) -> bytes:
        """Return the line to send."""
        return json.dumps({"type": "prove", "nonce": self._nonce}).encode() + b"\n"

    def fault(self, line: bytes) -> str:
        """Return why a line is not a valid proof, or ""."""
        if not line:
            return "it hung up"
        try:
            answer = json.loads(line)
            if not answer["ok"]:
                return "it answers %.200r" % answer.get("error", "")
            mac, address, client = (str(answer["data"][name]) for name in ("mac", "address", "client"))
        except (ValueError, TypeError, KeyError, AttributeError):
            return "its answer is not a proof"
        try:
            key = _read_key(self._state)
        except ValueError as error:
            return str(error)
        signed = "\n".join(("turnstone daemon 1", self._nonce, client, address)).encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(hmac.new(key, signed, hashlib.sha256).hexdigest().encode(), mac.encode("utf-8", "replace")):
            return "it does not have your key; if it is yours, it has another XDG_STATE_HOME than this program"
        if address != self._address:
            return "it is your daemon at %s, which is another address" % address
        if client != _own_name():
            return "your daemon sees a different process than this one: a program in between forwarded the challenge, or this is a container whose processes the daemon cannot see"
        return ""


def _own_name() -> str:
    """Return the ID of this process and of its PID namespace, which only Linux has."""
    try:
        space = os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        space = ""
    return "%d@%s" % (os.getpid(), space)


def _read_key(state: Optional[str]) -> bytes:
    """Return this user's key. An error says why no key can be trusted."""
    directories: List[str] = [state] if state else []
    directories.append("/tmp/turnstone-%d" % os.geteuid())
    for directory in directories:
        path = os.path.join(directory, KEY_NAME)
        try:
            # Without O_NONBLOCK, opening a named pipe of that name would block.
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0))
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
        except OSError as error:
            raise ValueError("%s cannot be used as the key: %s" % (path, error.strerror)) from None
        with open(fd, "rb") as file:
            found, above = os.fstat(fd), os.stat(directory)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
                raise ValueError("%s is not a regular file that only you can read; remove it" % path)
            if above.st_uid != os.geteuid() or above.st_mode & 0o022:
                raise ValueError("other users can write to %s; run chmod go-w on it" % directory)
            text = file.read(4 * KEY_BYTES)
        try:
            key = bytes.fromhex(text.decode("ascii").strip())
        except ValueError:
            key = b""
        if len(key) != KEY_BYTES:
            raise ValueError("%s does not contain a key; remove it" % path)
        return key
    raise ValueError("there is no %s in %s; your daemon creates it, unless it has another XDG_STATE_HOME" % (KEY_NAME, " or ".join(directories)))
