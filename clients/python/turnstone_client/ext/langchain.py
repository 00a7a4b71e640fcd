"""A tool for LangChain, LangGraph and Deep Agents.

    with Session(sandbox="workspace") as session:
        agent = create_agent(model, tools=[repl_tool(session)])
"""

from __future__ import annotations

from typing import Any, List, Optional, Tuple, Union

from langchain_core.tools import StructuredTool

from ..result import Result
from ..session import AsyncSession
from ..sync import Session
from ._tool import TIMEOUT, SandboxCheck, data_url, shown_text, tool_description, tool_name

Content = Union[str, List[Any]]


def repl_tool(session: Union[Session, AsyncSession], *, name: Optional[str] = None, description: Optional[str] = None, timeout: Optional[float] = TIMEOUT, unconfined: bool = False) -> StructuredTool:
    """Return a tool that runs a model's code in a session.

    The content of its messages is text of at most 20 000 characters, and images. The artifact is the
    whole Result. An error of the code is content, and not raised. The tool of a Session works with
    invoke() and ainvoke(), that of an AsyncSession with ainvoke() only.

    A session without a sandbox is refused at the first call, unless unconfined is true.
    """
    check = SandboxCheck(unconfined)

    def run(code: str) -> Tuple[Content, Result]:
        assert isinstance(session, Session)
        check.of(session)
        return _message(session.run(code, timeout=timeout))

    def refuse(code: str) -> Tuple[Content, Result]:
        raise NotImplementedError("the tool of an AsyncSession works with ainvoke() only; use a Session for invoke()")

    async def run_async(code: str) -> Tuple[Content, Result]:
        assert isinstance(session, AsyncSession)
        await check.of_async(session)
        return _message(await session.run(code, timeout=timeout))

    is_async = isinstance(session, AsyncSession)
    return StructuredTool.from_function(
        func=refuse if is_async else run,
        coroutine=run_async if is_async else None,
        name=tool_name(session, name),
        description=description or tool_description(session),
        response_format="content_and_artifact",
    )


def _message(result: Result) -> Tuple[Content, Result]:
    text = shown_text(result)
    if not result.images:
        return text, result
    return [{"type": "text", "text": text}, *({"type": "image_url", "image_url": {"url": data_url(image)}} for image in result.images)], result
