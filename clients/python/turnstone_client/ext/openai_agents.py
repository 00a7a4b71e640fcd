"""A tool for the OpenAI Agents SDK, in place of its hosted code interpreter.

    async with AsyncSession(sandbox="workspace") as session:
        agent = Agent(name="analyst", tools=[repl_tool(session)])
"""

from __future__ import annotations

from typing import Any, List, Optional, Union

from agents import FunctionTool, ToolOutputImage, ToolOutputText, function_tool

from ..session import AsyncSession
from ._tool import TIMEOUT, SandboxCheck, data_url, shown_text, tool_description, tool_name


def repl_tool(session: AsyncSession, *, name: Optional[str] = None, description: Optional[str] = None, timeout: Optional[float] = TIMEOUT, unconfined: bool = False, **options: Any) -> FunctionTool:
    """Return a tool that runs a model's code in a session.

    Its output is text of at most 20 000 characters, and images. An error of the code is output, and not
    raised; an error of the session is raised. Further options, such as needs_approval, go to
    function_tool().

    A session without a sandbox is refused at the first call, unless unconfined is true.
    """
    check = SandboxCheck(unconfined)

    async def run(code: str) -> Union[str, List[Any]]:
        await check.of_async(session)
        result = await session.run(code, timeout=timeout)
        text = shown_text(result)
        if not result.images:
            return text
        return [ToolOutputText(text=text), *(ToolOutputImage(image_url=data_url(image)) for image in result.images)]

    options.setdefault("failure_error_function", None)  # the program, and not the model, learns that a session failed
    return function_tool(run, name_override=tool_name(session, name), description_override=description or tool_description(session), **options)
