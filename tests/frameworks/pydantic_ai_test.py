"""Runs the toolset with Pydantic AI's function model."""

import asyncio
import unittest

from pydantic_ai.messages import BinaryContent, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import FunctionModel

import pydantic_agent
from steps import TURNS, check_texts
from turnstone_client import AsyncSession, TurnstoneError
from turnstone_client.ext.pydantic_ai import ReplToolset


class PydanticTest(unittest.TestCase):
    def test_example_runs_code_in_a_sandbox(self):
        seen, images = [], []

        def scripted(messages, info):
            for part in messages[-1].parts:
                if isinstance(part, ToolReturnPart):
                    seen.append(part)
                for item in part.content if isinstance(part.content, list) else []:
                    images.extend([item] if isinstance(item, BinaryContent) else [])
            turn = sum(isinstance(message, ModelResponse) for message in messages)
            if turn == len(TURNS):
                return ModelResponse(parts=[TextPart("done")])
            return ModelResponse(parts=[ToolCallPart("python", {"code": code}) for code in TURNS[turn]])

        result = asyncio.run(pydantic_agent.ask(FunctionModel(scripted), "go"))
        self.assertEqual(result.output, "done")
        check_texts(self, [str(part.content) for part in seen])
        self.assertEqual([image.media_type for image in images][:1], ["image/png"])
        self.assertEqual(seen[1].metadata.value, "42")
        self.assertEqual(len(seen[4].metadata.text), 50001)

    def test_session_without_a_sandbox_is_refused(self):
        async def main():
            from pydantic_ai import Agent

            once = FunctionModel(lambda messages, info: ModelResponse(parts=[ToolCallPart("python", {"code": "1"})]))
            async with AsyncSession() as session:
                await Agent(once, toolsets=[ReplToolset(session)]).run("go")

        with self.assertRaisesRegex(TurnstoneError, "has no sandbox"):
            asyncio.run(main())


if __name__ == "__main__":
    unittest.main()
