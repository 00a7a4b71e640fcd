"""Tests of cells that ask for an exit. That is an error, as in ipykernel, and never a success."""

import os
import subprocess
import sys
import tempfile
import unittest

import nbformat
from corpus import notebook
from jupyter_client.kernelspec import KernelSpecManager
from kernels import LIMIT, Case, Kernel, text
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

FAILED_TEST = "import unittest\nclass T(unittest.TestCase):\n    def test(self): self.assertEqual(1, 2)\nunittest.main(argv=['x'])"
PARSER = "import argparse\np = argparse.ArgumentParser(prog='tool')\np.add_argument('file')\np.parse_args([])"

# The code, and the name and value of the error.
PYTHON = [
    ("import sys; sys.exit('validation failed')", "SystemExit", "validation failed"),
    ("import sys; sys.exit(3)", "SystemExit", "3"),
    ("import sys; sys.exit(0)", "SystemExit", "0"),
    ("import sys; sys.exit()", "SystemExit", ""),
    ("import sys; sys.exit(None)", "SystemExit", ""),
    ("raise SystemExit", "SystemExit", ""),
    ("raise SystemExit(2, 'why')", "SystemExit", "(2, 'why')"),
    ("exit()", "SystemExit", ""),
    ("quit(4)", "SystemExit", "4"),
    ("exec('import sys; sys.exit(5)')", "SystemExit", "5"),
    ("class Leave(SystemExit): pass\nraise Leave(6)", "Leave", "6"),
    ("class Bad:\n    def __str__(self): return 1/0\nraise SystemExit(Bad())", "SystemExit", ""),
    (FAILED_TEST, "SystemExit", None),  # True or 1, depending on the version of Python
    (PARSER, "SystemExit", "2"),
    ("import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    raise SystemExit(7)\nawait f()", "SystemExit", "7"),
    ("async def g():\n    asyncio.ensure_future(f())\n    await asyncio.sleep(60)\nawait g()", "SystemExit", "7"),
    ("try:\n    sys.exit(8)\nfinally:\n    1/0", "ZeroDivisionError", "division by zero"),
]


class Exits(Case):
    def test_python(self):
        k = self.kernel()
        k.run("kept = 41\nimport sys")
        for code, name, value in PYTHON:
            reply, out = k.run(code + "\nprint('the rest')")
            self.assertEqual((reply["status"], reply.get("ename")), ("error", name), code)
            if value is not None:
                self.assertEqual(reply["evalue"], value, code)
            self.assertTrue(reply["traceback"][0].startswith(f"{name}: {value}" if value else name) or name == "ZeroDivisionError", reply["traceback"])
            errors = [m["content"] for m in out if m["msg_type"] == "error"]
            self.assertEqual([(e["ename"], e["evalue"]) for e in errors], [(reply["ename"], reply["evalue"])], code)
            self.assertNotIn("the rest", text(out), code)
            self.assertEqual(k.text("print(kept + 1)"), "42\n", code)

    def test_an_exit_of_a_thread_is_none_of_the_cell(self):
        k = self.kernel()
        reply, _ = k.run("import sys, threading\nt = threading.Thread(target=sys.exit, args=(3,))\nt.start()\nt.join()\n'on'")
        self.assertEqual(reply["status"], "ok")

    def test_an_interrupt_within_an_exit_is_an_interrupt(self):
        k = self.kernel()
        code = "import sys, time\ntry: sys.exit(3)\nfinally:\n    print('in', flush=True)\n    time.sleep(60)"
        asked = k.kc.execute(code)
        k.next("stream", asked)
        k.km.interrupt_kernel()
        self.assertEqual(k.ask(asked)["content"]["ename"], "KeyboardInterrupt")

    def test_the_death_of_the_interpreter_is_told_as_such(self):
        k = self.kernel()
        for code, status in (("import os; os._exit(0)", 0), ("import os; os._exit(3)", 3)):
            reply, _ = k.run("kept = 1")
            reply, out = k.run(code)
            self.assertEqual((reply["status"], reply["ename"]), ("error", "WorkerEnded"), code)
            self.assertIn(f"exit status {status}", reply["evalue"])
            self.assertIn("without the variables", reply["evalue"])
            self.assertEqual([m["msg_type"] for m in out], ["error"])

    def test_input_goes_on_after_exit(self):
        k = self.kernel()
        k.run("exit()")  # closes sys.stdin, like Python's own exit
        asked = k.kc.execute("print(input('n? '))", allow_stdin=True)
        k.kc.get_stdin_msg(timeout=LIMIT)
        k.kc.input("still asked")
        self.assertEqual(k.ask(asked)["content"]["status"], "ok")

    def test_expressions(self):
        k = self.kernel()
        reply, _ = k.run("import sys", user_expressions={"leaves": "sys.exit(3)", "stays": "1 + 1"})
        values = reply["user_expressions"]
        self.assertEqual((values["leaves"]["status"], values["leaves"]["ename"]), ("error", "SystemExit"))
        self.assertEqual(values["stays"]["data"]["text/plain"], "2")

    def test_r(self):
        if "turnstone-r" not in KernelSpecManager().find_kernel_specs():
            self.skipTest("there is no R")
        k = self.kernel("turnstone-r")
        for code, status in (
            ("quit(status = 3)", 3),
            ("q('no', status = 0)", 0),
            ("q('no')", 0),
            ("f <- function() { on.exit(cat('left')); quit(status = 4) }\nf()", 4),
            (".Last <- function() cat('last\\n')\nquit(status = 5)", 5),
            ("options(error = quote(quit(status = 6)))\nstop('no')", 6),
        ):
            k.run("kept <- 41")
            reply, out = k.run(code)
            self.assertEqual((reply["status"], reply.get("ename")), ("error", "WorkerEnded"), code)
            self.assertIn(f"exit status {status}", reply["evalue"], code)
            self.assertIn("without the variables", reply["evalue"])
            self.assertEqual([m["content"]["evalue"] for m in out if m["msg_type"] == "error"], [reply["evalue"]], code)
            self.assertEqual(k.text("cat(exists('kept'))"), "FALSE")
        reply, _ = k.run("tryCatch(stop('no'), error = function(e) 'caught')")
        self.assertEqual(reply["status"], "ok")


class Runners(Case):
    """Programs that run notebooks stop with an error."""

    def papermill(self, cells, kernel="turnstone-python", language="python"):
        with tempfile.TemporaryDirectory() as d:
            nbformat.write(notebook(cells, kernel, language), os.path.join(d, "in.ipynb"))
            done = subprocess.run([sys.executable, "-m", "papermill", "--no-progress-bar", "in.ipynb", "out.ipynb"], cwd=d, capture_output=True, text=True, timeout=LIMIT * 2)
            out = nbformat.read(os.path.join(d, "out.ipynb"), 4)
            shown = "".join(o.get("text", "") for c in out.cells if c.cell_type == "code" for o in c.outputs)
            return done.returncode, shown, done

    def test_papermill(self):
        for code, status in (
            ("import sys; sys.exit('validation failed')", 1),
            (PARSER, 1),
            ("import os; os._exit(0)", 1),
            ("import sys; sys.exit(0)", 0),  # Papermill's own rule: a notebook may end early
        ):
            rc, shown, done = self.papermill(["ok = False", code, "print('deploying')"])
            self.assertEqual((rc != 0, "deploying" in shown), (bool(status), False), f"{code}: {rc}, {shown} {done.stderr}")

    def test_papermill_with_r(self):
        if "turnstone-r" not in KernelSpecManager().find_kernel_specs():
            self.skipTest("there is no R")
        for code in ("quit(status = 3)", "q('no')"):
            rc, shown, done = self.papermill(["ok <- FALSE", code, "cat('deploying')"], "turnstone-r", "R")
            self.assertEqual((rc != 0, "deploying" in shown), (True, False), f"{code}: {rc}, {shown} {done.stderr}")

    def test_nbclient(self):
        nb = notebook(["kept = 41", "import sys; sys.exit(0)", "print('deploying')"], "turnstone-python", "python")
        with self.assertRaises(CellExecutionError) as raised:
            NotebookClient(nb, timeout=LIMIT).execute()
        self.assertEqual((raised.exception.ename, raised.exception.evalue), ("SystemExit", "0"))
        self.assertIsNone(nb.cells[2].execution_count)
        nb = notebook(["kept = 41", "import sys; sys.exit(3)", "print(kept)"], "turnstone-python", "python")
        NotebookClient(nb, timeout=LIMIT, allow_errors=True).execute()
        self.assertEqual([o.output_type for o in nb.cells[1].outputs], ["error"])
        self.assertEqual(nb.cells[2].outputs[0].text, "41\n")


if __name__ == "__main__":
    unittest.main()
