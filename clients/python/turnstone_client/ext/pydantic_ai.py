"""A toolset for Pydantic AI.

    async with AsyncSession(sandbox="workspace") as session:
        agent = Agent(model, toolsets=[ReplToolset(session)])
"""

from __future__ import annotations

from typing import Any, Optional

from pydantic_ai import BinaryContent, ToolReturn
from pydantic_ai.toolsets import FunctionToolset

from ..session import AsyncSession
from ._tool import TIMEOUT, SandboxCheck, media_type, shown_text, tool_description, tool_name


class ReplToolset(FunctionToolset[Any]):
    """One tool, which runs a model's code in a session.

    A call returns text of at most 20 000 characters, and images. The metadata of the ToolReturn is the
    whole Result. An error of the code is text, and not raised. The calls that a model makes at once run
    in their order.

    A session without a sandbox is refused at the first call, unless unconfined is true.
    """

    def __init__(self, session: AsyncSession, *, name: Optional[str] = None, description: Optional[str] = None, timeout: Optional[float] = TIMEOUT, unconfined: bool = False):
        name = tool_name(session, name)
        super().__init__(id="turnstone-" + name)
        check = SandboxCheck(unconfined)

        async def run(code: str) -> ToolReturn:
            await check.of_async(session)
            result = await session.run(code, timeout=timeout)
            images = [BinaryContent(image, media_type=media_type(image)) for image in result.images]
            text = shown_text(result)
            return ToolReturn(return_value=[text, *images] if images else text, metadata=result)

        self.add_function(run, takes_ctx=False, name=name, description=description or tool_description(session), sequential=True)
