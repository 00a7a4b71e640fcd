"""The part of the tools that all frameworks share."""

from __future__ import annotations

import asyncio
import base64
from typing import Any, Mapping, Optional

from ..errors import TurnstoneError
from ..result import Result

TIMEOUT = 60.0  # seconds, after which the code is interrupted
_SIGNATURES = ((b"\x89PNG", "image/png"), (b"\xff\xd8", "image/jpeg"), (b"GIF8", "image/gif"), (b"RIFF", "image/webp"))


def tool_name(session: Any, name: Optional[str]) -> str:
    """Return the name of the tool: by default that of the language, if it is known."""
    return name or session.language or "run_code"


def tool_description(session: Any) -> str:
    """Return what a model reads about the tool."""
    return (
        "Run %scode in a session that keeps its variables, imports and definitions from call to call. "
        "Returns the output, the value of the last expression, images, and the traceback of an error." % (session.language.capitalize() + " " if session.language else "")
    )


def shown_text(result: Result) -> str:
    """Return the text for a model. It is never empty, because some models take an empty result for a failure."""
    return result.render() or "[no output]"


def media_type(image: bytes) -> str:
    return next((kind for signature, kind in _SIGNATURES if image.startswith(signature)), "application/octet-stream")


def data_url(image: bytes) -> str:
    return "data:%s;base64,%s" % (media_type(image), base64.b64encode(image).decode())


class SandboxCheck:
    """Refuses to run a model's code in a session without a sandbox, unless unconfined is true.

    The first call asks the session. A session never loses its sandbox. Calls that come at once pass in
    their order, because a model may have written the second one for the state after the first.
    """

    def __init__(self, unconfined: bool):
        self._is_needed = not unconfined
        self._passed = False
        self._order: Optional[asyncio.Lock] = None

    def of(self, session: Any) -> None:
        """Check a Session."""
        if self._is_needed and not self._passed:
            self._decide(session.info())

    async def of_async(self, session: Any) -> None:
        """Check an AsyncSession."""
        if not self._is_needed:
            return
        if self._order is None:
            self._order = asyncio.Lock()  # fair: first come, first served
        async with self._order:
            if not self._passed:
                self._decide(await session.info())

    def _decide(self, info: Mapping[str, Any]) -> None:
        if not info.get("sandbox"):
            raise TurnstoneError("permission", 'the session has no sandbox, and a model\'s code would run with all your rights: open it with sandbox="workspace", or pass unconfined=True to the tool')
        self._passed = True
