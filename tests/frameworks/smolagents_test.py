"""Runs the executor of the example in smolagents with a scripted model."""

import unittest

from smolagents import ChatMessage, Model, tool

import executor


class ScriptedModel(Model):
    def __init__(self, *codes):
        super().__init__()
        self.codes, self.seen = list(codes), []

    def generate(self, messages, **_):
        self.seen.append(str(messages[-1].content))
        return ChatMessage(role="assistant", content="Thought: next\n<code>\n%s\n</code>" % self.codes.pop(0))


@tool
def double(n: int) -> int:
    """Doubles a number.

    Args:
        n: a number
    """
    return 2 * n


class SmolagentsTest(unittest.TestCase):
    def test_agent_keeps_variables_and_sees_errors(self):
        model = ScriptedModel("x = 6 * 7\nprint('set')", "1/0", "import pathlib\nfinal_answer({'x': double(x), 'p': pathlib.Path('a')})")
        self.assertEqual(executor.ask(model, "go", tools=[double]), {"x": 84, "p": "a"})
        self.assertIn("set", model.seen[1])
        self.assertIn("ZeroDivisionError", model.seen[2])


if __name__ == "__main__":
    unittest.main()
