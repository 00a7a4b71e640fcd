"""Runs the tool with a scripted model of the OpenAI Agents SDK."""

import asyncio
import json
import os
import unittest

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"

from agents import Agent, Model, ModelResponse, Runner, Usage
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

import openai_agent
from steps import PIXEL, TURNS, check_texts
from turnstone_client import AsyncSession
from turnstone_client.ext.openai_agents import repl_tool

# The SDK runs the calls of one turn at once, in tasks that it makes in their order.


class ScriptedModel(Model):
    def __init__(self, turns=TURNS):
        self.turns = iter(turns)

    async def get_response(self, *args, **kwargs):
        turn = next(self.turns, None)
        if turn is None:
            text = ResponseOutputText(type="output_text", text="done", annotations=[])
            output = [ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])]
        else:
            output = [ResponseFunctionToolCall(type="function_call", name="python", arguments=json.dumps({"code": code}), call_id=os.urandom(4).hex()) for code in turn]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *args, **kwargs):
        raise NotImplementedError


class OpenAITest(unittest.TestCase):
    def test_example_runs_code_in_a_sandbox(self):
        result = asyncio.run(openai_agent.ask(ScriptedModel(), "go"))
        self.assertEqual(result.final_output, "done")
        outputs = [item.output for item in result.new_items if item.type == "tool_call_output_item"]
        check_texts(self, [output if isinstance(output, str) else output[0].text for output in outputs])
        self.assertEqual(outputs[2][1].image_url, "data:image/png;base64," + PIXEL)

    def test_options_reach_the_framework(self):
        async def main():
            async with AsyncSession(sandbox="workspace") as session:
                tool = repl_tool(session, name="calculator", needs_approval=True)
                return tool.name, tool.needs_approval

        self.assertEqual(asyncio.run(main()), ("calculator", True))

    def test_session_without_a_sandbox_is_refused(self):
        async def main():
            async with AsyncSession() as session:
                await Runner.run(Agent(name="a", model=ScriptedModel(), tools=[repl_tool(session)]), "go")

        with self.assertRaisesRegex(Exception, "has no sandbox"):  # the SDK wraps the TurnstoneError
            asyncio.run(main())


if __name__ == "__main__":
    unittest.main()
