"""A CodeActAgent of LlamaIndex that runs its code in a session.

    pip install "turnstone-client[repl]" llama-index-core llama-index-llms-openai
    python code_act.py "How many primes are below 10000?"
"""

import asyncio
import sys

from llama_index.core.agent.workflow import CodeActAgent
from turnstone_client import AsyncSession


def code_act_agent(session, llm):
    async def execute(code: str) -> str:
        return (await session.run(code, timeout=60)).render()

    return CodeActAgent(code_execute_fn=execute, llm=llm)


async def ask(llm, question):
    async with AsyncSession(sandbox="workspace") as session:
        return await code_act_agent(session, llm).run(question)


if __name__ == "__main__":
    from llama_index.llms.openai import OpenAI

    print(asyncio.run(ask(OpenAI("gpt-5-mini"), sys.argv[1])))
