"""Tests of Session and AsyncSession with a private supervisor. The environment variable REPL names the built program."""

import asyncio
import base64
import copy
import gc
import json
import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from turnstone_client import AsyncSession, CodeError, Session, TurnstoneError  # noqa: E402

DEADLINE = 60
PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
os.environ["TURNSTONE_REPL"] = os.environ["REPL"]
IMAGE = "class Image:\n  def __init__(self, size): self.size = size\n  def _repr_png_(self): return b'\\x89PNG\\r\\n\\x1a\\n' + bytes(self.size)\n"
STUBBORN = "import time\nwhile True:\n  try:\n    while True: time.sleep(60)\n  except BaseException: pass"
ON_LINUX = unittest.skipUnless(os.path.isdir("/proc/self/fd"), "only Linux lists processes in /proc")


def with_session(test):
    """Turn an asynchronous function of a session of its own into a test."""

    def run(self):
        async def bounded():
            async with AsyncSession() as session:
                await asyncio.wait_for(test(self, session), DEADLINE)

        asyncio.run(bounded())

    run.__name__ = test.__name__
    return run


def is_alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class RunTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.session = Session()

    @classmethod
    def tearDownClass(cls):
        cls.session.close()

    def test_an_incomplete_character_stays_in_its_text(self):
        result = self.session.run("import os; os.write(1, b'x\\xc3')")
        self.assertEqual((result.text, result.value), ("x\ufffd", "2"))

    def test_a_coroutine_function_is_no_callback(self):
        async def show(text):
            pass

        with self.assertRaisesRegex(TypeError, "coroutine"):
            self.session.run("1", on_text=show)

    def test_half_of_a_character_is_refused(self):
        with self.assertRaises(TurnstoneError) as refused:
            self.session.run("'\ud800'")
        self.assertEqual(refused.exception.kind, "invalid_params")

    def test_what_a_worker_says_that_does_not_start_is_in_the_result(self):
        with Session(env={"PYTHONHOME": "/nope"}) as session:
            error = session.run("1").error
        self.assertIn("did not start", error.message)
        self.assertIn("encodings", error.traceback)

    def test_a_value_is_not_text(self):
        result = self.session.run("import sys; print('out'); print('err', file=sys.stderr); 6 * 7")
        self.assertEqual((result.outcome, result.text, result.stderr, result.value, result.ok), ("ok", "out\nerr\n", "err\n", "42", True))
        self.assertEqual((result.error, result.timed_out, result.left_out, result.displays), (None, False, 0, []))
        self.assertIs(result.check(), result)
        self.assertIsNone(self.session.run("None").value)
        self.assertEqual(self.session.run("").text, "")

    def test_an_error_is_data(self):
        result = self.session.run("def f(): 1 / 0\nf()")
        self.assertEqual((result.outcome, result.error.name, result.error.message, result.error.ended, result.text), ("error", "ZeroDivisionError", "division by zero", False, ""))
        self.assertIn("in f", result.error.traceback)
        with self.assertRaises(CodeError) as raised:
            result.check()
        self.assertEqual(str(pickle.loads(pickle.dumps(raised.exception))), "ZeroDivisionError: division by zero")
        self.assertEqual(self.session.run("raise SystemExit(3)").error.name, "SystemExit")

    def test_json_of_689_kb_is_whole(self):
        result = self.session.run("import json; print(json.dumps(list(range(100000))))")
        self.assertEqual((len(result.text), result.json()), (688891, list(range(100000))))
        self.assertEqual(self.session.run("json.dumps({'a': \"it's\"})").json(), {"a": "it's"})
        self.assertEqual(self.session.run("[1, 2]").json(), [1, 2])
        with self.assertRaises(ValueError):
            self.session.run("object()").json()
        with self.assertRaisesRegex(ValueError, "left out"):
            self.session.run("print('[1]' + ' ' * 99)", max_bytes=10).json()

    def test_an_image_of_12_mb_is_whole(self):
        result = self.session.run(IMAGE + "Image(12_000_000)")
        self.assertEqual([len(image) for image in result.images], [12_000_008])
        self.assertEqual((result.left_out_displays, result.displays[0].is_value), (0, True))
        result = self.session.run("for n in range(90): display(Image(n))")
        self.assertEqual([len(image) for image in result.images], list(range(8, 98)))

    def test_what_is_too_much_is_counted(self):
        for size, limit in ((0, 10), (9, 10), (10, 10), (11, 10), (65536, 65535), (65535, 65535), (5_000_000, 1 << 20), (7, 0)):
            result = self.session.run("import sys; n = sys.stdout.write('x' * %d)" % size, max_bytes=limit)
            self.assertEqual((len(result.text), result.left_out), (min(size, limit), max(0, size - limit)))
        result = self.session.run("print('äöü', end='')", max_bytes=3)
        self.assertEqual((result.text, result.left_out), ("ä", 4))
        result = self.session.run("'y' * 100", max_bytes=10)
        self.assertEqual((result.value, result.left_out), ("'yyyyyyyyy", 93))
        result = self.session.run(IMAGE + "for _ in range(3): display(Image(5000))", max_bytes=12000)
        self.assertEqual(([len(image) for image in result.images], result.left_out_displays), ([5008, 5008], 1))
        result = self.session.run("display(Image(10_000_000))", max_bytes=1 << 20)
        self.assertEqual((result.images, result.left_out_displays), ([], 1))

    def test_bytes_and_split_characters_are_text(self):
        pieces = []
        result = self.session.run("import os, time\nfor b in 'ä€😀'.encode(): os.write(1, bytes([b])); time.sleep(0.01)\nos.write(1, b'\\xff'); os.write(1, 'ä'.encode()[:1]); None", on_text=pieces.append)
        self.assertEqual((result.text, "".join(pieces)), ("ä€😀\ufffd\ufffd",) * 2)

    def test_a_display_is_shown_by_a_notebook_and_can_be_saved(self):
        result = self.session.run(IMAGE + "class Table:\n  def _repr_html_(self): return '<b>1</b>'\n  def __repr__(self): return 'one'\ndisplay(Image(2))\nTable()")
        image, table = result.displays
        self.assertEqual(image._repr_mimebundle_()["image/png"], base64.b64encode(result.images[0]).decode())
        self.assertEqual(table._repr_mimebundle_(include=["text/html"]), {"text/html": "<b>1</b>"})
        self.assertEqual(result.value, "one")
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "image.PNG")
            self.assertEqual(image.save(path), "image/png")
            with open(path, "rb") as file:
                self.assertEqual(file.read(), result.images[0])
            for wrong in ("image.svg", "image"):
                with self.assertRaisesRegex(ValueError, "image/png"):
                    image.save(os.path.join(directory, wrong))
            self.assertEqual(os.listdir(directory), ["image.PNG"])

    def test_a_rendered_result_has_a_bound_and_keeps_its_end(self):
        result = self.session.run("print('x' * 100_000); 1 / 0")
        shown = result.render()
        self.assertLessEqual(len(shown), 20_000)
        self.assertRegex(shown, r"\[… \d+ characters left out …\]")
        self.assertIn("ZeroDivisionError", shown)
        for most in (0, 1, 30, 100, 1000):
            self.assertLessEqual(len(result.render(most)), most)
        self.assertEqual(self.session.run("print('a', end=''); 7").render(), "a\n7\n")
        self.assertIn("image/png of 10 bytes", self.session.run(IMAGE + "Image(2)").render())

    def test_text_is_reported_while_the_code_runs(self):
        pieces, errors, shown, mark = [], [], [], []
        code = IMAGE + "import sys, time\nprint('first', flush=True)\nwhile not sys.stdin.readline(): pass\nprint('oops', file=sys.stderr)\ndisplay(Image(3))\n5"
        result = self.session.run(code, on_text=pieces.append, on_stderr=errors.append, on_display=shown.append, answer=lambda request: mark.append(list(pieces)) or "go")
        self.assertEqual(mark, [["first\n"]])
        self.assertEqual(("".join(pieces), "".join(errors), shown), (result.text, result.stderr, result.displays))

    def test_code_that_asks_gets_an_answer_or_an_end_of_file(self):
        asked = []
        self.assertEqual(self.session.run("input('Who? ')", answer=lambda request: asked.append(request) or "Ada").value, "'Ada'")
        self.assertEqual((asked[0]["prompt"], asked[0]["kind"]), ("Who? ", "line"))
        self.assertEqual(self.session.run("input()").error.name, "EOFError")
        self.assertEqual(self.session.run("input()", answer=lambda request: None).error.name, "EOFError")
        self.assertEqual(self.session.run("input() + input()", answer=lambda request: "x\n").value, "'xx'")
        self.assertEqual(self.session.run("import getpass; len(getpass.getpass())", answer=lambda request: "secret" * (request["kind"] == "secret")).value, "6")
        with self.assertRaisesRegex(TypeError, "not str or None"):
            self.session.run("input()", answer=lambda request: 5)
        result = self.session.run("while True:\n  try: input()\n  except EOFError: pass")
        self.assertEqual((result.outcome, len(result.notices)), ("interrupted", 1))

    def test_a_timeout_interrupts_and_the_session_is_free(self):
        self.session.run("import time")
        for _ in range(5):
            result = self.session.run("time.sleep(60)", timeout=0.05)
            self.assertEqual((result.timed_out, result.outcome, result.error.name), (True, "interrupted", "KeyboardInterrupt"))
            self.assertEqual(self.session.run("1", timeout=60).timed_out, False)
        result = self.session.run("try: time.sleep(60)\nexcept KeyboardInterrupt: print('cleaned up')", timeout=0.05)
        self.assertEqual((result.timed_out, result.outcome, result.text), (True, "ok", "cleaned up\n"))
        self.assertTrue(self.session.run("input()", timeout=0.05, answer=lambda request: time.sleep(0.3)).timed_out)
        for wrong in ({"timeout": -1}, {"timeout": float("nan")}, {"grace": -1}, {"max_bytes": -1}):
            with self.assertRaises(ValueError):
                self.session.run("1", **wrong)

    def test_code_that_swallows_interrupts_is_reported_or_reset(self):
        with self.assertRaises(TurnstoneError) as stuck:
            self.session.run(STUBBORN, timeout=0.1, grace=0.2)
        self.assertEqual(stuck.exception.kind, "still_running")
        with self.assertRaises(TurnstoneError) as busy:
            self.session.run("1")
        self.assertEqual(busy.exception.kind, "busy")
        self.session.reset()
        result = self.session.run(STUBBORN, timeout=0.1, grace=0.2, reset_stuck=True)
        self.assertEqual((result.timed_out, result.outcome, result.error.ended), (True, "ended", True))
        self.assertEqual(self.session.run("1").value, "1")

    def test_the_end_of_the_worker_is_an_error_of_the_code(self):
        self.session.run("x = 1")
        for code, why in (("import os; print('bye'); os._exit(3)", "exit status 3"), ("import os; os.kill(os.getpid(), 9)", "SIGKILL")):
            result = self.session.run(code)
            self.assertEqual((result.outcome, result.error.name, result.error.ended), ("ended", "WorkerEnded", True))
            self.assertIn(why, result.error.message)
            following = self.session.run("x")
            self.assertEqual((following.error.name, following.notices), ("NameError", []))
        self.session.run("import os; pid = os.getpid()")
        os.kill(int(self.session.run("pid").value), signal.SIGKILL)
        results = [self.session.run("1") for _ in range(2)]
        self.assertEqual(results[-1].value, "1")
        self.assertTrue(any("variables are lost" in notice for one in results for notice in one.notices) or results[0].error.ended)

    def test_a_function_that_raises_ends_the_code(self):
        def fail(_):
            raise LookupError("mine")

        for options in ({"on_text": fail}, {"on_stderr": fail}, {"on_display": fail}, {"answer": fail}):
            with self.assertRaisesRegex(LookupError, "mine"):
                self.session.run(IMAGE + "import sys\nprint(1); print(2, file=sys.stderr); display(Image(1)); input()\nwhile True: pass", **options)
            self.assertEqual(self.session.run("1").value, "1")
        for error in (StopIteration, KeyboardInterrupt, SystemExit):
            def stop(_, error=error):
                raise error()

            with self.assertRaises(error):
                self.session.run("print(1)\nwhile True: pass", on_text=stop)
            self.assertEqual(self.session.run("1").value, "1")

    def test_a_function_that_blocks_delays_only_its_caller(self):
        pieces = []

        def slow(piece):
            time.sleep(0.2)
            pieces.append(piece)

        result = self.session.run("import time\nfor i in range(20): print(i, flush=True); time.sleep(0.02)\ntime.sleep(60)", on_text=slow, timeout=1)
        self.assertEqual((result.timed_out, "".join(pieces)), (True, result.text))
        self.assertEqual(result.text.split(), [str(i) for i in range(20)])
        self.assertLess(result.duration, 10)

    def test_a_function_cannot_run_code_but_may_make_other_calls(self):
        for call in (lambda _: self.session.run("1"),):
            with self.assertRaises(TurnstoneError) as refused:
                self.session.run("print(1)", on_text=call)
            self.assertEqual(refused.exception.kind, "busy")
        self.assertEqual(self.session.run("print(1)\nwhile True: pass", on_text=lambda _: self.session.interrupt()).outcome, "interrupted")

    def test_calls_of_several_threads_queue(self):
        self.session.run("import time; order = []")
        results = []
        threads = [threading.Thread(target=lambda i=i: results.append(self.session.run("time.sleep(0.01); %d" % i).value)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE)
        self.assertEqual(sorted(results), [str(i) for i in range(8)])

    def test_it_works_inside_a_running_event_loop(self):
        async def inside():
            return self.session.run("'inside'").value

        for _ in range(2):
            self.assertEqual(asyncio.run(inside()), "'inside'")

    def test_ctrl_c_interrupts_the_code(self):
        with self.assertRaises(KeyboardInterrupt):
            self.session.run("print(1)\nwhile True: pass", on_text=lambda _: threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start())
        self.assertEqual(self.session.run("1").value, "1")
        self.session.run("ready = False")
        turn = self.session.start("import time; time.sleep(60)")
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        with self.assertRaises(KeyboardInterrupt):
            self.session.wait(turn)
        self.session.interrupt()
        self.session.wait(turn)

    def test_it_cannot_be_pickled_or_copied(self):
        for refused in (pickle.dumps, copy.copy, copy.deepcopy):
            with self.assertRaisesRegex(TypeError, "belongs to this process"):
                refused(self.session)

    def test_the_other_calls_are_those_of_a_session(self):
        session = self.session
        reply = session.wait(session.start("answered = input('? ')"))
        self.assertEqual(reply["state"], "waiting")
        self.assertEqual(session.answer(reply["input_request"], "yes\n")["outcome"], "ok")
        self.assertIn("answered", [variable["name"] for variable in session.variables()["variables"]])
        self.assertEqual(session.parse("if x:"), "incomplete")
        self.assertEqual(session.info()["name"], session.name)
        self.assertTrue(session.read()["events"])
        events = session.events()
        self.assertEqual(next(events)["seq"], 1)
        events.close()
        self.assertEqual(session.run("1").value, "1")

    def test_the_memory_of_many_runs_is_flat(self):
        import tracemalloc

        for _ in range(100):
            self.session.run("1 + 1")
        tracemalloc.start()
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(1000):
            self.session.run("1 + 1")
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        self.assertLess(grown, 200_000)


class AsyncRunTest(unittest.TestCase):
    @with_session
    async def test_a_cancelled_run_leaves_the_session_free(self, session):
        await session.run("import time, itertools; n = 0")
        chance = random.Random(7)
        for round in range(60):
            run = asyncio.ensure_future(session.run("n += 1; print(n); time.sleep(0.01); n", answer=None))
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
            await asyncio.sleep(chance.random() * 0.03 * (round % 3))
            run.cancel()
            await asyncio.wait([run])
            result = await session.run("print('next'); %d" % round)
            self.assertEqual((result.outcome, result.text, result.value), ("ok", "next\n", str(round)))

    @with_session
    async def test_runs_queue_in_the_order_of_the_calls(self, session):
        await session.run("import time; order = []")
        runs = [asyncio.ensure_future(session.run("time.sleep(0.02); order.append(%d)" % i)) for i in range(6)]
        await asyncio.sleep(0.03)
        runs[3].cancel()
        await asyncio.wait(runs)
        self.assertTrue(runs[3].cancelled())
        self.assertEqual((await session.run("order")).value, "[0, 1, 2, 4, 5]")

    @with_session
    async def test_a_second_cancel_does_not_wait(self, session):
        inside = asyncio.Event()
        run = asyncio.ensure_future(session.run(STUBBORN.replace("while True: time", "print(flush=True)\n    while True: time"), grace=5, on_text=lambda _: inside.set()))
        await inside.wait()
        run.cancel()
        await asyncio.sleep(0.1)
        self.assertFalse(run.done())
        run.cancel()
        done, _ = await asyncio.wait([run], timeout=1)
        self.assertTrue(done)
        await session.reset()
        self.assertEqual((await session.run("1")).value, "1")

    @with_session
    async def test_functions_may_be_coroutines(self, session):
        pieces = []

        async def on_text(piece):
            await asyncio.sleep(0)
            pieces.append(piece)

        async def answer(request):
            await asyncio.sleep(0)
            return request["prompt"]

        self.assertEqual((await session.run("print('a'); input('b')", on_text=on_text, answer=answer)).value, "'b'")
        self.assertEqual("".join(pieces), "a\nb")

        async def never(_):
            await asyncio.Event().wait()

        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(session.run("print('a')", on_text=never), 0.5)
        result = await session.run("input()", answer=never, timeout=0.2)
        self.assertTrue(result.timed_out)

        async def nested(_):
            await session.run("1")

        with self.assertRaises(TurnstoneError) as refused:
            await session.run("print('a')", on_text=nested)
        self.assertEqual(refused.exception.kind, "busy")
        self.assertEqual((await session.run("1")).value, "1")

    @with_session
    async def test_a_run_during_a_reset_and_after_it(self, session):
        running = asyncio.ensure_future(session.run("import time; time.sleep(60)"))
        while (await session.info())["state"] != "running":
            await asyncio.sleep(0.01)
        resetting = asyncio.ensure_future(session.reset())
        next_ones = [asyncio.ensure_future(session.run(str(i))) for i in range(3)]
        self.assertEqual((await running).outcome, "ended")
        await resetting
        self.assertEqual([(await one).value for one in next_ones][-1], "2")

    @with_session
    async def test_a_session_that_is_closed_during_a_run_is_an_error(self, session):
        running = asyncio.ensure_future(session.run("import time; time.sleep(60)"))
        while (await session.info())["state"] != "running":
            await asyncio.sleep(0.01)
        await session._call("session/close", {})
        try:
            self.assertEqual((await running).outcome, "ended")
        except TurnstoneError as error:
            self.assertEqual(error.kind, "no_session")
        with self.assertRaises(TurnstoneError) as gone:
            await session.run("1")
        self.assertEqual(gone.exception.kind, "no_session")

    def test_another_event_loop_is_an_error_and_not_a_hang(self):
        loop = asyncio.new_event_loop()
        session = loop.run_until_complete(AsyncSession().open())
        for call in (session.run, session.start):
            with self.assertRaisesRegex(RuntimeError, "another event loop"):
                asyncio.run(asyncio.wait_for(call("1"), DEADLINE))
        self.assertEqual(loop.run_until_complete(session.run("1")).value, "1")
        loop.run_until_complete(session.close())
        loop.close()

    def test_two_event_loops_have_a_session_each(self):
        async def use():
            async with AsyncSession() as session:
                return (await session.run("6 * 7")).value

        values = []
        threads = [threading.Thread(target=lambda: values.append(asyncio.run(use()))) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE)
        self.assertEqual(values, ["42"] * 3)

    def test_a_session_that_is_not_open_says_so(self):
        with self.assertRaisesRegex(TurnstoneError, "async with"):
            asyncio.run(AsyncSession().run("1"))



class PrivateSupervisorTest(unittest.TestCase):
    def test_options_reach_the_session(self):
        with tempfile.TemporaryDirectory() as directory:
            with Session("python", name="mine", dir=directory, env={"COLOUR": "red"}, author="ada") as session:
                self.assertEqual(session.name, "mine")
                self.assertEqual(session.run("import os; os.path.realpath(os.getcwd()), os.environ['COLOUR']").value, repr((os.path.realpath(directory), "red")))
                self.assertEqual([e["author"] for e in session.read()["events"] if e["type"] == "turn_started"], ["ada"])
        with self.assertRaises(TurnstoneError) as refused:
            Session("cobol")
        self.assertEqual(refused.exception.kind, "unknown_language")
        with self.assertRaisesRegex(TypeError, "one of them"):
            Session(repl="repl", socket=True)

    def test_a_missing_or_foreign_program_is_a_clear_error(self):
        for path, why in (("/no/such/repl", "not a program"), ("/bin/false", "exit status 1"), ("/bin/cat", "did not start|does not answer")):
            with self.assertRaisesRegex(TurnstoneError, why) as refused:
                Session(repl=path)
            self.assertEqual(refused.exception.kind, "unreachable")
        code = "from turnstone_client import Session, TurnstoneError\ntry: Session()\nexcept TurnstoneError as error: print(error)"
        out = subprocess.run([sys.executable, "-S", "-c", code], env={"PATH": "/nowhere", "PYTHONPATH": PACKAGE}, stdout=subprocess.PIPE, universal_newlines=True).stdout
        self.assertIn("turnstone-client[repl]", out)

    def test_code_runs_in_the_interpreter_of_this_program(self):
        with Session() as session:
            result = session.run("import sys; sys.prefix")
            self.assertEqual((result.value, result.notices), (repr(sys.prefix), []))

    def test_an_interpreter_that_does_not_start_is_an_error_of_the_code(self):
        with Session(runtime="/bin/false") as session:
            for _ in range(2):
                result = session.run("1", timeout=DEADLINE)
                self.assertEqual((result.outcome, result.error.ended), ("ended", True))
                self.assertIn("did not start", result.error.message)

    def test_a_session_that_was_closed_says_so(self):
        session = Session()
        session.close()
        session.close()
        for call in (lambda: session.run("1"), session.info):
            with self.assertRaises(TurnstoneError) as closed:
                call()
            self.assertEqual(closed.exception.kind, "no_session")

    @ON_LINUX
    def test_its_death_is_reported(self):
        with Session() as session:
            session.run("1")
            threading.Timer(0.2, os.kill, (session._session.client.pid, signal.SIGKILL)).start()
            kinds = []
            for code in ("import time; time.sleep(60)", "1", "1"):
                with self.assertRaises(TurnstoneError) as lost:
                    session.run(code)
                kinds.append(lost.exception.kind)
            self.assertEqual(kinds, ["lost"] * 3)
            self.assertIn("SIGKILL", str(lost.exception))

    @ON_LINUX
    def test_nothing_is_left_after_it_is_closed_or_forgotten(self):
        session = Session()
        pids = [session._session.client.pid, int(session.run("import os; os.getpid()").value)]
        session.close()
        self.assertEqual([pid for pid in pids if is_alive(pid)], [])
        session = Session()
        pids = [session._session.client.pid, int(session.run("import os; os.getpid()").value)]
        threads = threading.active_count()
        del session
        gc.collect()
        self.wait_for_the_end(pids)
        self.assertLess(threading.active_count(), threads)

    @ON_LINUX
    def test_nothing_is_left_after_the_parent(self):
        ends = {
            "exit": "sys.exit()",
            "exception": "1 / 0",
            "_exit": "os._exit(0)",
            "SIGKILL": "os.kill(os.getpid(), 9)",
            "SIGTERM": "os.kill(os.getpid(), 15)",
            "SIGKILL with a forked child": "if os.fork() == 0: time.sleep(30); os._exit(0)\nos.kill(os.getpid(), 9)",
            "SIGKILL with a multiprocessing child": "import multiprocessing\nmultiprocessing.get_context('fork').Process(target=time.sleep, args=(30,)).start()\nos.kill(os.getpid(), 9)",
        }
        for name, end in ends.items():
            with self.subTest(name):
                code = "import os, sys, time, warnings\nwarnings.simplefilter('ignore')\nfrom turnstone_client import Session\ns = Session()\ns.run('import os, subprocess; child = subprocess.Popen([\"sleep\", \"600\"])')\n"
                code += "print(s._session.client.pid, s.run('os.getpid()').value, s.run('child.pid').value, flush=True)\n" + end
                process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": PACKAGE})
                pids = [int(pid) for pid in process.stdout.readline().split()]
                self.assertEqual(len(pids), 3)
                process.wait(DEADLINE)
                process.stdout.close()
                self.wait_for_the_end(pids)

    def wait_for_the_end(self, pids):
        deadline = time.monotonic() + 20
        while any(is_alive(pid) for pid in pids):
            self.assertLess(time.monotonic(), deadline, "left behind: %s" % [pid for pid in pids if is_alive(pid)])
            time.sleep(0.02)

    @unittest.skipUnless(hasattr(os, "fork"), "needs fork")
    def test_a_forked_child_gets_a_clear_error_and_does_no_harm(self):
        code = """
import os, sys, warnings
warnings.simplefilter("ignore")
from turnstone_client import Session, TurnstoneError
with Session() as s:
    s.run("x = 1")
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        for call in (lambda: s.run("x"), s.info, s.reset):
            try: call()
            except TurnstoneError as error: print(error.kind, "forked" in str(error))
        s.close()
        with Session() as own: print(own.run("6 * 7").value)
        del s
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(pid, 0)
    print(s.run("x").value)
"""
        done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": PACKAGE}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=DEADLINE)
        self.assertEqual(done.stdout.splitlines(), ["unsupported True"] * 3 + ["42", "1"], done.stderr)


if __name__ == "__main__":
    unittest.main()
