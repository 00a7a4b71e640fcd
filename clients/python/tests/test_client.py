"""Tests of the client against a real daemon. The environment variable REPL names the built program."""

import asyncio
import hashlib
import hmac
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from turnstone_client import TurnstoneError, connect, default_socket, discovery, text  # noqa: E402

REPL = os.environ["REPL"]
SCHEMA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "docs", "daemon.schema.json")
DEADLINE = 60


class Daemon:
    """A daemon that belongs to one test."""

    def __init__(self, directory):
        self.socket = os.path.join(directory, "daemon.sock")
        os.environ["XDG_STATE_HOME"] = directory  # the client looks for the daemon's key there
        self.start()

    def start(self):
        self.process = subprocess.Popen([REPL, "serve", "--socket", self.socket, "--quiet"], stderr=subprocess.PIPE)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=DEADLINE)


async def connect_when_ready(daemon, **options):
    """Connect as soon as the daemon accepts connections."""
    while True:
        try:
            return await connect(daemon.socket, **options)
        except TurnstoneError as error:
            if error.kind != "unreachable" or daemon.process.poll() is not None:
                raise
        await asyncio.sleep(0.02)


def with_daemon(test):
    """Turn an asynchronous function of a client and its daemon into a test."""

    def run(self):
        async def bounded(daemon):
            async with await connect_when_ready(daemon, author="ada", reconnect_timeout=2) as client:
                await asyncio.wait_for(test(self, client, daemon), DEADLINE)

        with tempfile.TemporaryDirectory() as directory:
            daemon = Daemon(directory)
            try:
                asyncio.run(bounded(daemon))
            finally:
                daemon.stop()

    run.__name__ = test.__name__
    return run


class ClientTest(unittest.TestCase):
    @with_daemon
    async def test_a_session_keeps_its_variables(self, client, daemon):
        session = await client.create("main", language="python")
        await session.run("x = 41")
        result = await session.run("print(x + 1)")
        self.assertEqual((result.outcome, result.text), ("ok", "42\n"))
        self.assertEqual([s["name"] for s in await client.list()], ["main"])
        self.assertEqual((await (await client.open("main")).info())["turn"], 2)

    @with_daemon
    async def test_an_existing_session_must_be_as_asked_for(self, client, daemon):
        await client.create("main", language="python", limits={"turn_ms": 60000})
        self.assertEqual((await client.open("main")).language, "python")
        self.assertEqual((await client.open("main", language="python", limits={"turn_ms": 60000})).name, "main")
        for other in ({"language": "r"}, {"sandbox": "read-only"}, {"limits": {"turn_ms": 1000}}):
            with self.assertRaises(TurnstoneError) as differs:
                await client.open("main", **other)
            self.assertEqual(differs.exception.kind, "differs", other)
        with self.assertRaisesRegex(TurnstoneError, "need a sandbox"):
            await client.open("new", network="none")

    @with_daemon
    async def test_code_that_asks_gets_its_answer(self, client, daemon):
        session = await client.create()
        reply = await session.wait(await session.start("print('hi ' + input('Who? '))"))
        self.assertEqual((reply["state"], reply["input_request"]["prompt"]), ("waiting", "Who? "))
        with self.assertRaises(TurnstoneError) as refused:
            await session.run("1")
        self.assertEqual((refused.exception.kind, refused.exception.data["input_request"]["id"]), ("waiting", reply["input_request"]["id"]))
        reply = await session.answer(reply["input_request"], "Ada\n")
        self.assertIn("hi Ada", text(reply["events"]))

    @with_daemon
    async def test_keys_reach_a_program_at_the_terminal(self, client, daemon):
        session = await client.create("main", language="python")
        await session.run("import os")
        for call in (session.type("x<Enter>"), session.screen()):
            with self.assertRaises(TurnstoneError) as caught:
                await call
            self.assertEqual(caught.exception.kind, "stale")
        reply = await session.wait(await session.start("os.system('echo name?; read a; echo got $a; read a; echo ${#a} bytes; read a; echo and $a')"))
        self.assertEqual((reply["state"], reply["input_request"]["terminal"]), ("waiting", True))
        self.assertEqual((await session.screen())["lines"][:1], ["name?"])
        with self.assertRaises(TurnstoneError) as caught:
            await session.type("<Nope>")
        self.assertEqual(caught.exception.kind, "invalid_params")
        turn = await session.type("yes<Enter>")
        self.assertEqual(turn, reply["turn"])
        await session.wait(turn)
        await session.type("hunter2<Enter>", secret=True)
        await session.wait(turn)
        await session.type(bytes=b"1 2\r")
        reply = await session.wait(turn)
        self.assertEqual((reply["outcome"], text(reply["events"])), ("ok", "name?\ngot yes\n7 bytes\nand 1 2\n0\n"))
        typed = [(e.get("text"), e.get("secret"), e["author"]) for e in reply["events"] if e["type"] == "input_line" and e.get("keys")]
        self.assertEqual(typed[:2], [("yes<Enter>", None, "ada"), (None, True, "ada")])

    @with_daemon
    async def test_a_cancelled_task_interrupts_its_turn(self, client, daemon):
        session = await client.create()
        await session.run("import time")
        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(session.run("while True: time.sleep(0.01)"), 1)
        reply = await session.wait(2)
        self.assertEqual(reply["outcome"], "interrupted")

    @with_daemon
    async def test_after_a_cancelled_call_the_next_input_is_taken(self, client, daemon):
        session = await client.create(language="python")
        await session.run("import time")
        for _ in range(5):
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(session.run("time.sleep(60)"), 0.2)
            self.assertEqual((await session.run("1")).outcome, "ok")
        asking = await session.wait(await session.start("input('? '); time.sleep(60)"))
        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(session.answer(asking["input_request"], "x\n"), 0.2)
        self.assertEqual((await session.run("1")).outcome, "ok")
        # The call waits for code that ignores the interrupt, but not forever.
        start = time.monotonic()
        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(session.run("while True:\n  try: time.sleep(60)\n  except BaseException: pass", grace=1), 0.2)
        self.assertLess(time.monotonic() - start, 30)
        with self.assertRaises(TurnstoneError) as refused:
            await session.run("1")
        self.assertEqual(refused.exception.kind, "busy")

    @with_daemon
    async def test_a_reply_is_complete(self, client, daemon):
        session = await client.create(language="python")
        reply = await self.replied(session, "import json; print(json.dumps(list(range(100000))))")
        self.assertEqual(json.loads(text(reply["events"])), list(range(100000)))
        reply = await self.replied(session, "for i in range(100000): print(i)")
        self.assertEqual([int(line) for line in text(reply["events"]).split()], list(range(100000)))
        turn = await session.start("for i in range(100000): print(i)")
        self.assertEqual(len(text((await session.wait(turn))["events"]).split()), 100000)
        asking = await self.replied(session, "input(); print('x' * 500000)")
        reply = await session.answer(asking["input_request"], "\n")
        self.assertEqual(text(reply["events"]).count("x"), 500000)
        # Images, one of which is larger than the inline data of a page.
        image = (
            "class P:\n"
            "  def __init__(self, n): self.n = n\n"
            "  def _repr_png_(self): return b'\\x89PNG\\r\\n\\x1a\\n' + bytes([self.n]) * (3_000_000 if self.n == 50 else 20_000)\n"
        )
        reply = await self.replied(session, image + "for n in range(90): display(P(n))")
        shown = [event for event in reply["events"] if event["type"] == "display"]
        self.assertEqual([len(event["data"]["image/png"]["base64"]) for event in shown], [4_000_012 if n == 50 else 26680 for n in range(90)])
        self.assertFalse([event for event in shown if "omitted" in event])

    @with_daemon
    async def test_text_reports_missing_output(self, client, daemon):
        session = await client.create(language="python")
        reply = await self.replied(session, "for _ in range(70): print('x' * 999999)")  # more than a reply contains
        with self.assertRaises(TurnstoneError) as cut:
            text(reply["events"])
        self.assertEqual(cut.exception.kind, "incomplete")
        self.assertIn("<cut>", text(reply["events"], missing="<cut>"))
        gapped = [{"type": "gap", "seq": 3, "from": 1, "to": 3, "bytes": 9}, {"type": "text", "seq": 4, "text": "end"}]
        self.assertRaises(TurnstoneError, text, gapped)
        self.assertEqual(text(gapped, missing="…"), "…end")
        halves = [{"type": "text", "data": "w6TD"}, {"type": "text", "stream": "stderr", "text": "!"}, {"type": "text", "data": "tg=="}]
        self.assertEqual(text(halves), "ä!ö")

    @with_daemon
    async def test_the_end_of_a_worker_says_why(self, client, daemon):
        session = await client.create(language="python")
        for code, why in (("import os; os._exit(3)", "exit status 3"), ("import os; os.kill(os.getpid(), 9)", "SIGKILL")):
            reply = await self.replied(session, code)
            ended = [event for event in reply["events"] if event["type"] == "turn_ended"]
            self.assertIn(why, ended[0]["message"])
        for params in ({"dir": "/no/such/dir"}, {"limits": {"memory": 5}}, {"sandbox": "workspace", "network": "list", "hosts": ["a b"]}, {"runtime": "/no/such/python"}):
            with self.assertRaises(TurnstoneError) as refused:
                await client.create(language="python", **params)
            self.assertEqual(refused.exception.kind, "invalid_spec", params)

    @with_daemon
    async def test_a_timeout_leaves_the_turn_running(self, client, daemon):
        session = await client.create()
        await session.run("import time")
        reply = await session.wait(await session.start("while True: time.sleep(0.01)"), timeout=0.2)
        self.assertEqual(reply["state"], "running")
        self.assertIn(await session.interrupt(reply["turn"]), ("idle", "pending"))

    @with_daemon
    async def test_events_are_complete_and_live(self, client, daemon):
        session = await client.create()
        await session.run("print('before')")
        seen = []
        async for event in session.events():
            seen.append(event)
            if event["type"] == "turn_ended" and event["turn"] == 1:
                await session.start("print('after')")
            if event["type"] == "turn_ended" and event["turn"] == 2:
                break
        self.assertEqual([e["seq"] for e in seen], list(range(1, len(seen) + 1)))
        self.assertEqual(text(seen), "before\nafter\n")
        self.assertEqual([e["author"] for e in seen if e["type"] == "turn_started"], ["ada", "ada"])

    @with_daemon
    async def test_events_continue_after_a_lost_connection(self, client, daemon):
        session = await client.create()
        await session.run("print('one')")
        seen = []
        async for event in session.events():
            seen.append(event)
            if event["type"] == "turn_ended" and event["turn"] == 1:
                client._connection._writer.transport.abort()
                other = await connect_when_ready(daemon)
                await other.session(session.name).run("print('two')")
                await other.close()
            if event["type"] == "turn_ended" and event["turn"] == 2:
                break
        self.assertEqual([e["seq"] for e in seen], list(range(1, len(seen) + 1)))
        self.assertEqual(text(seen), "one\ntwo\n")

    @with_daemon
    async def test_after_a_cancelled_reset_the_next_input_is_taken(self, client, daemon):
        session = await client.create(language="python")
        await session.run("import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN)")
        for _ in range(3):
            await session.start("while True: time.sleep(60)")
            resetting = asyncio.ensure_future(session.reset())
            await asyncio.sleep(0.02)
            if resetting.cancel():
                with self.assertRaises(asyncio.CancelledError):
                    await resetting
            else:  # on a busy machine it is over already
                await resetting
            self.assertEqual((await session.run("import time; 1")).outcome, "ok")
        closing = asyncio.ensure_future(session.close())
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # the request is on its way
        closing.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await closing
        self.assertEqual(await client.list(), [])

    @with_daemon
    async def test_a_reader_of_events_ends_with_its_client(self, client, daemon):
        session = await client.create(language="python")
        await session.run("1")
        other = await connect_when_ready(daemon)
        there = asyncio.Event()

        async def read():
            async for event in other.session(session.name).events():
                if event["type"] == "turn_ended":
                    there.set()

        reading = asyncio.ensure_future(read())
        await there.wait()
        await other.close()
        with self.assertRaises(TurnstoneError) as ended:
            await reading
        self.assertEqual(ended.exception.kind, "unreachable")

    @with_daemon
    async def test_an_error_raised_by_the_callers_function_ends_only_its_call(self, client, daemon):
        session = await client.create(language="python")
        with self.assertRaises(ZeroDivisionError):
            await session.wait(await session.start("import time; time.sleep(60)"), progress=lambda *_: 1 / 0)
        await session.interrupt()
        self.assertEqual((await session.run("1", timeout=float("inf"))).outcome, "ok")

    @with_daemon
    async def test_events_of_a_slow_reader_are_all_there(self, client, daemon):
        session = await client.create()
        seen = 0
        await session.start("for k in range(30000): print(k)")
        with unittest.mock.patch("turnstone_client.connection.MAX_QUEUED", 10_000):
            async for event in session.events():
                if event["type"] == "text":
                    seen += event.get("text", "").count("\n")
                if event["type"] == "turn_ended":
                    break
                if event["seq"] % 20 == 0:
                    await asyncio.sleep(0.01)
        self.assertEqual(seen, 30000)

    @with_daemon
    async def test_an_abandoned_stream_is_unsubscribed(self, client, daemon):
        session = await client.create(language="python")
        await session.start("import time\nwhile True: print(0); time.sleep(0.001)")
        for _ in range(100):  # more than a connection may have
            events = session.events()
            async for event in events:
                if event["type"] == "text":
                    break
            await events.aclose()
        self.assertEqual(client._connection.streams, {})
        await session.interrupt()

    @with_daemon
    async def test_a_stream_cancelled_before_its_answer_is_unsubscribed(self, client, daemon):
        session = await client.create("main", language="python")
        await session.wait(await session.start("1"))
        for _ in range(20):
            first = asyncio.ensure_future(session.events().__anext__())
            await asyncio.sleep(0)
            await asyncio.sleep(0)  # the request is on its way
            first.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await first
        while (await session.info())["watchers"] or client._connection.streams:
            await asyncio.sleep(0.01)

    @with_daemon
    async def test_params_that_cannot_be_sent_are_an_error(self, client, daemon):
        session = await client.create(language="python")
        for call in (session.run("'\ud800'"), client.call("session/list", {"x": float("nan")})):
            with self.assertRaises(TurnstoneError) as refused:
                await asyncio.wait_for(call, 10)
            self.assertEqual(refused.exception.kind, "invalid_params")
        self.assertEqual((await session.run("'\U0001f600'")).value, "'\U0001f600'")

    @with_daemon
    async def test_code_that_is_not_a_string_is_refused(self, client, daemon):
        session = await client.create()
        for call in (session.run(None), session.run(5), session.start(None)):
            with self.assertRaises(TypeError):
                await call

    def test_a_client_in_another_event_loop_is_an_error_and_not_a_hang(self):
        with tempfile.TemporaryDirectory() as directory:
            daemon = Daemon(directory)
            loop = asyncio.new_event_loop()
            try:
                client = loop.run_until_complete(connect_when_ready(daemon))
                for call in (client.list, client.close):
                    with self.assertRaisesRegex(RuntimeError, "another event loop"):
                        asyncio.run(asyncio.wait_for(call(), DEADLINE))
                self.assertEqual(loop.run_until_complete(client.list()), [])
                loop.run_until_complete(client.close())
            finally:
                loop.close()
                daemon.stop()
            asyncio.run(asyncio.wait_for(client.close(), DEADLINE))  # its loop is closed, and so is its connection

    def test_an_error_goes_through_pickle(self):
        error = pickle.loads(pickle.dumps(TurnstoneError("busy", "turn 1 runs", {"turn": 1})))
        self.assertEqual((type(error), error.kind, str(error), error.data), (TurnstoneError, "busy", "turn 1 runs", {"turn": 1}))

    @with_daemon
    async def test_the_queue_of_a_reader_that_does_not_read_is_bounded(self, client, daemon):
        session = await client.create()
        events = session.events()
        await events.__anext__()
        await client.call("turn/start", {"session": session.name, "input": "for k in range(200000): print(k, 'x' * 100)", "wait_ms": 1000 * DEADLINE})
        await client.info()  # everything sent before it has been read
        (stream,) = client._connection.streams.values()
        self.assertLess(stream.bytes, 7 << 20)
        seen = 0
        async for event in events:
            if event["type"] == "text":
                seen += event["text"].count("\n")
            if event["type"] == "turn_ended":
                break
        await events.aclose()
        self.assertEqual(seen, 200000)
        self.assertEqual(client._connection.streams, {})

    @with_daemon
    async def test_events_end_with_the_session(self, client, daemon):
        session = await client.create()
        await session.run("1")
        kinds = []
        async for event in session.events():
            kinds.append(event["type"])
            if event["type"] == "turn_ended":
                await session.close()
        self.assertIn("turn_ended", kinds)

    @with_daemon
    async def test_a_call_to_a_daemon_that_has_exited_fails_with_a_clear_error(self, client, daemon):
        session = await client.create()
        running = asyncio.ensure_future(session.run("import time; time.sleep(600)"))
        while (await session.info())["state"] != "running":
            await asyncio.sleep(0.01)
        daemon.process.kill()
        for call, kind in ((running, "outcome_unknown"), (client.info(), "unreachable")):
            with self.assertRaises(TurnstoneError) as gone:
                await call
            self.assertEqual(gone.exception.kind, kind)

    def test_a_missing_daemon_is_an_error_that_says_what_to_do(self):
        with tempfile.TemporaryDirectory() as directory:
            with self.assertRaisesRegex(TurnstoneError, "repl serve"):
                asyncio.run(connect(os.path.join(directory, "none.sock")))

    @with_daemon
    async def test_text_that_is_not_ascii_is_counted_in_characters(self, client, daemon):
        session = await client.create(language="python")
        await session.run("größe = 'ü'")
        result = await session.complete("'ä'; größe.uppe")
        whole = ["'ä'; größe.uppe"[: result["start"]] + match for match in result["matches"]]
        self.assertTrue(any(one.startswith("'ä'; größe.upper") for one in whole), result)
        self.assertEqual(await session.parse("if 'ö':"), "incomplete")

    @with_daemon
    async def test_params_named_like_keywords_have_an_underscore(self, client, daemon):
        session = await client.create(language="python", packages=[])
        await session.run("print('one')\nprint('two')")
        lines = (await session.output(from_=1, to=100))["lines"]
        self.assertTrue(any(line["text"] == "two" for line in lines), lines)

    @with_daemon
    async def test_the_daemon_sends_what_the_schema_says(self, client, daemon):
        with open(SCHEMA) as file:
            schema = json.load(file)
        session = await client.create("main", language="python")
        sent = [("Session", await session.info()), ("Daemon", await client.info())]
        sent.append(("Reply", await self.replied(session, "import sys; print(1); print(2, file=sys.stderr); 1 / 0")))
        reply = await self.replied(session, "input('? ')")
        sent += [("Reply", reply), ("InputRequest", reply["input_request"]), ("Reply", await session.answer(reply["input_request"], "x\n"))]
        sent += [("Variables", await self.answered(session.variables)), ("EventPage", await session.read()), ("TurnSummaries", await client.call("timeline/outline", {"session": "main"}))]
        sent += [("Completion", await session.complete("sys.ver")), ("Output", await session.output(grep="1")), ("ClientList", await client.call("connection/list"))]
        for name, value in sent:
            self.conforms(schema, {"$ref": "#/$defs/" + name}, value, name)

    async def replied(self, session, code):
        """Run code and return its reply at the end, or when it asks for input."""
        return await session.wait(await session.start(code))

    async def answered(self, query):
        """Repeat a query until it has an answer: a busy machine may time out."""
        for left in reversed(range(200)):
            try:
                return await query()
            except TurnstoneError as error:
                if error.kind != "no_answer" or not left:
                    raise

    def conforms(self, schema, form, value, at):
        if "$ref" in form:
            form = schema["$defs"][form["$ref"].rsplit("/", 1)[1]]
        if "enum" in form:
            self.assertIn(value, form["enum"], at)
        if "properties" in form:
            self.assertIsInstance(value, dict, at)
            for key, inner in value.items():
                self.assertIn(key, form["properties"], at)
                self.conforms(schema, form["properties"][key], inner, at + "." + key)
            for key in form["required"]:
                self.assertIn(key, value, at)
        elif form.get("type") == "array":
            self.assertIsInstance(value, list, at)
            for number, inner in enumerate(value):
                self.conforms(schema, form["items"], inner, "%s[%d]" % (at, number))
        elif "type" in form:
            types = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "object": dict}
            self.assertIsInstance(value, types[form["type"]], at)

    def test_the_daemon_is_found_from_another_login(self):
        with tempfile.TemporaryDirectory() as directory:
            run, state, tmp, other = (os.path.join(directory, name) for name in ("run", "state", "tmp", "other"))
            for made in (run, state, tmp, other):
                os.mkdir(made, 0o700)
            login = {"XDG_RUNTIME_DIR": run, "XDG_STATE_HOME": state, "TMPDIR": tmp, "TURNSTONE_SOCKET": ""}
            socket = os.path.join(run, "turnstone", "daemon.sock")
            with unittest.mock.patch.dict(os.environ, login):
                self.assertEqual(default_socket(), socket)  # where a new daemon would listen
                daemon = subprocess.Popen([REPL, "serve", "--quiet"], stderr=subprocess.PIPE)
            with unittest.mock.patch.dict(os.environ, {**login, "XDG_RUNTIME_DIR": "", "TMPDIR": other}):
                self.eventually(lambda: default_socket() == socket)
                asyncio.run(self.answers())
                daemon.kill()
                daemon.communicate(timeout=DEADLINE)
                self.assertNotEqual(default_socket(), socket)  # the note of a dead daemon is not trusted

    def test_a_note_that_leads_to_no_daemon_is_skipped(self):
        with tempfile.TemporaryDirectory() as directory:
            run, state, tmp = (os.path.join(directory, name) for name in ("run", "state", "tmp"))
            own = os.path.join(tmp, "turnstone-%d" % os.getuid())
            for made in (run, state, tmp, own):
                os.mkdir(made, 0o700)
            socket = os.path.join(run, "turnstone", "daemon.sock")
            with unittest.mock.patch.dict(os.environ, {"XDG_RUNTIME_DIR": run, "XDG_STATE_HOME": state, "TMPDIR": tmp, "TURNSTONE_SOCKET": ""}):
                self.note(own, os.path.join(tmp, "none"))  # as a session could write it
                self.assertEqual(default_socket(), socket)  # where a new daemon would listen
                daemon = subprocess.Popen([REPL, "serve", "--quiet"], stderr=subprocess.PIPE)
                self.eventually(lambda: discovery._answers(socket))
                self.note(os.path.join(state, "turnstone"), os.path.join(tmp, "none"))
                self.assertEqual(default_socket(), socket)
                daemon.kill()
                daemon.communicate(timeout=DEADLINE)

    def note(self, directory, socket):
        """Write a note that names this process as the daemon."""
        path = os.path.join(directory, "daemon-%s.json" % discovery._host_id())
        with open(path + ".new", "w") as file:
            json.dump({"pid": os.getpid(), "start_ticks": discovery._start_ticks(os.getpid()), "socket": socket}, file)
        os.chmod(path + ".new", 0o600)
        os.rename(path + ".new", path)

    @with_daemon
    async def test_nothing_is_sent_to_a_program_that_proves_nothing(self, client, daemon):
        directory = os.path.dirname(daemon.socket)
        impostor, relay = os.path.join(directory, "impostor.sock"), os.path.join(directory, "relay.sock")
        got, ended = [], asyncio.Event()

        async def claims_to_be_ours(reader, writer):
            got.append(await reader.readline())
            writer.write(json.dumps({"ok": True, "data": {"mac": "0" * 64, "address": impostor, "client": "1@"}}).encode() + b"\n")
            got.append(await reader.read())
            ended.set()
            writer.close()

        async with await asyncio.start_unix_server(claims_to_be_ours, impostor):
            with self.assertRaises(TurnstoneError) as caught:
                await connect(impostor)
            await ended.wait()
        self.assertEqual(caught.exception.kind, "unreachable")
        self.assertIn("does not prove that it is your daemon, so nothing is sent to it: it does not have your key", str(caught.exception))
        self.assertEqual((json.loads(got[0])["type"], got[1:]), ("prove", [b""]))

        os.link(daemon.socket, relay)  # the daemon itself, at another address
        with self.assertRaises(TurnstoneError) as caught:
            await connect(relay)
        self.assertIn("your daemon at " + os.path.realpath(daemon.socket), str(caught.exception))
        os.remove(relay)
        key = os.path.join(directory, "turnstone", "daemon.key")

        async def relayed(reader, writer):
            """Answer as the daemon would, which sees the process that forwards the challenge."""
            nonce = json.loads(await reader.readline())["nonce"]
            with open(key) as file:
                secret = bytes.fromhex(file.read())
            signed = "\n".join(("turnstone daemon 1", nonce, "1@1", os.path.realpath(relay)))
            mac = hmac.new(secret, signed.encode(), hashlib.sha256).hexdigest()
            writer.write(json.dumps({"ok": True, "data": {"mac": mac, "address": os.path.realpath(relay), "client": "1@1"}}).encode() + b"\n")
            await reader.read()
            writer.close()

        async with await asyncio.start_unix_server(relayed, relay):
            with self.assertRaises(TurnstoneError) as caught:
                await connect(relay)
        self.assertIn("a program in between", str(caught.exception))

        os.chmod(key, 0o644)
        with self.assertRaises(TurnstoneError) as caught:
            await connect(daemon.socket)
        self.assertIn(key, str(caught.exception))
        os.chmod(key, 0o600)

    async def answers(self):
        async with await connect() as client:
            self.assertEqual(await client.list(), [])

    def test_a_path_that_is_too_long_for_a_socket_is_left_out(self):
        with tempfile.TemporaryDirectory() as directory:
            long = os.path.join(directory, "d" * 120)
            os.mkdir(long, 0o700)
            with unittest.mock.patch.dict(os.environ, {"XDG_RUNTIME_DIR": long, "XDG_STATE_HOME": long, "TMPDIR": directory, "TURNSTONE_SOCKET": ""}):
                self.assertEqual(default_socket(), os.path.join(directory, "turnstone-%d" % os.getuid(), "daemon.sock"))

    def eventually(self, holds):
        deadline = time.monotonic() + DEADLINE
        while not holds():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)


if __name__ == "__main__":
    unittest.main()
