"""The error of every call."""

from __future__ import annotations

from typing import Any, Dict, Optional


class TurnstoneError(Exception):
    """A call was refused, or its session or daemon cannot be reached.

    kind is one of the kinds in docs/daemon-protocol.md, such as "busy" or "unreachable". data has the
    fields of that kind, for example the input_request of "waiting".
    """

    def __init__(self, kind: str, message: str, data: Optional[Dict[str, Any]] = None):
        super().__init__(message)
        self.kind = kind
        self.data = data or {}

    def __reduce__(self) -> Any:
        return type(self), (self.kind, str(self), self.data)  # with pickle, a process pool passes an error to its parent


class LostConnection(Exception):
    """The connection ended before a call was answered. Only Client sees it: it repeats the call or reports the loss."""
