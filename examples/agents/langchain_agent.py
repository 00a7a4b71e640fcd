"""A LangChain agent whose tool is a Python session in a sandbox.

    pip install "turnstone-client[repl]" langchain langchain-openai
    python langchain_agent.py "How many primes are below 10000?"
"""

import sys

from langchain.agents import create_agent
from turnstone_client import Session
from turnstone_client.ext.langchain import repl_tool


def ask(model, question):
    with Session(sandbox="workspace") as session:
        agent = create_agent(model, tools=[repl_tool(session)])
        return agent.invoke({"messages": [("user", question)]})["messages"]


if __name__ == "__main__":
    print(ask("openai:gpt-5-mini", sys.argv[1])[-1].content)
