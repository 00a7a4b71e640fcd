"""The text of events."""

from __future__ import annotations

import base64
import codecs
from typing import Any, Dict, Iterable, Optional, Tuple

from .errors import TurnstoneError


class Decoder:
    """Decodes text events. A character may be written in two parts, which are two events of one stream and kind."""

    def __init__(self) -> None:
        self._streams: Dict[Tuple[str, str], codecs.IncrementalDecoder] = {}

    def decode(self, event: Any) -> str:
        stream = event.get("stream", "stdout"), event.get("kind", "")
        decoder = self._streams.get(stream)
        if decoder is None:
            if "text" in event:
                return event["text"]
            decoder = self._streams[stream] = codecs.getincrementaldecoder("utf-8")("replace")
        return decoder.decode(event["text"].encode() if "text" in event else base64.b64decode(event.get("data", "")))

    def finish(self) -> Dict[Tuple[str, str], str]:
        """Return the replacement of a character that is not complete at the end, by stream and kind."""
        rests = {stream: decoder.decode(b"", True) for stream, decoder in self._streams.items()}
        return {stream: rest for stream, rest in rests.items() if rest}


def text(events: Iterable[Any], *, missing: Optional[str] = None) -> str:
    """Return the text of events, from both streams in order.

    Some output may be missing from the events, because it was too large for a reply or the session
    has dropped it. The argument missing replaces it. Without that argument, text() raises a
    TurnstoneError of kind "incomplete".
    """
    parts = []
    decoder = Decoder()
    for event in events:
        if event["type"] == "text":
            parts.append(decoder.decode(event))
        elif event["type"] == "gap" or event["type"] == "omitted" and event.get("bytes"):
            if missing is None:
                raise TurnstoneError("incomplete", _what_is_missing(event))
            parts.append(missing)
    return "".join(parts + list(decoder.finish().values()))


def _what_is_missing(event: Any) -> str:
    which = "%d bytes of output, in the events %d to %d" % (event.get("bytes", 0), event.get("from", 0), event.get("to", 0))
    if event["type"] == "gap":
        return which + ", were dropped by the session; call text() with missing= to insert another text instead"
    return which + ", are not in the reply: read them in parts with read(after=...), or use text() with missing="
