"""The events of a session, one after the other, over all connections of its client."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Deque, Optional

from .connection import Stream
from .errors import LostConnection, TurnstoneError

if TYPE_CHECKING:
    from .session import AsyncSession

MAX_LOSSES = 8  # of connections in a row before a subscription is made


class Follower:
    """Reads every event of a session after a cursor once and in order, and then each new one."""

    def __init__(self, session: "AsyncSession", after: int, reconnects: bool = True):
        self.after = after
        self._session = session
        self._reconnects = reconnects
        self._stream: Optional[Stream] = None
        self._events: Deque[Any] = deque()

    async def next(self) -> Any:
        """Return the next event, or None at the end of the session."""
        while True:
            if self._events:
                event = self._events.popleft()
                self.after = event["to"] if event["type"] == "gap" else event["seq"]
                return event
            await self.subscribe()
            assert self._stream is not None
            try:
                method, params = await self._stream.next()
            except LostConnection as error:
                self._stream = None
                if not self._reconnects:
                    raise self._session.client._gone(error) from None
                continue
            if method == "stream/snapshot":
                self._events.extend(params["events"])
            elif method == "stream/event":
                self._events.append(params["event"])
            elif method == "stream/ended":
                if params.get("detached"):
                    raise TurnstoneError("detached", params["reason"])
                return None

    async def subscribe(self) -> None:
        """Subscribe, unless a subscription exists on a connection that is alive or has something to read."""
        client, session = self._session.client, self._session
        losses = 0
        while self._stream is None:
            connection = await client._connected()
            session._check_daemon(connection)
            try:
                self._stream = await connection.subscribe({"session": session.name, "after": self.after, **session._author()})
            except LostConnection as error:
                losses += 1
                if losses > MAX_LOSSES or not self._reconnects:
                    raise client._gone(error) from None

    @property
    def is_behind(self) -> bool:
        """Whether so much waits to be read that the daemon has paused."""
        return self._stream is not None and self._stream.full

    async def close(self) -> None:
        stream, self._stream = self._stream, None
        self._events.clear()
        if stream is not None:
            await stream.leave()
