"""A Pydantic AI agent whose tool is a Python session in a sandbox.

    pip install "turnstone-client[repl]" "pydantic-ai-slim[openai]"
    python pydantic_agent.py "How many primes are below 10000?"
"""

import asyncio
import sys

from pydantic_ai import Agent
from turnstone_client import AsyncSession
from turnstone_client.ext.pydantic_ai import ReplToolset


async def ask(model, question):
    async with AsyncSession(sandbox="workspace") as session:
        return await Agent(model, toolsets=[ReplToolset(session)]).run(question)


if __name__ == "__main__":
    print(asyncio.run(ask("openai:gpt-5-mini", sys.argv[1])).output)
