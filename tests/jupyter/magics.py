"""Tests of magics in a real kernel. corpus.py and notebooks.py compare their outputs with ipykernel's."""

import os
import unittest

from kernels import Case, Kernel, repl, text


class Magics(Case):
    @classmethod
    def setUpClass(cls):
        cls.k = Kernel()

    @classmethod
    def tearDownClass(cls):
        cls.k.close()

    def test_a_front_end_knows_when_a_cell_with_magics_is_complete(self):
        for code, status in (
            ("%matplotlib inline", "complete"),
            ("!ls", "complete"),
            ("x = !ls", "complete"),
            ("len?", "complete"),
            ("!ls \\", "incomplete"),
            ("%%bash\nls", "incomplete"),
            ("%%bash\nls\n\n", "complete"),
            ("for i in x:\n    !ls", "incomplete"),
            ("%matplotlib inline\nf(", "incomplete"),
            ("%matplotlib inline\nf(]", "invalid"),
        ):
            self.assertEqual(self.k.ask(self.k.kc.is_complete(code))["content"]["status"], status, code)

    def test_an_unknown_magic_runs_nothing(self):
        reply, out = self.k.run("print('before')\n%matplotlib inline\n%no_such magic")
        self.assertEqual((reply["status"], reply["ename"]), ("error", "SyntaxError"))
        self.assertNotIn("before", text(out))
        self.assertIn("%no_such is none of the magics", "\n".join(reply["traceback"]))

    def test_pip_is_that_of_the_session(self):
        self.assertEqual(self.k.text("import sys\n%pip --version\nprint(sys.version_info[:2])").count(os.path.dirname(os.path.dirname(os.sys.executable))), 1)

    def test_a_silent_request_and_expressions_have_magics_too(self):
        self.k.run("%env SILENT_VALUE=1", silent=True)
        reply, _ = self.k.run("import os", user_expressions={"v": "os.environ['SILENT_VALUE']"})
        self.assertEqual(reply["user_expressions"]["v"]["data"]["text/plain"], "'1'")

    def test_a_command_that_asks_is_answered(self):
        asked = self.k.kc.execute("!read -p 'name? ' name; echo \"hello $name\"", allow_stdin=True)
        self.k.kc.get_stdin_msg(timeout=60)
        self.k.kc.input("ada")
        self.assertEqual(self.k.ask(asked)["content"]["status"], "ok")
        self.assertIn("hello ada", text(self.k.outputs(asked)))

    def test_an_agent_in_the_same_session_has_plain_python(self):
        repl("jupyter", "install", "--session", "plain", "--lang", "python")
        k = self.kernel("turnstone-plain")
        k.run("%matplotlib inline\ndef f():\n    !echo of the notebook")
        for code in ("%matplotlib inline", "!ls", "x = !ls", "%%bash\nls", "%pip list"):
            said = repl("exec", "plain", "-e", code, check=False)
            self.assertIn("SyntaxError", said, code)
            self.assertIn("[this is plain Python", said, code)
        self.assertEqual(repl("exec", "plain", "-e", "f()"), "of the notebook\n")  # a function keeps its meaning

    def test_r_has_no_magics(self):
        try:
            k = self.kernel("turnstone-r")
        except Exception as e:
            self.skipTest(f"there is no R: {e}")
        reply, _ = k.run("%matplotlib inline")
        self.assertEqual(reply["status"], "error")


if __name__ == "__main__":
    unittest.main()
