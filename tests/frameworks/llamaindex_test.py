"""Runs the example for LlamaIndex: a scripted model writes code, and reads what became of it."""

import asyncio
import unittest

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, LLMMetadata
from llama_index.core.llms import CustomLLM

import code_act


class ScriptedModel(CustomLLM):
    codes: list
    seen: list = []

    @property
    def metadata(self):
        return LLMMetadata()

    def complete(self, prompt, **_):
        raise NotImplementedError

    def stream_complete(self, prompt, **_):
        raise NotImplementedError

    async def astream_chat(self, messages, **_):
        self.seen.append(str(messages[-1].content))
        text = "<execute>\n%s\n</execute>" % self.codes.pop(0) if self.codes else "done"

        async def pieces():
            yield ChatResponse(message=ChatMessage(role="assistant", content=text), delta=text)

        return pieces()


class LlamaIndexTest(unittest.TestCase):
    def test_agent_keeps_variables_and_sees_errors(self):
        model = ScriptedModel(codes=["x = 6 * 7", "print(x)", "1/0"])
        self.assertIn("done", str(asyncio.run(code_act.ask(model, "go"))))
        self.assertIn("42", model.seen[2])
        self.assertIn("ZeroDivisionError", model.seen[3])


if __name__ == "__main__":
    unittest.main()
