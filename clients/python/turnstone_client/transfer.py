"""Files of a session's working directory: put, get, list and remove.

The functions take a session: any object with a coroutine function _call(method, params) that adds the
name of the session. A path is relative to the working directory of the session, with slashes. The path
"session:NAME" is a file of the session's own directory, which can only be read.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import secrets
import stat
import urllib.parse
import zlib
from typing import Any, BinaryIO, Callable, Deque, Dict, Iterable, Iterator, List, Optional, Union

from . import wire
from .errors import TurnstoneError

PIECE = 1 << 20  # bytes; the daemon takes and sends no more at once
WINDOW = 4  # pieces that are under way at the same time, so that a copy does not wait for each answer
ABORT_TIMEOUT = 5.0  # seconds; of the call that gives up a transfer

Path = Union[str, "os.PathLike[str]"]
Progress = Callable[[int], None]
Source = Union[Path, bytes, BinaryIO]
Target = Union[None, Path, BinaryIO]


def _sendable(path: str) -> str:
    """Return a path as the daemon takes it. Bytes of a name that are not UTF-8 are those of os.fsdecode()."""
    if any("\udc80" <= c <= "\udcff" for c in path):
        return "bytes:" + urllib.parse.quote_from_bytes(path.encode("utf-8", "surrogateescape"))
    return path


async def put(session: Any, path: Source, to: Optional[str] = None, overwrite: bool = False, *, parents: bool = False, on_progress: Optional[Progress] = None) -> None:
    """Put a local file, bytes, or an open binary file into the working directory.

    to is the path there, by default the name of the local file. The file appears when it is complete.
    An error of kind "file_exists" means that a file has this name and overwrite is false. Of the
    attributes only the right to execute is kept. parents creates missing directories.
    """
    executable = False
    with contextlib.ExitStack() as stack:
        if isinstance(path, (bytes, bytearray, memoryview)):
            source: Any = _Bytes(bytes(path))
        elif hasattr(path, "read"):
            source = path
        else:
            source = stack.enter_context(open(path, "rb"))  # type: ignore[arg-type]
            executable = bool(os.fstat(source.fileno()).st_mode & stat.S_IXUSR) and os.name != "nt"
            to = to or os.path.basename(os.path.abspath(os.fspath(path)))  # type: ignore[arg-type]
        if not to:
            raise ValueError("name the file in the session with to=")
        first: Dict[str, Any] = {"path": _sendable(to), "transfer": secrets.token_hex(16)}
        options = {"overwrite": overwrite, "executable": executable, "parents": parents}
        try:
            await _send_pieces(session, source, {**first, **{name: True for name, value in options.items() if value}}, on_progress)
        except BaseException:  # also when the caller is cancelled
            with contextlib.suppress(Exception, asyncio.CancelledError):
                await asyncio.wait_for(session._call("file/put", {**first, "abort": True}), ABORT_TIMEOUT)
            raise


async def _send_pieces(session: Any, source: Any, params: Dict[str, Any], on_progress: Optional[Progress]) -> None:
    def arrived(progress: Dict[str, Any]) -> None:
        if on_progress is not None:
            on_progress(progress["bytes"])

    pieces = _pieces(source)
    arrived(await session._call("file/put", {**params, **next(pieces)}))  # the session begins the transfer with it
    await _call_ahead(session, "file/put", ({**params, **piece} for piece in pieces), arrived)


def _pieces(source: Any) -> Iterator[Dict[str, Any]]:
    checksum, offset, last = 0, 0, False
    while not last:
        data = _read_piece(source)
        checksum, last = zlib.crc32(data, checksum), len(data) < PIECE
        yield {"offset": offset, "data": data, **({"last": True, "crc32": "%08x" % checksum} if last else {})}
        offset += len(data)


async def _call_ahead(session: Any, method: str, calls: Iterable[Dict[str, Any]], handle: Callable[[Dict[str, Any]], None]) -> None:
    """Make calls with these params, WINDOW at the same time, and handle their results in order."""
    sent: "Deque[asyncio.Future[Any]]" = collections.deque()
    try:
        for params in calls:
            sent.append(asyncio.ensure_future(session._call(method, params)))
            if len(sent) == WINDOW:
                handle(await sent.popleft())
        while sent:
            handle(await sent.popleft())
    finally:
        for call in sent:
            call.cancel()
        await asyncio.gather(*sent, return_exceptions=True)


def _read_piece(source: Any) -> bytes:
    """Read a whole piece, or less at the end. A pipe or a socket gives it in parts."""
    parts: List[bytes] = []
    size = 0
    while size < PIECE:
        part = source.read(PIECE - size)
        if isinstance(part, str):
            raise TypeError("open the file in binary mode")
        if not part:
            break
        parts.append(part)
        size += len(part)
    return b"".join(parts)


class _Bytes:
    def __init__(self, data: bytes):
        self.data, self.at = data, 0

    def read(self, size: int) -> bytes:
        part = self.data[self.at : self.at + size]
        self.at += len(part)
        return part


async def get(session: Any, name: str, to: Target = None, *, on_progress: Optional[Progress] = None) -> Optional[bytes]:
    """Get a file of the working directory.

    Without to, it returns the content. to is a local path, which is written or replaced once the file is
    complete, or an open binary file. An error of kind "file_changed" means that the file was changed
    while it was read.
    """
    if to is None:
        parts: List[bytes] = []
        await _receive(session, name, parts.append, on_progress)
        return b"".join(parts)
    if hasattr(to, "write"):
        await _receive(session, name, to.write, on_progress)  # type: ignore[union-attr]
        return None
    path = os.fspath(to)  # type: ignore[arg-type]
    temporary_path = os.path.join(os.path.dirname(path), ".get-" + secrets.token_hex(8))
    temporary = os.open(temporary_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with open(temporary, "wb") as file:
            first = await _receive(session, name, file.write, on_progress)
        if first.get("executable"):
            mode = stat.S_IMODE(os.stat(temporary_path).st_mode)
            os.chmod(temporary_path, mode | (mode & 0o444) >> 2)
        os.replace(temporary_path, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary_path)
        raise
    return None


async def _receive(session: Any, name: str, write: Callable[[bytes], Any], on_progress: Optional[Progress]) -> Dict[str, Any]:
    """Write a file, up to the size that it had at first, and return the first part."""
    params = {"path": _sendable(name), "buffer": True}
    first = await session._call("file/get", params)
    size, offset = len(first["data"]), 0  # of each part but the last

    def arrived(part: Dict[str, Any]) -> None:
        nonlocal offset
        rest = first["bytes"] - offset
        if part.get("id") != first.get("id") or len(part["data"]) < min(rest, max(size, 1)):
            raise TurnstoneError("file_changed", "%s was changed while it was read, after %d of %d bytes; read it again" % (name, offset, first["bytes"]))
        write((part["data"] or b"")[:rest])
        offset += min(len(part["data"]), rest)
        if on_progress is not None:
            on_progress(offset)

    arrived(first)
    offsets = range(size, first["bytes"], size) if size else ()
    await _call_ahead(session, "file/get", ({**params, "offset": at} for at in offsets), arrived)
    return first


async def list_files(session: Any, path: str = "") -> "wire.FileList":
    """List a directory by name; "" is the working directory, and "session:" the session's own one.

    The path of each file can be used in the other calls. If "more" is true, the directory has more than
    the 10 000 listed names.
    """
    return await session._call("file/list", {"path": _sendable(path)} if path else {})


async def remove_file(session: Any, path: str) -> None:
    """Remove a file or a link, but no directory."""
    await session._call("file/remove", {"path": _sendable(path)})
