"""Runs the LangChain tool with LangChain's fake model."""

import asyncio
import unittest

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

import langchain_agent
from steps import PIXEL, TURNS, check_texts
from turnstone_client import AsyncSession, Session, TurnstoneError
from turnstone_client.ext.langchain import repl_tool


class ScriptedModel(GenericFakeChatModel):
    def bind_tools(self, tools, **_):
        return self


def model(turns=TURNS):
    calls = [AIMessage(content="", tool_calls=[{"name": "python", "args": {"code": code}, "id": "%d.%d" % (i, j)} for j, code in enumerate(turn)]) for i, turn in enumerate(turns)]
    return ScriptedModel(messages=iter([*calls, AIMessage(content="done")]))


def tool_messages(messages):
    return [message for message in messages if message.type == "tool"]


# LangChain runs the calls of one turn in threads at once. The calls of one Session run one after the other,
# but in no certain order, so these models make one call a turn.
ONE_BY_ONE = [[code] for turn in TURNS for code in turn]


class LangChainTest(unittest.TestCase):
    def check(self, messages):
        shown = tool_messages(messages)
        check_texts(self, [m.content if isinstance(m.content, str) else m.content[0]["text"] for m in shown])
        self.assertEqual(shown[2].content[1]["image_url"]["url"], "data:image/png;base64," + PIXEL)
        self.assertEqual(shown[1].artifact.value, "42")
        self.assertEqual(len(shown[4].artifact.text), 50001)
        self.assertEqual(messages[-1].content, "done")

    def test_example_runs_code_in_a_sandbox(self):
        self.check(langchain_agent.ask(model(ONE_BY_ONE), "go"))

    def test_tool_of_an_async_session_runs_code(self):
        async def main():
            async with AsyncSession(sandbox="workspace") as session:
                return (await create_agent(model(ONE_BY_ONE), tools=[repl_tool(session)]).ainvoke({"messages": [("user", "go")]}))["messages"]

        self.check(asyncio.run(main()))

    def test_calls_of_one_turn_all_run(self):
        with Session(sandbox="workspace") as session:
            session.run("seen = []").check()
            create_agent(model([["seen.append(%d)" % n for n in range(8)]]), tools=[repl_tool(session)]).invoke({"messages": [("user", "go")]})
            self.assertEqual(session.run("sorted(seen)").value, str(list(range(8))))

    def test_tool_of_an_async_session_says_why_invoke_fails(self):
        async def main():
            async with AsyncSession(sandbox="workspace") as session:
                return repl_tool(session)

        with self.assertRaisesRegex(NotImplementedError, "use a Session"):
            asyncio.run(main()).invoke({"code": "1"})

    def test_session_without_a_sandbox_is_refused(self):
        with Session() as session:
            with self.assertRaisesRegex(TurnstoneError, "has no sandbox"):
                repl_tool(session).invoke({"code": "1"})
            self.assertEqual(repl_tool(session, unconfined=True).invoke({"code": "6 * 7"}).strip(), "42")


if __name__ == "__main__":
    unittest.main()
