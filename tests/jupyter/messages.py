import time
import unittest

import zmq
from kernels import LIMIT, Case, Kernel, eventually, repl, text


class Messages(Case):
    @classmethod
    def setUpClass(cls):
        cls.k = Kernel()

    @classmethod
    def tearDownClass(cls):
        cls.k.close()

    def test_text_of_many_writes_comes_in_few_messages(self):
        began = time.monotonic()
        reply, out = self.k.run("for i in range(20000): print(i)")
        took = time.monotonic() - began
        self.assertEqual(text(out), "".join(f"{i}\n" for i in range(20000)))
        self.assertLess(len(out), 10 + took / 0.1, "text waits 0.1 s for more")

    def test_characters_are_whole(self):
        _, out = self.k.run(
            "import os, time\nfor b in 'äöü€😀'.encode(): os.write(1, bytes([b])); time.sleep(0.03)\n"
        )
        self.assertEqual(text(out), "äöü€😀")
        for m in out:
            self.assertNotIn("\ufffd", m["content"]["text"])

    def test_the_streams_keep_their_order(self):
        _, out = self.k.run(
            "import sys\nfor i in range(5):\n    print(i); print(-i, file=sys.stderr)\nprint('end')"
        )
        names = [m["content"]["name"] for m in out]
        self.assertEqual(names, ["stdout", "stderr"] * 5 + ["stdout"])

    def test_an_error_is_one_message_and_the_reply_has_the_same(self):
        reply, out = self.k.run("def f(): 1/0\nf()")
        self.assertEqual([m["msg_type"] for m in out], ["error"])
        for content in (reply, out[0]["content"]):
            self.assertEqual(content["ename"], "ZeroDivisionError")
            self.assertIn("division by zero", content["evalue"])
            self.assertIn("in f", "\n".join(content["traceback"]))

    def test_a_result_has_its_number_and_is_no_stream(self):
        reply, out = self.k.run("6*7")
        self.assertEqual([m["msg_type"] for m in out], ["execute_result"])
        self.assertEqual(out[0]["content"]["data"]["text/plain"], "42")
        self.assertEqual(out[0]["content"]["execution_count"], reply["execution_count"])

    def test_a_value_is_one_result_however_long_it_takes(self):
        slow = "class Slow:\n    def __repr__(self): return 'slow'\n    def _repr_html_(self): time.sleep(0.8); return '<b>slow</b>'"
        self.k.run("import time\n" + slow)
        for code, types in (("Slow()", ["text/html", "text/plain"]), ("list(range(300000))", ["text/plain"])):
            _, out = self.k.run(code)
            self.assertEqual([(m["msg_type"], sorted(m["content"]["data"])) for m in out], [("execute_result", types)], code)

    def test_displays_are_updated_by_their_id(self):
        _, out = self.k.run(
            "from IPython.display import display, HTML\n"
            "h = display(HTML('<b>1</b>'), display_id=True)\nh.update(HTML('<b>2</b>'))"
        )
        self.assertEqual([m["msg_type"] for m in out], ["display_data", "update_display_data"])
        first, second = (m["content"] for m in out)
        self.assertEqual(first["transient"]["display_id"], second["transient"]["display_id"])
        self.assertEqual(second["data"]["text/html"], "<b>2</b>")

    def test_json_is_json_and_pictures_are_base64(self):
        _, out = self.k.run(
            "from IPython.display import display\n"
            "display({'application/json': {'a': [1]}, 'image/png': b'\\x89PNG\\r\\n', 'text/plain': 'p'}, raw=True)"
        )
        data = out[0]["content"]["data"]
        self.assertEqual(data["application/json"], {"a": [1]})
        self.assertEqual(data["image/png"].strip(), "iVBORw0K")

    def test_local_paths_are_not_sent(self):
        """Notebooks are shared, so the path of a chart's library must not be in their metadata."""
        kind = "application/vnd.plotly.v1+json"
        _, out = self.k.run(
            "from IPython.display import display\n"
            "display({%r: {}, 'text/plain': 'p'}, raw=True, metadata={%r: {'turnstone_library': ['/local'], 'x': 1}})" % (kind, kind)
        )
        self.assertEqual(out[0]["content"]["metadata"], {kind: {"x": 1}})

    def test_input_is_asked_for_and_taken(self):
        for code, secret in (("print(input('n? ') * 2)", False), ("import getpass; print(getpass.getpass('n? ') * 2)", True)):
            msg_id = self.k.kc.execute(code, allow_stdin=True)
            asked = self.k.kc.get_stdin_msg(timeout=LIMIT)
            self.assertEqual(asked["content"], {"prompt": "n? ", "password": secret})
            self.assertEqual(asked["parent_header"]["msg_id"], msg_id)
            self.k.kc.input("ab")
            self.assertEqual(self.k.ask(msg_id)["content"]["status"], "ok")
            self.assertIn("abab\n" if not secret else "ab", text(self.k.outputs(msg_id)) + "ab")

    def test_without_a_front_end_that_answers_input_fails(self):
        reply, out = self.k.run("input('n? ')", allow_stdin=False)
        self.assertEqual(reply["status"], "error")
        self.assertEqual(reply["ename"], "EOFError")
        self.assertIn("does not answer input requests", text(out))
        reply, _ = self.k.run("while True:\n  try: input()\n  except EOFError: pass", allow_stdin=False)
        self.assertEqual(reply["ename"], "KeyboardInterrupt")

    def test_a_late_answer_reaches_no_other_question(self):
        kc = self.k.kc
        first = kc.execute("input('first? ')", allow_stdin=True)
        asked = kc.get_stdin_msg(timeout=LIMIT)
        repl("input", self.k.session, "-e", "by another")
        self.assertEqual(self.k.ask(first)["content"]["status"], "ok")
        second = kc.execute("print(input('second? '))", allow_stdin=True)
        again = kc.get_stdin_msg(timeout=LIMIT)
        for question, value in ((asked, "late"), (again, "right")):
            kc.stdin_channel.send(kc.session.msg("input_reply", {"value": value}, parent=question["header"]))
        self.assertEqual(self.k.ask(second)["content"]["status"], "ok")
        self.assertEqual(text(self.k.outputs(second)), "right\n")

    def test_an_interrupt_is_answered_while_code_runs(self):
        msg_id = self.k.kc.execute("import time\nprint('on', flush=True)\nwhile True: time.sleep(0.01)")
        self.k.next("stream", msg_id)
        self.k.km.interrupt_kernel()
        reply = self.k.ask(msg_id)["content"]
        self.assertEqual((reply["status"], reply["ename"]), ("error", "KeyboardInterrupt"))

    def test_what_waits_after_an_error_is_aborted(self):
        kc = self.k.kc
        ids = [kc.execute(c) for c in ("import time; time.sleep(0.3); ran = 0", "1/0", "ran = 1", "ran = 2")]
        replies = [self.k.ask(i)["content"]["status"] for i in ids]
        self.assertEqual(replies, ["ok", "error", "aborted", "aborted"])
        for i in ids:
            self.k.outputs(i)  # each ends with idle, in order
        self.assertEqual(self.k.run("ran")[1][0]["content"]["data"]["text/plain"], "0")

    def test_without_stop_on_error_the_rest_runs(self):
        kc = self.k.kc
        ids = [kc.execute(c, stop_on_error=False) for c in ("import time; time.sleep(0.2)", "1/0", "2")]
        self.assertEqual([self.k.ask(i)["content"]["status"] for i in ids], ["ok", "error", "ok"])

    def test_silent_code_shows_no_result_and_is_no_history(self):
        before = self.k.run("7")[0]["execution_count"]
        _, out = self.k.run("hidden = 5; hidden", silent=True)
        self.assertEqual(out, [])
        reply, _ = self.k.run("hidden + 1")
        self.assertEqual(reply["execution_count"], before + 1)
        self.assertNotIn("hidden = 5", str(self.history(hist_access_type="tail", n=50)))

    def history(self, **kw):
        kw = {"raw": True, "output": False, **kw}
        return self.k.ask(self.k.kc.history(**kw))["content"]["history"]

    def test_history_finds_what_was_run(self):
        self.k.run("a_b = 1")
        self.k.run("a_c = a_b; a_c")
        self.assertEqual([h[2] for h in self.history(hist_access_type="tail", n=2)], ["a_b = 1", "a_c = a_b; a_c"])
        self.assertEqual(self.history(hist_access_type="tail", n=1, output=True)[0][2], ["a_c = a_b; a_c", "1"])
        self.assertEqual([h[2] for h in self.history(hist_access_type="search", pattern="a_?*1")], ["a_b = 1"])
        session, line, _ = self.history(hist_access_type="tail", n=1)[0]
        found = self.history(hist_access_type="range", session=0, start=line, stop=line + 1)
        self.assertEqual([h[:2] for h in found], [[session, line]])

    def test_expressions_are_evaluated_after_the_code(self):
        reply, _ = self.k.run("z = 3", user_expressions={"good": "z*2", "bad": "no_such"})
        values = reply["user_expressions"]
        self.assertEqual(values["good"]["data"]["text/plain"], "6")
        self.assertEqual((values["bad"]["status"], values["bad"]["ename"]), ("error", "NameError"))

    def test_positions_count_characters(self):
        self.k.run("größe = 'x'")
        code = "'😀'; größe.upp"
        end, c = time.time() + LIMIT, {"matches": []}
        while not c["matches"] and time.time() < end:  # a busy machine may take longer than a query
            c = self.k.ask(self.k.kc.complete(code, len(code)))["content"]
        self.assertEqual([code[: c["cursor_start"]] + m + code[c["cursor_end"] :] for m in c["matches"]][:1], ["'😀'; größe.upper"])
        for at in (-5, 0, 10_000):
            self.assertEqual(self.k.ask(self.k.kc.complete(code, at))["content"]["status"], "ok")

    def test_comms_are_closed(self):
        kc = self.k.kc
        m = kc.session.msg("comm_open", {"comm_id": "c1", "target_name": "w", "data": {}})
        kc.shell_channel.send(m)
        closed = self.k.next("comm_close", m["header"]["msg_id"])
        self.assertEqual(closed["content"]["comm_id"], "c1")
        self.assertEqual(self.k.ask(kc.comm_info())["content"]["comms"], {})

    def test_an_unknown_request_gets_its_statuses(self):
        m = self.k.kc.session.msg("no_such_request", {})
        self.k.kc.shell_channel.send(m)
        self.assertEqual(self.k.outputs(m["header"]["msg_id"]), [])

    def test_a_worker_that_dies_is_told_and_replaced(self):
        reply, out = self.k.run("import os; os._exit(3)")
        self.assertEqual(reply["status"], "error")
        self.assertIn("exit status 3", reply["evalue"])
        self.assertEqual(self.k.run("'z' in globals()")[1][0]["content"]["data"]["text/plain"], "False")

    def test_foreign_and_repeated_messages_are_dropped(self):
        kc, ctx = self.k.kc, zmq.Context.instance()
        stranger = ctx.socket(zmq.DEALER)
        stranger.connect(f"tcp://127.0.0.1:{self.k.km.shell_port}")
        m = kc.session.msg("execute_request", {"code": "stolen = 1", "silent": False})
        frames = kc.session.serialize(m)
        forged = list(frames)
        forged[1] = b"0" * 64
        for f in (forged, [b"x"], [b"<IDS|MSG>"] * 8, [b""], frames[:3], [b"y"] * 40):
            stranger.send_multipart(f)
        self.assertNotIn("stolen", self.k.text("print([n for n in dir() if n == 'stolen'])"))
        counted = kc.session.serialize(kc.session.msg("execute_request", {"code": "n = globals().get('n', 0) + 1", "silent": False}))
        for _ in range(5):
            stranger.send_multipart(counted)
        stranger.recv_multipart()
        self.assertEqual(self.k.text("print(n)"), "1\n")
        stranger.close(0)

    def test_a_subscriber_that_sleeps_costs_nobody_anything(self):
        asleep = zmq.Context.instance().socket(zmq.SUB)
        asleep.setsockopt(zmq.RCVHWM, 1)
        asleep.setsockopt(zmq.SUBSCRIBE, b"")
        asleep.connect(f"tcp://127.0.0.1:{self.k.km.iopub_port}")
        asleep.recv_multipart()
        code = "for i in range(300): print('x' * 100_000)"
        self.assertEqual(len(self.k.text(code)), 300 * 100_001)
        asleep.close(0)


if __name__ == "__main__":
    unittest.main()
