"""An agent of the OpenAI Agents SDK whose tool is a Python session in a sandbox.

    pip install "turnstone-client[repl]" openai-agents
    python openai_agent.py "How many primes are below 10000?"
"""

import asyncio
import sys

from agents import Agent, Runner
from turnstone_client import AsyncSession
from turnstone_client.ext.openai_agents import repl_tool


async def ask(model, question):
    async with AsyncSession(sandbox="workspace") as session:
        agent = Agent(name="analyst", model=model, tools=[repl_tool(session)])
        return await Runner.run(agent, question)


if __name__ == "__main__":
    print(asyncio.run(ask("gpt-5-mini", sys.argv[1])).final_output)
