"""What became of code that was run: one object, which counts everything that it leaves out."""

from __future__ import annotations

import ast
import base64
import json
import os
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Union

MAX_RENDERED_CHARS = 20_000  # of render(), by default: what a model should get at most
DISPLAY_OVERHEAD = 512  # approximate memory of a display in addition to its data, in bytes
IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
FILE_TYPES = {
    ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp", ".svg": "image/svg+xml",
    ".pdf": "application/pdf", ".html": "text/html", ".htm": "text/html", ".json": "application/json", ".md": "text/markdown", ".tex": "text/latex", ".txt": "text/plain",
}


class CodeError(Exception):
    """How code failed: by an error of its own, by an interrupt, or because its worker ended.

    ended says that the worker has ended, and with it all variables.
    """

    def __init__(self, name: str, message: str = "", traceback: str = "", ended: bool = False):
        super().__init__(name, message, traceback, ended)
        self.name = name
        self.message = message
        self.traceback = traceback
        self.ended = ended

    def __str__(self) -> str:
        return "%s: %s" % (self.name, self.message) if self.message else self.name


@dataclass
class Display:
    """One thing to show, in one or more types. A notebook shows it when it is the value of a cell."""

    data: Dict[str, Any]  # by MIME type: text, or bytes
    title: str = ""
    id: str = ""
    is_value: bool = False  # it shows the value of the code
    left_out: Dict[str, int] = field(default_factory=dict)  # bytes of each type that is not in data

    def __repr__(self) -> str:
        types = ", ".join("%s: %d" % item for item in self.sizes.items())
        return "<Display %r of %s>" % (self.title, types) if self.title else "<Display of %s>" % types

    @property
    def sizes(self) -> Dict[str, int]:
        """The size of the data by type, in bytes or characters."""
        return {mime: len(value) if isinstance(value, (bytes, str)) else len(json.dumps(value)) for mime, value in self.data.items()}

    @property
    def size(self) -> int:
        """About how much memory it needs, in bytes."""
        return DISPLAY_OVERHEAD + sum(self.sizes.values())

    @property
    def image(self) -> Optional[bytes]:
        """The image, or None if it has none that is a file of pixels."""
        return next((self.data[mime] for mime in IMAGE_TYPES if isinstance(self.data.get(mime), bytes)), None)

    def save(self, path: Union[str, "os.PathLike[str]"]) -> str:
        """Write the type that the ending of path names, such as .png, .svg or .html, and return that type."""
        ending = os.path.splitext(os.fspath(path))[1].lower()
        mime = FILE_TYPES.get(ending)
        if mime is None or mime not in self.data:
            raise ValueError("%s: the display has %s, and no type for the ending %r" % (os.fspath(path), ", ".join(self.data) or "nothing", ending))
        value = self.data[mime]
        if not isinstance(value, (bytes, str)):
            value = json.dumps(value)
        with open(path, "wb") as file:
            file.write(value if isinstance(value, bytes) else value.encode())
        return mime

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None, **_: Any) -> Dict[str, Any]:
        """Return the data as Jupyter wants it, for its display hook."""
        bundle: Dict[str, Any] = {}
        for mime, value in self.data.items():
            if (include and mime not in include) or (exclude and mime in exclude):
                continue
            if isinstance(value, bytes):
                value = base64.b64encode(value).decode()
            elif isinstance(value, str) and mime.endswith("json"):
                try:
                    value = json.loads(value)
                except ValueError:
                    pass
            bundle[mime] = value
        return bundle


@dataclass
class Result:
    """What became of code that was run.

    text has the output of both streams in their order, without the echo of the value, which is in
    value, and without the traceback, which is in error. left_out counts the bytes of text, value and
    traceback that were too much for max_bytes, or that the session has dropped.
    """

    turn: int
    outcome: str = ""  # "ok", "error", "interrupted" or "ended"
    text: str = ""
    stderr: str = ""  # the part of text from standard error
    value: Optional[str] = None  # the echo of the last value
    displays: List[Display] = field(default_factory=list)
    error: Optional[CodeError] = None
    timed_out: bool = False
    notices: List[str] = field(default_factory=list)
    duration: float = 0.0  # seconds
    left_out: int = 0  # bytes
    left_out_displays: int = 0  # number of displays that are missing, or are not whole

    @property
    def images(self) -> List[bytes]:
        """The images of the displays, as the bytes of PNG, JPEG, GIF or WebP files."""
        return [image for image in (display.image for display in self.displays) if image is not None]

    @property
    def ok(self) -> bool:
        """Whether the code has ended without an error."""
        return self.error is None

    def check(self) -> "Result":
        """Raise the error of the code as CodeError if there is one. Otherwise return the result."""
        if self.error is not None:
            raise self.error
        return self

    def json(self) -> Any:
        """Parse the printed text as JSON, or the value if nothing was printed.

        The error is a ValueError if it is not JSON, or if output was left out.
        """
        if self.left_out:
            raise ValueError("%d bytes of the output were left out, so it is no whole JSON; run the code with a larger max_bytes" % self.left_out)
        if self.text.strip() or self.value is None:
            return json.loads(self.text)
        try:
            return json.loads(self.value)
        except ValueError:
            try:
                quoted = ast.literal_eval(self.value)  # Python shows a string in quotes
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                quoted = None
            if not isinstance(quoted, str):
                raise
            return json.loads(quoted)

    def render(self, max_chars: int = MAX_RENDERED_CHARS) -> str:
        """Return all of it as text for a model: at most max_chars characters, with a mark where some are left out."""
        parts = [self.text]
        if self.left_out:
            parts.append("[%d bytes of output left out]" % self.left_out)
        if self.value:
            parts.append(self.value)
        for display in self.displays:
            if display.image is not None or not display.is_value or self.value is None:
                parts.append(_describe(display))
        if self.left_out_displays:
            parts.append("[%d displays left out or not whole]" % self.left_out_displays)
        if self.error is not None:
            parts.append(self.error.traceback or "[%s]" % self.error)
            if self.error.ended:
                parts.append("[the interpreter ended, and its variables are lost: %s]" % self.error.message)
        if self.timed_out:
            parts.append("[interrupted: the time was over]")
        parts += ["[%s]" % notice for notice in self.notices]
        return shorten("".join(part if part.endswith("\n") else part + "\n" for part in parts if part), max_chars)


def _describe(display: Display) -> str:
    """Return a display as text: its own text if it has some, otherwise its types and sizes."""
    plain = display.data.get("text/plain")
    if display.image is None and isinstance(plain, str):
        return plain
    sizes = {**display.sizes, **display.left_out}
    return "[%s]" % ", ".join([display.title] * bool(display.title) + ["%s of %d bytes" % item for item in sizes.items() if item[0] != "text/plain" or len(sizes) == 1])


def shorten(text: str, max_chars: int) -> str:
    """Return text with at most max_chars characters: its beginning, a mark with a number, and its end."""
    if len(text) <= max_chars:
        return text
    mark = "\n[… %d characters left out …]\n" % len(text)  # as long as any mark for this text
    room = max_chars - len(mark)
    if room <= 0:
        return ("[… %d characters left out …]" % len(text))[: max(0, max_chars)]
    tail = room // 3  # the end has the value and the error
    head = room - tail
    return text[:head] + "\n[… %d characters left out …]\n" % (len(text) - head - tail) + text[len(text) - tail :]


def read_data(value: Any) -> Any:
    """Decode the value of one type in a display event."""
    if isinstance(value, dict) and set(value) == {"base64"}:
        return base64.b64decode(value["base64"])
    return value
