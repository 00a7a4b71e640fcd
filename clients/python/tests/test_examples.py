"""Runs the examples of the README and of the package's docstring. The environment variable REPL names the built program."""

import doctest
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import turnstone_client  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
REPL = os.environ["REPL"]
PYRIGHT = shlex.split(os.environ.get("PYRIGHT", shutil.which("pyright") or ""))
DEADLINE = 60

# What the examples print, in their order.
PRINTED = ["42\n", "[1, 2, 3]\nZeroDivisionError\nTraceback ", "b'KNOT,30\\n'\n", "'free'\n", "ok\n"]


def examples():
    with open(os.path.join(HERE, "..", "README.md"), encoding="utf-8") as file:
        return re.findall(r"^```python\n(.*?)^```", file.read(), re.MULTILINE | re.DOTALL)


class ExamplesTest(unittest.TestCase):
    def test_the_examples_of_the_readme_run(self):
        self.assertEqual(len(examples()), len(PRINTED))
        with tempfile.TemporaryDirectory() as directory:
            socket = os.path.join(directory, "daemon.sock")
            environment = {**os.environ, "XDG_STATE_HOME": directory, "TURNSTONE_SOCKET": socket, "TURNSTONE_REPL": REPL, "PYTHONPATH": os.path.join(HERE, "..")}
            daemon = subprocess.Popen([REPL, "serve", "--quiet"], env=environment, stderr=subprocess.DEVNULL)
            try:
                waiting = "import asyncio, turnstone_client as t\nasync def main():\n  while True:\n    try: return await (await t.connect()).close()\n    except t.TurnstoneError: await asyncio.sleep(0.02)\nasyncio.run(main())"
                subprocess.run([sys.executable, "-c", waiting], env=environment, check=True, timeout=DEADLINE)
                for example, printed in zip(examples(), PRINTED):
                    done = subprocess.run([sys.executable, "-W", "error", "-c", example], cwd=directory, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=DEADLINE)
                    self.assertEqual((done.returncode, done.stderr), (0, ""), example)
                    self.assertTrue(done.stdout.startswith(printed), done.stdout)
            finally:
                daemon.terminate()
                daemon.wait(DEADLINE)

    def test_the_example_of_the_package_runs(self):
        os.environ["TURNSTONE_REPL"] = REPL
        ran = doctest.testmod(turnstone_client)
        self.assertEqual((ran.failed, ran.attempted), (0, 2))

    @unittest.skipUnless(PYRIGHT, "PYRIGHT does not name the command, and pyright is not installed")
    def test_a_type_checker_accepts_the_examples(self):
        with tempfile.TemporaryDirectory() as directory:
            for number, example in enumerate(examples()):
                with open(os.path.join(directory, "example%d.py" % number), "w") as file:
                    file.write(example)
            with open(os.path.join(directory, "pyrightconfig.json"), "w") as file:
                file.write('{"extraPaths": ["%s"], "pythonVersion": "3.8", "typeCheckingMode": "standard"}' % os.path.realpath(os.path.join(HERE, "..")))
            done = subprocess.run(PYRIGHT + ["-p", directory], stdout=subprocess.PIPE, universal_newlines=True, timeout=10 * DEADLINE)
            self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
