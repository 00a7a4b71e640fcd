"""Runs the example for AutoGen with its agent that executes code."""

import asyncio
import unittest

import code_executor


class AutoGenTest(unittest.TestCase):
    def test_agent_keeps_variables_and_sees_errors(self):
        texts = asyncio.run(code_executor.run_blocks(["```python\n%s\n```" % code for code in ("x = 6 * 7\nprint('set')", "x", "1/0")]))
        self.assertIn("set", texts[0])
        self.assertIn("42", texts[1])
        self.assertIn("ZeroDivisionError", texts[2])


if __name__ == "__main__":
    unittest.main()
