"""A client of Turnstone's daemon: sessions of Python, R and other languages that stay alive.

    import asyncio
    from turnstone_client import connect, text

    async def main():
        async with await connect() as client:
            session = await client.create("main", language="python")
            reply = await session.run("6 * 7")
            print(text(reply["events"]))

    asyncio.run(main())

It needs only Python 3.8 on Linux or macOS, and a running daemon: ``repl serve``. The methods and
their results are described in docs/daemon-protocol.md; their types are in turnstone_client.wire.
"""

from .client import Client, Session, TurnstoneError, connect, text
from .discovery import default_socket

__all__ = ["Client", "Session", "TurnstoneError", "connect", "default_socket", "text"]
__version__ = "0.1.0"
