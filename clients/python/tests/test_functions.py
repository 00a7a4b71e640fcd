"""Tests of functions that a program gives to the code of a session. The environment variable REPL names the built program."""

import asyncio
import dataclasses
import functools
import math
import os
import shutil
import sys
import tempfile
import threading
import time
import unittest
from datetime import datetime, timezone
from typing import Any, Dict, List, Optional

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from turnstone_client import AsyncSession, Function, Session, TurnstoneError, connect, current_call  # noqa: E402
from turnstone_client import schemas, values  # noqa: E402

REPL = os.environ["REPL"]
DEADLINE = 60


def asynchronous(test):
    @functools.wraps(test)
    def run(self):
        asyncio.run(asyncio.wait_for(test(self), DEADLINE))

    return run


async def opened(functions, **options):
    return await AsyncSession(repl=REPL, functions=functions, **options).open()


class Odd:
    pass


def same(value):
    return value


class FunctionsTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        os.environ["XDG_STATE_HOME"] = directory.name

    def test_a_program_without_an_event_loop_gives_functions(self):
        def search(query: str, limit: int = 10) -> List[str]:
            """Search the documents."""
            return [query] * limit

        with Session(repl=REPL, functions={"search": search}) as s:
            self.assertEqual(s.run("from turnstone import search; search('x', limit=2)").value, "['x', 'x']")
            self.assertIn("Search the documents.", s.run("help(search)").text)
            result = s.run("search(1)")
            self.assertEqual((result.error.name, "query is an integer, not string" in result.error.message), ("turnstone.TypeError", True))
            s.set_functions([same])
            self.assertEqual(s.run("import turnstone; turnstone.same(value=(1, 2))").value, "[1, 2]")
            self.assertIn("unknown function search", s.run("search('x')").error.message)

    @asynchronous
    async def test_coroutine_functions_run_in_the_loop_and_others_in_threads(self):
        loop_thread = threading.get_ident()

        async def coroutine():
            await asyncio.sleep(0)
            return threading.get_ident() == loop_thread

        def plain():
            return threading.get_ident() == loop_thread

        class Callable:
            async def __call__(self, x: int):
                return x + 1

        async with await opened({"coroutine": coroutine, "plain": plain, "object": Callable(), "partial": functools.partial(pow, 2, exp=5), "later": lambda: coroutine()}) as s:
            self.assertEqual((await s.run("import turnstone as t; t.coroutine(), t.plain(), t.object(1), t.later()")).value, "(True, False, 2, True)")

    @asynchronous
    async def test_every_value_keeps_its_type(self):
        got = []

        def keep(value: Any) -> Any:
            got.append(value)
            return value

        code = """
import turnstone, math, datetime
cases = [None, True, 0, -1, 2**53, 2**63 - 1, -2**63, 2**64 - 1, 2.0, -0.0, 1e300, "", "é\\n\\"\\x00", b"", bytes(range(256)),
    [], [[1, [2.5]]], {}, {"a": {"b": None}}, {"$bytes": "x"}, {"$object": {"$int": "1"}}, {"$a": 1, "b": 2},
    datetime.datetime(2026, 1, 31, 12, 0, 0, 5, tzinfo=datetime.timezone.utc), float("inf"), float("-inf")]
for case in cases:
    back = turnstone.keep(case)
    assert type(back) is type(case) and repr(back) == repr(case), (case, back)
assert math.isnan(turnstone.keep(math.nan))
"done"
"""
        async with await opened({"keep": keep}) as s:
            result = await s.run(code)
            self.assertEqual((result.error, result.value), (None, "'done'"))
        self.assertEqual(got[7], 2**64 - 1)
        self.assertEqual((type(got[8]), str(got[9]), got[14]), (float, "-0.0", bytes(range(256))))
        self.assertEqual(got[22], datetime(2026, 1, 31, 12, 0, 0, 5, tzinfo=timezone.utc))
        self.assertTrue(math.isnan(got[-1]))

    @asynchronous
    async def test_r_code_calls_them(self):
        if shutil.which("R") is None:
            self.skipTest("needs R")

        def rows(n: int) -> Dict[str, Any]:
            return {"z": list(range(n)), "a": b"\x00\xff"}

        def fails():
            raise KeyError("no such key")

        async with await opened({"rows": rows, "fails": fails}, language="r") as s:
            result = await s.run('x <- turnstone$rows(3); stopifnot(identical(names(x), c("z", "a")), identical(x$a, as.raw(c(0, 255)))); cat(sum(x$z))')
            self.assertEqual((result.error, result.text), (None, "3"))
            result = await s.run('tryCatch(turnstone$fails(), KeyError = function(e) cat("caught", conditionMessage(e)))')
            self.assertIn("caught 'no such key'", result.text)
            result = await s.run('for (i in 1:200) stopifnot(length(turnstone$rows(i)$z) == i); cat("ok")')
            self.assertEqual(result.text, "ok")

    @asynchronous
    async def test_an_exception_is_raised_in_the_code_under_its_name(self):
        class NotFound(Exception):
            pass

        def fails(kind: str):
            raise {"value": ValueError("bad"), "own": NotFound("gone"), "exit": SystemExit(3), "stop": StopIteration("x"), "odd": Exception(b"\xff", "\ud800")}[kind]

        async def quits():
            raise asyncio.CancelledError()

        async with await opened({"fails": fails, "quits": quits, "odd": lambda: {"a": [Odd()]}, "cycle": lambda: (lambda x: x.append(x) or x)([]), "half": lambda: "\ud800", "keys": lambda: {1: 2}, "huge": lambda: 2**64}) as s:
            await s.run("import turnstone\ndef name(f, *a):\n  try: f(*a)\n  except Exception as e: return [c.__name__ for c in type(e).__mro__[:3]], str(e)")
            self.assertEqual((await s.run("name(turnstone.fails, 'value')")).value, "(['ValueError', 'CallError', 'ValueError'], 'bad')")
            self.assertIn("gone", (await s.run("name(turnstone.fails, 'own')")).value)
            for code, want in {
                "name(turnstone.fails, 'exit')": "3",
                "name(turnstone.fails, 'stop')": "StopIteration",
                "name(turnstone.fails, 'odd')": "\\\\ud800",
                "name(turnstone.quits)": "cancelled",
                "name(turnstone.odd)": "a[0]: a value of type Odd cannot be sent",
                "name(turnstone.cycle)": "contains itself",
                "name(turnstone.half)": "surrogates not allowed",
                "name(turnstone.keys)": "the key 1 is not a string",
                "name(turnstone.huge)": "64 bits",
            }.items():
                result = await s.run(code)
                self.assertIn(want, result.value, (code, result))

    def test_a_KeyboardInterrupt_of_a_function_ends_the_call_alone(self):
        def stops():
            raise KeyboardInterrupt

        async def stops_late():
            raise KeyboardInterrupt

        with Session(functions={"stops": stops, "stops_late": stops_late}) as s:
            for name in ("stops", "stops_late"):
                self.assertEqual(s.run("import turnstone; turnstone.%s()" % name, timeout=30).error.message, "KeyboardInterrupt")
            self.assertEqual(s.run("6 * 7").value, "42")

    @asynchronous
    async def test_an_interrupt_cancels_a_coroutine_and_tells_a_thread(self):
        started, cancelled, told = asyncio.Event(), asyncio.Event(), threading.Event()
        loop = asyncio.get_running_loop()

        async def hang():
            started.set()
            try:
                await asyncio.sleep(600)
            finally:
                cancelled.set()

        def block():
            call = current_call()
            assert (call.session, call.function) == (s.name, "block")
            loop.call_soon_threadsafe(started.set)
            if call.cancelled.wait(DEADLINE):
                told.set()
            return "late"

        async with await opened({"hang": hang, "block": block}) as s:
            for name in ("hang", "block"):
                started.clear()
                turn = await s.start("import turnstone; turnstone.%s()" % name)
                await started.wait()
                await s.interrupt(turn)
                self.assertEqual((await s.wait(turn))["outcome"], "interrupted")
            await cancelled.wait()
            self.assertTrue(await loop.run_in_executor(None, told.wait, DEADLINE))
            result = await s.run("turnstone.hang()", timeout=0.2)
            self.assertEqual((result.timed_out, result.outcome), (True, "interrupted"))
            self.assertEqual((await s.run("1 + 1")).value, "2")

    @asynchronous
    async def test_many_threads_call_at_once(self):
        async def coroutine(i: int):
            await asyncio.sleep(0.001 * (i % 3))
            return i

        code = """
import turnstone, threading
wrong = []
def loop(n):
    for i in range(20):
        if turnstone.coroutine(n * 100 + i) != n * 100 + i or turnstone.plain(value=[n, i]) != [n, i]: wrong.append((n, i))
threads = [threading.Thread(target=loop, args=(n,)) for n in range(32)]
for t in threads: t.start()
for t in threads: t.join()
wrong
"""
        async with await opened({"coroutine": coroutine, "plain": same}) as s:
            self.assertEqual((await s.run(code)).value, "[]")
            result = await s.run("import asyncio\nasync def all(): return await asyncio.gather(*[turnstone.coroutine.async_(i) for i in range(300)])\nasyncio.run(all()) == list(range(300))")
            self.assertEqual((result.error, result.value), (None, "True"))

    @asynchronous
    async def test_large_arguments_and_results_arrive_whole(self):
        async with await opened({"same": same, "size": lambda data: len(data)}) as s:
            await s.run("import turnstone")
            for code, want in {
                "turnstone.size(bytes(32 * 2**20 - 64))": str(32 * 2**20 - 64),
                "x = 'é\"' * 5_000_000; turnstone.same(value=x) == x": "True",
                "x = list(range(300_000)); turnstone.same(value=x) == x": "True",
                "x = bytes(range(256)) * 120_000; turnstone.same(value=x) == x": "True",
            }.items():
                result = await s.run(code)
                self.assertEqual((result.error, result.value), (None, want), code)
            result = await s.run("turnstone.size(bytes(33 * 2**20))")
            self.assertIn("argument", result.error.message)

    @asynchronous
    async def test_a_function_cannot_run_code_in_the_session_that_waits_for_it(self):
        async def within():
            return (await s.run("1")).value

        def in_a_thread():
            return threaded.run("1").value

        async with await opened({"within": within}) as s:
            result = await s.run("import turnstone; turnstone.within()")
            self.assertIn("waits for the function within", result.error.message)
        threaded = await asyncio.get_running_loop().run_in_executor(None, lambda: Session(repl=REPL, functions={"f": in_a_thread}))
        try:
            result = await asyncio.get_running_loop().run_in_executor(None, lambda: threaded.run("import turnstone; turnstone.f()"))
            self.assertIn("waits for the function f", result.error.message)
        finally:
            await asyncio.get_running_loop().run_in_executor(None, threaded.close)

    @asynchronous
    async def test_a_function_that_never_answers_does_not_keep_the_session_from_closing(self):
        release = threading.Event()
        called = threading.Event()

        def block():
            called.set()
            release.wait(DEADLINE)

        s = await opened({"block": block})
        turn = await s.start("import turnstone; turnstone.block()")
        await asyncio.get_running_loop().run_in_executor(None, called.wait, DEADLINE)
        begun = time.monotonic()
        await s.interrupt(turn)
        await s.wait(turn)
        await s.close()
        release.set()
        self.assertLess(time.monotonic() - begun, 20)

    @asynchronous
    async def test_calls_of_a_client_that_is_gone_fail_and_name_it(self):
        import subprocess

        with tempfile.TemporaryDirectory() as directory:
            socket = os.path.join(directory, "d.sock")
            daemon = subprocess.Popen([REPL, "serve", "--socket", socket, "--quiet"], stderr=subprocess.DEVNULL)
            try:
                while True:
                    try:
                        giver = await connect(socket, author="ada")
                        break
                    except TurnstoneError:
                        await asyncio.sleep(0.02)
                other = await connect(socket)
                session = await giver.create("main", language="python")
                called = asyncio.Event()

                async def hang():
                    called.set()
                    await asyncio.sleep(600)

                await session.set_functions({"hang": hang})
                with self.assertRaises(TurnstoneError) as refused:
                    await other.session("main").set_functions({"hang": hang})
                self.assertEqual(refused.exception.kind, "exists")
                self.assertEqual([f["author"] for f in (await other.call("function/list", {"session": "main"}))["functions"]], ["ada"])

                turn = await other.session("main").start("import turnstone; turnstone.hang()")
                await called.wait()
                giver._connection._writer.transport.abort()  # the connection breaks; the client connects again
                reply = await other.session("main").wait(turn)
                end = [e for e in reply["events"] if e["type"] == "turn_ended"][0]
                self.assertEqual((end["name"], "ada" in end["message"], "disconnected during the call" in end["message"]), ("turnstone.ConnectionError", True, True))
                while (await other.call("function/list", {"session": "main"}))["functions"][0].get("gone"):
                    await asyncio.sleep(0.02)
                await session.set_functions({"hang": same})
                self.assertEqual((await other.session("main").run("turnstone.hang(value=5)")).value, "5")

                await giver.close()
                result = await other.session("main").run("turnstone.hang(value=5)")
                while result.error is None:  # the daemon has not seen the end
                    result = await other.session("main").run("turnstone.hang(value=5)")
                self.assertEqual((result.error.name, "has disconnected" in result.error.message), ("turnstone.ConnectionError", True))
                await other.close()
            finally:
                daemon.terminate()
                daemon.wait()

    @asynchronous
    async def test_a_thousand_calls_leave_few_threads(self):
        async with await opened({"same": same}) as s:
            result = await s.run("import turnstone\nfor i in range(1000): turnstone.same(value=i)")
            self.assertIsNone(result.error)
        self.assertLess(sum(t.name == "turnstone-function" for t in threading.enumerate()), 10)


class DescriptionTest(unittest.TestCase):
    def test_a_signature_becomes_a_schema(self):
        def f(a: str, b: "Optional[int]" = None, *, c: List[float] = (), d: Any = Odd, e=3, **more):  # noqa: B006
            pass

        schema = schemas.schema_of_parameters(f)
        self.assertEqual(schema["required"], ["a"])
        self.assertTrue(schema["additionalProperties"])
        self.assertEqual(schema["properties"]["a"], {"type": "string"})
        self.assertEqual(schema["properties"]["b"], {"type": ["integer", "null"], "default": None})
        self.assertEqual(schema["properties"]["c"]["items"], {"type": "number"})
        self.assertEqual((schema["properties"]["d"], schema["properties"]["e"]), ({}, {"default": 3}))

    def test_a_callable_that_code_cannot_call_by_name_is_refused(self):
        for one, want in ((lambda *a: 0, "parameter a"), (math.sqrt, "by name"), (5, "cannot be called"), (dict, "signature")):
            with self.assertRaises(TypeError) as refused:
                Function(one)
            self.assertIn(want, str(refused.exception))

    def test_an_explicit_schema_is_for_tools_of_frameworks(self):
        tool = Function(lambda arguments: arguments, description="d", parameters={"type": "object", "properties": {"x": {"type": "integer"}}}, unpack=False)
        self.assertEqual(tool.start({"x": 1}), {"x": 1})

    def test_dataclasses_and_arrays_are_values(self):
        @dataclasses.dataclass
        class Point:
            x: int
            y: float

        self.assertEqual(values.encode([Point(1, 2.0)]), '[{"x":1,"y":2.0}]')

    def test_a_time_is_read_exactly(self):
        for text, want in (("2026-01-31T12:00:00Z", 0), ("2026-01-31T13:00:00.5+01:00", 500000), ("2026-01-31T12:00:00.123456789Z", 123456)):
            self.assertEqual(values.decode({"$time": text}), datetime(2026, 1, 31, 12, 0, 0, want, timezone.utc))


if __name__ == "__main__":
    unittest.main()
