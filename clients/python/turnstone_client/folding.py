"""The result of a turn, built of its events."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

from .result import DISPLAY_OVERHEAD, CodeError, Display, Result
from .text import Decoder

MAX_NOTICES = 1000  # of one result
MAX_START_TEXT = 16384  # characters of what a worker wrote that did not start


def reason_of(event: Any) -> str:
    """Return why a worker has exited."""
    return event.get("message") or event.get("reason", "")


class Folder:
    """Builds the Result of one turn. Of text, value, traceback and displays, it keeps max_bytes each."""

    def __init__(self, max_bytes: int):
        self.result = Result(0)
        self.has_started = False  # an event of the turn was seen
        self.is_interrupted = False  # the session has recorded an interrupt of the turn
        self._max_bytes = max_bytes
        self._room: Dict[str, int] = dict.fromkeys(("text", "stderr", "value", "traceback", "displays"), max_bytes)
        self._decoder = Decoder()
        self._text: List[str] = []
        self._stderr: List[str] = []
        self._value: List[str] = []
        self._value_at = 0  # index in _text
        self._traceback: List[str] = []
        self._echo_open = False  # the last output was a part of the value
        self._marks_echoes = False  # the worker says where an echo begins
        self._shown: Dict[str, int] = {}  # index of each display with an id
        self._start_decoder = Decoder()
        self._start_text = ""  # what the worker wrote while it started
        self._gap = 0  # bytes of a gap whose turn is not known yet
        self._more_notices = 0

    @property
    def display_room(self) -> int:
        """How many bytes of displays are kept."""
        return self._room["displays"]

    def start(self, kind: str) -> None:
        """Note the type of an event of the turn."""
        if kind:
            self._start_text = ""
        if self.has_started or kind != "turn_started":  # otherwise the gap was before the turn
            self.result.left_out += self._gap
        self._gap, self.has_started = 0, True

    def note(self, event: Any, reported_end: int) -> None:
        """Add what the user should know: of the turn, and of what was before it since the last one."""
        if event.get("turn") != self.result.turn and self.has_started:
            return
        kind, said = event["type"], ""
        if kind == "text" and not self.has_started and event.get("turn", 0) == 0 and not event.get("between_turns"):
            self._start_text += self._start_decoder.decode(event)[: MAX_START_TEXT - len(self._start_text)]
        if kind == "gap":
            self._gap += event.get("bytes", 0)
        elif kind in ("notice", "limit"):
            said = event.get("message", "")
        elif kind == "access_denied":
            what = " ".join(str(event[name]) for name in ("op", "path", "host", "call", "detail") if event.get(name))
            said = "%s: %s" % (event["author"] + " refused" if event.get("author") else "not allowed" if event.get("call") else "the sandbox refused", what)
            if event.get("hint"):
                said += "; the user can allow it with: %s" % event["hint"]
        elif kind == "access_granted":
            said = "granted: %s" % " ".join("%s %s" % (name, event[name]) for name in ("read", "write", "host", "call") if event.get(name))
        elif kind == "worker_exited" and event.get("generation") != reported_end:
            said = ("the interpreter did not start: %s" if event.get("never_ready") else "the interpreter had ended, and its variables are lost: %s") % reason_of(event)
        if not said:
            return
        if len(self.result.notices) < MAX_NOTICES:
            self.result.notices.append(said)
        else:
            self._more_notices += 1
            self.result.notices[-1] = "%d further notices are in the events of the session" % (self._more_notices + 1)

    # ---- text

    def add_text(self, event: Any) -> str:
        """Add a text event. Return what of it is printed text, neither value nor traceback."""
        text, kind = self._decoder.decode(event), event.get("kind")
        if kind == "result":
            self._add_echo(text, bool(event.get("begins")))
            return ""
        self._echo_open = False
        if kind == "traceback":
            self._traceback.append(self._cut(text, "traceback"))
            return ""
        self._text.append(self._cut(text, "text"))
        if event.get("stream") == "stderr":
            self._stderr.append(self._cut(text, "stderr", counts=False))
        return text

    def _add_echo(self, text: str, begins: bool) -> None:
        """Add a part of the echo of a value. R shows several values: the last one is the value, and the others are text."""
        self._marks_echoes = self._marks_echoes or begins
        if begins or not (self._marks_echoes or self._echo_open):
            self._text[self._value_at : self._value_at] = [self._cut(part, "text") for part in self._value]
            self._value, self._value_at = [], len(self._text)
            self._room["value"] = self._max_bytes
        self._echo_open = True
        self._value.append(self._cut(text, "value"))

    def _cut(self, text: str, what: str, counts: bool = True) -> str:
        """Return the part of text for which there is room, and count the rest."""
        room = self._room[what]
        size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        if size <= room:
            self._room[what] = room - size
            return text
        kept = text.encode("utf-8", "surrogatepass")[:room].decode("utf-8", "ignore")
        if counts:
            self.result.left_out += size - len(kept.encode())
        self._room[what] = 0
        return kept

    # ---- displays

    def add_display(self, display: Display, updates: bool) -> None:
        """Add a display, or as a notebook does, replace the one that it updates."""
        self._echo_open = False
        shown = self.result.displays
        at = self._shown.get(display.id) if display.id and updates else None
        if at is not None:
            self._room["displays"] += shown[at].size
            self.result.left_out_displays -= bool(shown[at].left_out)
        for mime, size in sorted(display.sizes.items(), key=lambda item: -item[1]):
            if display.size > self._room["displays"]:
                display.left_out[mime] = size
                del display.data[mime]
        self.result.left_out_displays += bool(display.left_out) or (at is None and DISPLAY_OVERHEAD > self._room["displays"])
        if at is not None:
            shown[at] = display
        elif DISPLAY_OVERHEAD <= self._room["displays"]:
            if display.id:
                self._shown[display.id] = len(shown)
            shown.append(display)
        else:
            return
        self._room["displays"] -= display.size

    # ---- the end

    def end(self, event: Any) -> List[Tuple[Any, str]]:
        """Add the end of the turn. Return text that was incomplete, each with a text event for it."""
        result = self.result
        rests = []
        for (stream, kind), rest in self._decoder.finish().items():
            if kind:
                (self._value if kind == "result" else self._traceback).append(rest)
                continue
            rests.append(({"type": "text", "stream": stream}, rest))
            self._text.append(self._cut(rest, "text"))
            if stream == "stderr":
                self._stderr.append(self._cut(rest, "stderr", counts=False))
        result.outcome = event["outcome"]
        result.duration = event.get("elapsed_ms", 0) / 1000
        if result.outcome != "ok":
            ended = result.outcome == "ended"
            name = event.get("name") or ("WorkerEnded" if ended else "Interrupted" if result.outcome == "interrupted" else "Error")
            result.error = CodeError(name, event.get("message", ""), "".join(self._traceback) or self._start_text, ended)
        return rests

    def finish(self, late: bool) -> Result:
        """Return the result. late says that the time of the turn was over."""
        result = self.result
        result.text, result.stderr = "".join(self._text), "".join(self._stderr)
        if self._value:
            value = "".join(self._value)
            result.value = value[:-1] if value.endswith("\n") else value
        else:
            result.value = next((shown.data["text/plain"] for shown in reversed(result.displays) if shown.is_value and "text/plain" in shown.data), None)
        result.timed_out = late and (self.is_interrupted or result.outcome in ("interrupted", "ended"))
        return result
