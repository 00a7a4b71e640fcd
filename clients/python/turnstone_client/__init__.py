"""Sessions of Python, R and other languages that stay alive, for your own program.

    >>> from turnstone_client import Session
    >>> with Session() as s:
    ...     print(s.run("6 * 7").value)
    42

AsyncSession is the same for programs with an event loop, and connect() returns a client of the
user's daemon. The package needs only Python 3.8 on Linux or macOS, and the program repl, which
``pip install turnstone-client[repl]`` brings. The types of replies and events are in
turnstone_client.wire, and docs/daemon-protocol.md describes them.
"""

from .client import Client, connect
from .discovery import default_socket
from .errors import TurnstoneError
from .functions import Function, current_call
from .result import CodeError, Display, Result
from .session import AsyncSession
from .sync import Session
from .text import text

__all__ = ["AsyncSession", "Client", "CodeError", "Display", "Function", "Result", "Session", "TurnstoneError", "connect", "current_call", "default_socket", "text"]
__version__ = "0.1.0"
