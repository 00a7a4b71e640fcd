"""Bugs that users of other kernels and clients have reported, each with our own input."""

import json
import os
import unittest

from jupyter_client.kernelspec import KernelSpecManager
from kernels import LIMIT, Case, Kernel, text

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
SURROGATE = "b'Stra\\xdfe'.decode('utf-8', 'surrogateescape')"


def without_newlines(data):
    """Data without the newlines that ipykernel has within base64."""
    return {mime: d.replace("\n", "") if isinstance(d, str) else d for mime, d in data.items()}


class Python(Case):
    @classmethod
    def setUpClass(cls):
        cls.k = Kernel()

    @classmethod
    def tearDownClass(cls):
        cls.k.close()

    def goes_on(self):
        self.assertEqual(self.k.text("print('on')"), "on\n")

    def test_text_that_is_no_unicode_hangs_nothing(self):
        """jupyter/notebook 2680: the cell blinked forever."""
        for code in (f"print({SURROGATE})", SURROGATE, f"raise ValueError({SURROGATE})", f"import warnings; warnings.warn({SURROGATE})", f"{{{SURROGATE}: 1}}"):
            reply, _ = self.k.run(code)
            self.assertIn(reply["status"], ("ok", "error"))
            self.goes_on()

    def test_an_error_with_half_a_character_is_one_error(self):
        """ipython/ipython 11615: the traceback itself failed."""
        reply, out = self.k.run("raise OSError(chr(0xdc80) + ' is half')")
        self.assertEqual((reply["status"], reply["ename"]), ("error", "OSError"))
        self.assertIn("is half", reply["evalue"])
        self.assertEqual([m["msg_type"] for m in out], ["error"])
        self.goes_on()

    def test_bytes_that_are_no_text_are_shown_as_far_as_they_are(self):
        """takluyver/bash_kernel 61: the client waited forever for such output."""
        for code in ("import os; os.write(1, b'a\\xfe\\xff z\\n')", "import subprocess; subprocess.run(['printf', r'a\\376\\377 z\\n'])", "import sys; sys.stdout.buffer.write(b'a\\xe1 z\\n')"):
            _, out = self.k.run(code + "; None")
            self.assertRegex(text(out), "^a\ufffd+ z\n$", code)
        self.goes_on()

    def test_a_client_may_ask_once_more_when_all_cells_have_run(self):
        """nteract/papermill 711: the kernel_info request after the last cell was not answered."""
        for code in ("1", "1/0", "import sys; sys.exit(1)"):
            self.k.run(code)
            for _ in range(5):
                self.assertEqual(self.k.ask(self.k.kc.kernel_info())["content"]["status"], "ok", code)

    def test_an_update_finds_its_display(self):
        """microsoft/vscode-jupyter 1710 and 12755: empty handles, and several of them."""
        _, out = self.k.run("from IPython.display import display, HTML\na, b = (display(HTML(t), display_id=True) for t in 'ab')\nempty = display(display_id=True)")
        ids = [m["content"]["transient"]["display_id"] for m in out if m["msg_type"] == "display_data"]
        self.assertEqual(len(set(ids)), 3, out)
        _, out = self.k.run("a.update(HTML('A')); b.update(HTML('B')); empty.update(HTML('C'))")
        got = [(m["msg_type"], m["content"]["transient"]["display_id"], m["content"]["data"].get("text/html")) for m in out]
        self.assertEqual(got, [("update_display_data", i, t) for i, t in zip(ids, "ABC")])

    def test_a_clear_says_whether_it_waits(self):
        """sagemathinc/cocalc 3092"""
        _, out = self.k.run("from IPython.display import clear_output\nprint(1)\nclear_output()\nprint(2)\nclear_output(wait=True)")
        got = [(m["msg_type"], m["content"].get("text", m["content"].get("wait"))) for m in out]
        self.assertEqual(got, [("stream", "1\n"), ("clear_output", False), ("stream", "2\n"), ("clear_output", True)])

    def test_a_message_is_json_whatever_its_numbers_are(self):
        """ipython/ipython 2187, nteract/papermill 630: NaN is not JSON, and browsers reject the message."""
        strict = []
        unpack = self.k.kc.session.unpack

        def looks(b):
            strict.append(json.loads(b, parse_constant=lambda c: self.fail(f"{c} in {b[:200]}")))
            return unpack(b)

        self.k.kc.session.unpack = looks
        try:
            reply, out = self.k.run("from IPython.display import display, JSON\nnan, inf = float('nan'), float('inf')\ndisplay({'application/json': {'x': [nan, -inf, 1]}, 'text/plain': 'p'}, raw=True)\ndisplay(JSON({'y': inf}))\ndisplay({'text/plain': 'q'}, metadata={'z': nan}, raw=True)")
        finally:
            self.k.kc.session.unpack = unpack
        self.assertEqual(reply["status"], "ok", reply)
        self.assertEqual(len([m for m in out if m["msg_type"] == "display_data"]), 3, out)
        self.assertGreater(len(strict), 3)

    def test_output_does_not_reach_the_cell_behind_an_interrupt(self):
        """jupyterlab/jupyterlab 4006"""
        for _ in range(3):
            msg_id = self.k.kc.execute("import sys, itertools\nfor i in itertools.count(): print('\\r', i, end='', flush=True, file=sys.stderr)")
            self.k.next("stream", msg_id)
            self.k.km.interrupt_kernel()
            self.assertEqual(self.k.ask(msg_id)["content"]["ename"], "KeyboardInterrupt")
            _, out = self.k.run("print('mine')")
            self.assertEqual(text(out), "mine\n")

    def test_an_error_reply_has_its_error_on_iopub(self):
        """nteract/papermill 337: papermill reports success for a notebook without an error output."""
        for code in ("1/0", "x = = 1", "import sys; sys.exit(3)", "import os; os._exit(0)", "raise BaseException('b')", "raise GeneratorExit"):
            reply, out = self.k.run(code)
            self.assertEqual(reply["status"], "error", code)
            self.assertEqual([m["content"]["ename"] for m in out if m["msg_type"] == "error"], [reply["ename"]], code)
            self.assertIsInstance(reply["traceback"], list)
            self.assertTrue(all(isinstance(line, str) for line in reply["traceback"]))

    def test_silent_code_broadcasts_nothing(self):
        """IRkernel 517: an error of silent code was shown."""
        reply, out = self.k.run("print('heard'); 1/0", silent=True)
        self.assertEqual((reply["status"], reply["ename"]), ("error", "ZeroDivisionError"))
        self.assertEqual([m["msg_type"] for m in out if m["msg_type"] not in ("stream", "error")], [])

    def test_code_is_taken_as_it_is(self):
        """guile-kernel 18, spyder 503: non-ASCII characters in the code, or in its output."""
        for code, want in (("print('\\u2013 Σ ₁')", "– Σ ₁\n"), ("größe = '1–8 Σ'; print(größe)", "1–8 Σ\n"), ("print('a')\r\nprint('b')\r\n", "a\nb\n"), ("\ufeffprint('c')", "c\n"), ("", ""), ("  \n", ""), ("# only words", "")):
            self.assertEqual(self.k.text(code), want, repr(code))

    def test_code_that_is_not_stored_has_no_number(self):
        """denoland/deno 20847: the execution count counts only stored requests."""
        first = self.k.run("1")[0]["execution_count"]
        for code, options in (("'unstored'", {"store_history": False}), ("", {}), (" \n", {}), ("2", {"silent": True})):
            reply, _ = self.k.run(code, **options)
            self.assertEqual(reply["execution_count"], first, code)
        reply, out = self.k.run("'stored'")
        self.assertEqual([reply["execution_count"], out[0]["content"]["execution_count"]], [first + 1] * 2)
        session, line, code = self.k.ask(self.k.kc.history(raw=True, output=False, hist_access_type="tail", n=1))["content"]["history"][0]
        self.assertEqual((line, code), (first + 1, "'stored'"))
        past = self.k.ask(self.k.kc.history(raw=True, output=False, hist_access_type="range", session=session, start=1))["content"]["history"]
        self.assertEqual([h[1] for h in past], list(range(1, first + 2)))
        self.assertNotIn("unstored", str(past))

    def test_each_interpreter_counts_from_one(self):
        """microsoft/vscode-jupyter 7368: the execution count continued after a restart."""
        k = self.kernel()
        self.assertEqual([k.run("1")[0]["execution_count"] for _ in range(3)], [1, 2, 3])
        k.km.restart_kernel()
        k.kc.wait_for_ready(timeout=LIMIT)
        self.assertEqual([k.run("1")[0]["execution_count"] for _ in range(2)], [1, 2])
        k.run("import os; os._exit(0)")
        self.assertEqual(k.run("1")[0]["execution_count"], 1)

    def test_an_expression_that_fails_shows_no_code_of_ours(self):
        reply, _ = self.k.run("", user_expressions={"a": "1/0", "b": "x ="})
        for name, ename in (("a", "ZeroDivisionError"), ("b", "SyntaxError")):
            value = reply["user_expressions"][name]
            self.assertEqual((value["status"], value["ename"]), ("error", ename))
            self.assertNotIn("display", str(value))

    def test_the_indent_is_that_of_the_last_line_with_code(self):
        """As in ipykernel, even if the code ends with a newline."""
        for code, indent in (("with a:\n    for x in y:\n", " " * 8), ("for i in x:", " " * 4), ("if 1:\n  a\n  b", "  "), ("x = (\n", ""), ("class A:\n  def f(self):\n\n", "      ")):
            c = self.k.ask(self.k.kc.is_complete(code))["content"]
            self.assertEqual((c["status"], c["indent"]), ("incomplete", indent), code)

    def test_a_value_may_show_itself(self):
        """_ipython_display_ is used by vega, holoviews, ipywidgets and IPython's own progress bars."""
        _, out = self.k.run(
            "from IPython.display import display, HTML\n"
            "class Shows:\n"
            "    def _ipython_display_(self): print('by itself'); display(HTML('<b>it</b>'))\n"
            "    def _repr_html_(self): return 'not this'\n"
            "    def __repr__(self): return 'nor this'\n"
            "class Declines(Shows):\n"
            "    def _ipython_display_(self): raise NotImplementedError\n"
            "display(Shows())\n"
            "Shows()"
        )
        got = [m["content"].get("text") or m["content"]["data"]["text/html"] for m in out]
        self.assertEqual(got, ["by itself\n", "<b>it</b>"] * 2)
        _, out = self.k.run("Declines()")
        self.assertEqual(out[0]["content"]["data"], {"text/html": "not this", "text/plain": "nor this"})

    def test_a_value_has_all_that_it_offers(self):
        """Other types next to an image, choices among them, and metadata of any name (as scrapbook uses), as in ipykernel."""
        other = self.kernel("python3")
        for code in (
            "import base64\n"
            f"PNG = base64.b64decode('{PIXEL}')\n"
            "class A:\n"
            "    def _repr_png_(self): return PNG, {'width': 3}\n"
            "    def _repr_json_(self): return {'a': 1}, {'expanded': True}\n"
            "    def _repr_latex_(self): return '$a$'\n"
            "    def _repr_html_(self): return '<a>'\n"
            "    def __repr__(self): return 'an A'\n"
            "A()",
            "class B:\n"
            "    def _repr_mimebundle_(self, include=None, exclude=None): return {'text/html': '<b>', 'application/x-b': 'text'}, {'top': {'z': 1}, 'text/html': {'isolated': True}}\n"
            "    def _repr_html_(self): return 'not this'\n"
            "    def _repr_latex_(self): return '$b$'\n"
            "    def __repr__(self): return 'a B'\n"
            "B()",
            "display(A(), metadata={'image/png': {'height': 4}, 'own': {'x': 1}})",
            "display(A(), B(), include=['text/html', 'text/plain'])",
            "display(A(), B(), exclude=['image/png', 'text/html'], metadata={'own': 1})",
            "from IPython.display import display, publish_display_data\ndisplay(A(), B(), include={'text/latex', 'image/png'})",
            "display({'text/plain': 'p'}, raw=True, metadata={'scrapbook': {'name': 'n'}})\npublish_display_data({'text/plain': 'q'}, metadata={'scrapbook': {'name': 'n'}})",
            "h = display(A(), display_id='i', include=['image/png'])\nh.update(B(), include=['text/html'])",
            "class C:\n"
            "    def _repr_pretty_(self, p, cycle):\n"
            "        with p.group(2, 'C(', ')'):\n"
            "            p.pretty([1]); p.text(','); p.breakable(); p.pretty('x')\n"
            "    def __repr__(self): return 'not this'\n"
            "display(C(), [1])\n"
            "C()",
            "from IPython.display import Code, Pretty\ndisplay(Pretty('as it is'))\nCode('x = 1', language='python')",
            "display({'audio/wav': base64.b64encode(b'RIFF').decode(), 'application/x-c': 'ü', 'text/plain': 'c'}, raw=True)",
        ):
            (reply, ours), (_, theirs) = self.k.run(code), other.run(code)
            self.assertEqual(reply["status"], "ok", reply)
            self.assertEqual(*([(m["msg_type"], without_newlines(m["content"]["data"]), m["content"]["metadata"]) for m in out] for out in (ours, theirs)), code)

    def test_arguments_that_a_front_end_appends_do_no_harm(self):
        """jupyter/nbgrader 719, jupyter run: a kernel may get arguments that are meant for other programs."""
        k = self.kernel(start={"extra_arguments": ["file.py", "--HistoryManager.hist_file=:memory:", "--Some.flag", "-x", "", "-"]})
        self.assertEqual(k.text("print(1)"), "1\n")

    def test_a_secret_leaves_no_line(self):
        """microsoft/vscode-jupyter 2460, ipython/ipython 8497: no part of a password is in the cell, not even its newline."""
        asked = self.k.kc.execute("import getpass\nprint(len(getpass.getpass('secret? ')))", allow_stdin=True)
        self.assertTrue(self.k.kc.get_stdin_msg(timeout=LIMIT)["content"]["password"])
        self.k.kc.input("correct horse")
        self.assertEqual(self.k.ask(asked)["content"]["status"], "ok")
        self.assertEqual(text(self.k.outputs(asked)), "13\n")

    def test_a_notebook_has_the_environment_of_its_kernel(self):
        """jupyter/nbclient 115, jupyter/nbconvert 948, deshaw/ksmm 7: the program that starts the kernel sets variables for it."""
        k = self.kernel(start={"env": {**os.environ, "OF_THE_KERNEL": "a b=ö", "TERM": "xterm", "CODEX_API_KEY": "no"}})
        shown = "import os; print([os.environ.get(n) for n in ('OF_THE_KERNEL', 'TERM', 'CODEX_API_KEY')])"
        self.assertEqual(k.text(shown), "['a b=ö', 'dumb', None]\n")
        k.run("import os; os._exit(0)")
        self.assertEqual(k.text(shown), "['a b=ö', 'dumb', None]\n")
        k.km.restart_kernel()
        k.kc.wait_for_ready(timeout=LIMIT)
        self.assertEqual(k.text(shown), "['a b=ö', 'dumb', None]\n")

    def test_a_question_that_an_interrupt_ends_is_over(self):
        """A late answer to an input request of one cell must not go to the next cell."""
        kc = self.k.kc
        first = kc.execute("input('old? ')", allow_stdin=True)
        asked = kc.get_stdin_msg(timeout=LIMIT)
        self.k.km.interrupt_kernel()
        self.assertEqual(self.k.ask(first)["content"]["ename"], "KeyboardInterrupt")
        kc.stdin_channel.send(kc.session.msg("input_reply", {"value": "late"}, parent=asked["header"]))
        second = kc.execute("print(input('new? '))", allow_stdin=True)
        kc.get_stdin_msg(timeout=LIMIT)
        kc.input("right")
        self.assertEqual(self.k.ask(second)["content"]["status"], "ok")
        self.assertEqual(text(self.k.outputs(second)), "right\n")


@unittest.skipUnless("turnstone-r" in KernelSpecManager().find_kernel_specs(), "there is no R")
class R(Case):
    @classmethod
    def setUpClass(cls):
        cls.k = Kernel("turnstone-r")

    @classmethod
    def tearDownClass(cls):
        cls.k.close()

    def test_an_error_that_is_caught_is_shown(self):
        """r-lib/evaluate 28, IRkernel 184: the error report of try() did not appear."""
        for code, want in (
            ("try(stop('e2'))", 'Error in try(stop("e2")) : e2\n'),
            ("try(stop('a')); cat('on\\n')", 'Error in try(stop("a")) : a\non\n'),
            ("cat('before\\n'); try(stop('a')); message('m'); 5", 'before\nError in try(stop("a")) : a\nm\n'),
            ("for (i in 1:2) try(stop(i))", "Error in try(stop(i)) : 1\nError in try(stop(i)) : 2\n"),
        ):
            reply, out = self.k.run(code)
            self.assertEqual((reply["status"], text(out)), ("ok", want), code)
        _, out = self.k.run("f <- function() { warning('w'); stop('s') }; f()")
        self.assertEqual([m["msg_type"] for m in out], ["error", "stream"])
        self.assertEqual(out[0]["content"]["traceback"], ["Error in f() : s"])
        self.assertEqual(text(out), "In addition: Warning message:\nIn f() : w\n")

    def test_the_first_question_is_answered(self):
        """jupyter/jupyter_console 40, spyder-ide/qtconsole 372: code counted as incomplete while the kernel was starting."""
        k = self.kernel("turnstone-r")
        for code, status in (("1 +", "incomplete"), ("1", "complete"), ("}", "invalid")):
            self.assertEqual(k.ask(k.kc.is_complete(code))["content"]["status"], status)

    def test_a_traceback_is_a_list_of_lines(self):
        """IRkernel 261 and 387: one character per line."""
        for code in ("no_such()", "stop('two\\nlines')", "if )", "f <- function() g(); g <- function() stop('deep'); f()"):
            reply, out = self.k.run(code)
            self.assertEqual(reply["status"], "error")
            for lines in (reply["traceback"], [m["content"]["traceback"] for m in out if m["msg_type"] == "error"][0]):
                self.assertIsInstance(lines, list)
                self.assertGreater(max(map(len, lines)), 4, lines)

    def test_what_is_written_past_r_is_shown(self):
        """IRkernel 184 and 338: the output of C code and of children was only in the server's terminal."""
        _, out = self.k.run("system('echo of a child >&2')\nmessage('of a message')\nwrite('of a connection', stderr())\nwarning('of a warning')\nprint(warnings())\nsuppressWarnings(as.integer('x'))")
        for words in ("of a child", "of a message", "of a connection", "of a warning"):
            self.assertIn(words, text(out))

    def test_silent_errors_are_in_the_reply(self):
        """IRkernel 517"""
        reply, _ = self.k.run("stop('quiet')", silent=True)
        self.assertEqual(reply["status"], "error")
        self.assertIn("quiet", reply["evalue"])


if __name__ == "__main__":
    unittest.main()
