"""A code executor of AutoGen that keeps the variables from block to block.

    pip install "turnstone-client[repl]" autogen-agentchat
    python code_executor.py
"""

import asyncio

from autogen_agentchat.agents import CodeExecutorAgent
from autogen_agentchat.messages import TextMessage
from autogen_core import CancellationToken
from autogen_core.code_executor import CodeExecutor, CodeResult
from pydantic import BaseModel
from turnstone_client import AsyncSession


class NoConfig(BaseModel):
    """A session is given, and not configured."""


class TurnstoneExecutor(CodeExecutor):
    """Runs blocks of code in an AsyncSession, which belongs to the caller."""

    component_config_schema = NoConfig

    def __init__(self, session):
        self.session = session

    async def start(self):
        pass

    async def stop(self):
        pass

    async def restart(self):
        await self.session.reset()

    async def execute_code_blocks(self, code_blocks, cancellation_token):
        output = []
        for block in code_blocks:
            run = asyncio.ensure_future(self.session.run(block.code, timeout=60))
            cancellation_token.link_future(run)
            result = await run
            output.append(result.render())
            if result.error:
                return CodeResult(exit_code=1, output="".join(output))
        return CodeResult(exit_code=0, output="".join(output))


async def run_blocks(texts):
    async with AsyncSession(sandbox="workspace") as session:
        agent = CodeExecutorAgent("coder", code_executor=TurnstoneExecutor(session))
        return [(await agent.on_messages([TextMessage(content=text, source="user")], CancellationToken())).chat_message.to_text() for text in texts]


if __name__ == "__main__":
    for answer in asyncio.run(run_blocks(["```python\nx = 6 * 7\n```", "```python\nprint(x)\n```"])):
        print(answer)
