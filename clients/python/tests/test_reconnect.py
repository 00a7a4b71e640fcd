"""Tests of a client that loses its daemon or its connection. The environment variable REPL names the built program."""

import asyncio
import os
import signal
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from test_client import DEADLINE, Daemon, connect_when_ready, with_daemon  # noqa: E402
from turnstone_client import AsyncSession, Session, TurnstoneError, connect, wire  # noqa: E402


def cut(client):
    """Break the connection of a client."""
    client._connection._writer.transport.abort()


class LostConnectionTest(unittest.TestCase):
    @with_daemon
    async def test_calls_go_on_and_code_runs_once(self, client, daemon):
        session = await client.create("main", language="python")
        await session.run("import time; n = 0")
        for round in range(1, 21):
            run = asyncio.ensure_future(session.run("n += 1; print(n); time.sleep(0.02); n"))
            await asyncio.sleep(0.003 * (round % 7))
            cut(client)
            result = await run
            self.assertEqual((result.outcome, result.text, result.value), ("ok", "%d\n" % round, str(round)))
        self.assertEqual([s["name"] for s in await client.list()], ["main"])

    @with_daemon
    async def test_another_protocol_is_named_with_the_older_side(self, client, daemon):
        own = wire.PROTOCOL
        for other, age, advice in ((own + 1, "older", "; end the daemon"), (own - 1, "newer", "; upgrade this client, or end the daemon")):
            wire.PROTOCOL = other
            try:
                with self.assertRaises(TurnstoneError) as caught:
                    await connect(daemon.socket)
            finally:
                wire.PROTOCOL = own
            self.assertEqual(caught.exception.kind, "protocol")
            self.assertIn(" is %s than this client: version " % age, str(caught.exception))
            self.assertIn(" speaks protocol %d, and this client speaks %d%s" % (own, other, advice), str(caught.exception))

    @with_daemon
    async def test_waits_answers_and_keys_go_on(self, client, daemon):
        session = await client.create("main", language="python")
        turn = await session.start("import time; time.sleep(0.3); name = input('? '); print(name)")
        waiting = asyncio.ensure_future(session.wait(turn))
        await asyncio.sleep(0.05)
        cut(client)
        reply = await waiting
        self.assertEqual(reply["state"], "waiting")
        answering = asyncio.ensure_future(session.answer(reply["input_request"], "Ada\n"))
        await asyncio.sleep(0)
        cut(client)
        self.assertEqual((await answering)["outcome"], "ok")
        created = asyncio.ensure_future(client.create("other", language="python"))
        await asyncio.sleep(0.001)
        cut(client)
        self.assertEqual((await created).name, "other")
        self.assertEqual(len(await client.list()), 2)

    @with_daemon
    async def test_output_is_whole_over_many_cuts(self, client, daemon):
        session = await client.create("main", language="python")
        run = asyncio.ensure_future(session.run("import time\nfor i in range(3000):\n  print(i)\n  if i % 100 == 0: time.sleep(0.02)"))
        for _ in range(10):
            await asyncio.sleep(0.05)
            cut(client)
        self.assertEqual((await run).text.split(), [str(i) for i in range(3000)])

    @with_daemon
    async def test_the_write_lock_is_kept(self, client, daemon):
        session = await client.create("main", language="python")
        await client.call("write_lock/take", {"session": "main", "author": "ada", "long": True})
        cut(client)
        self.assertEqual((await session.run("1")).value, "1")
        self.assertEqual((await session.info())["write_lock_holder"], "ada")

    @with_daemon
    async def test_a_closed_client_does_not_come_back(self, client, daemon):
        other = await connect_when_ready(daemon)
        session = await other.create("main", language="python")
        run = asyncio.ensure_future(session.run("import time; time.sleep(60)"))
        await asyncio.sleep(0.1)
        await other.close()
        for call in (run, other.list()):
            with self.assertRaises(TurnstoneError) as gone:
                await call
            self.assertEqual(gone.exception.kind, "unreachable")

    @with_daemon
    async def test_many_sessions_share_a_connection(self, client, daemon):
        sessions = [await client.create(language="python") for _ in range(40)]  # more than subscriptions are kept
        for _ in range(2):
            for number, session in enumerate(sessions):
                self.assertEqual((await session.run(str(number))).value, str(number))
        self.assertLessEqual(len(client._connection.streams), 33)


class RestartedDaemonTest(unittest.TestCase):
    def restart(self, daemon, how=signal.SIGKILL):
        daemon.process.send_signal(how)
        daemon.process.communicate(timeout=DEADLINE)
        daemon.start()

    def test_reads_go_on_and_nothing_else_is_repeated(self):
        async def use(daemon):
            async with await connect_when_ready(daemon) as client:
                session = await client.create("main", language="python")
                await session.run("x = 1")
                waiting = asyncio.ensure_future(session.run("import time; time.sleep(60)"))
                while (await session.info())["state"] != "running":
                    await asyncio.sleep(0.01)
                self.restart(daemon)
                self.assertEqual(await client.list(), [])
                with self.assertRaises(TurnstoneError) as lost:
                    await waiting
                self.assertEqual(lost.exception.kind, "outcome_unknown")
                other = await client.create("main", language="python")  # of the same name
                self.assertEqual((await other.run("1")).value, "1")
                for call in (session.run("x"), session.start("x"), session.info(), session.events().__anext__()):
                    with self.assertRaises(TurnstoneError) as gone:
                        await call
                    self.assertEqual(gone.exception.kind, "no_session")
                    self.assertIn("restarted", str(gone.exception))
                self.assertEqual([s["name"] for s in await client.list()], ["main"])

        self.with_own_daemon(use)

    def test_a_change_under_way_is_of_unknown_outcome(self):
        async def use(daemon):
            async with await connect_when_ready(daemon) as client:
                session = await client.create("main", language="python")
                await session.run("import time")
                running = asyncio.ensure_future(client.call("turn/start", {"session": "main", "input": "time.sleep(60)", "wait_ms": 60000}))
                while (await session.info())["state"] != "running":
                    await asyncio.sleep(0.01)
                self.restart(daemon)
                with self.assertRaises(TurnstoneError) as unknown:
                    await running
                self.assertEqual(unknown.exception.kind, "outcome_unknown")

        self.with_own_daemon(use)

    def test_a_daemon_that_stays_away_is_unreachable_after_a_while(self):
        async def use(daemon):
            client = await connect(daemon.socket, reconnect_timeout=0.5)
            daemon.process.kill()
            with self.assertRaises(TurnstoneError) as gone:
                await asyncio.wait_for(client.list(), 20)
            self.assertEqual(gone.exception.kind, "unreachable")
            daemon.process.communicate()
            daemon.start()
            while True:  # a later call tries again
                try:
                    self.assertEqual(await client.list(), [])
                    break
                except TurnstoneError:
                    await asyncio.sleep(0.05)
            await client.close()

        self.with_own_daemon(use)

    def with_own_daemon(self, use):
        async def bounded(daemon):
            async with await connect_when_ready(daemon):
                pass
            await asyncio.wait_for(use(daemon), DEADLINE)

        with tempfile.TemporaryDirectory() as directory:
            daemon = Daemon(directory)
            try:
                asyncio.run(bounded(daemon))
            finally:
                daemon.stop()


class UsersDaemonTest(unittest.TestCase):
    @with_daemon
    async def test_a_session_with_a_name_goes_on_and_one_without_is_closed(self, client, daemon):
        async with AsyncSession(socket=daemon.socket) as session:
            self.assertEqual((await session.run("6 * 7")).value, "42")
        self.assertEqual(await client.list(), [])
        async with AsyncSession(name="main", socket=daemon.socket, author="ada") as session:
            await session.run("x = 1")
        async with AsyncSession(name="main", socket=daemon.socket) as session:
            self.assertEqual((await session.run("x")).value, "1")
            self.assertEqual((await session.info())["dir"], os.getcwd())
            await session.close()
        self.assertEqual(await client.list(), [])
        async with await client.create() as session:
            await session.run("1")
        self.assertEqual(await client.list(), [])

    @with_daemon
    async def test_true_is_the_daemon_of_the_user(self, client, daemon):
        os.environ["TURNSTONE_SOCKET"] = daemon.socket
        try:
            def use():
                with Session(socket=True, name="shared") as session:
                    return session.run("6 * 7").value

            self.assertEqual(await asyncio.get_running_loop().run_in_executor(None, use), "42")
        finally:
            del os.environ["TURNSTONE_SOCKET"]
        self.assertEqual([s["name"] for s in await client.list()], ["shared"])

    @with_daemon
    async def test_code_of_another_client_is_refused_or_waited_for(self, client, daemon):
        first = await client.create("main", language="python")
        other = await connect_when_ready(daemon)
        second = other.session("main")
        running = asyncio.ensure_future(first.run("import time; time.sleep(0.5); print('first')"))
        while (await second.info())["state"] != "running":
            await asyncio.sleep(0.01)
        with self.assertRaises(TurnstoneError) as busy:
            await second.run("1")
        self.assertEqual(busy.exception.kind, "busy")
        result = await running
        self.assertEqual(result.text, "first\n")
        self.assertEqual((await second.run("print('second')")).text, "second\n")
        self.assertEqual((await first.run("print('third')")).text, "third\n")
        await other.close()

    @with_daemon
    async def test_queued_code_runs_in_the_order_of_the_calls(self, client, daemon):
        first = await client.create("main", language="python")
        gate = daemon.socket + "-gate"
        await first.run("import os, time; order = []")
        others = [await connect_when_ready(daemon) for _ in range(4)]
        running = asyncio.ensure_future(first.run("while not os.path.exists(%r): time.sleep(0.01)" % gate))
        while (await first.info())["state"] != "running":
            await asyncio.sleep(0.01)

        async def queued(n):
            while (await first.info()).get("queued_inputs", 0) != n:
                await asyncio.sleep(0.01)

        runs = []
        for number, other in enumerate(others):
            runs.append(asyncio.ensure_future(other.session("main").run("order.append(%d)" % number, queue=True, timeout=1)))
            await queued(number + 1)
        runs[2].cancel()  # it leaves the queue
        await queued(3)
        await asyncio.sleep(1.1)  # the time in the queue does not count
        open(gate, "w").close()
        await asyncio.wait(runs)
        self.assertTrue(runs[2].cancelled())
        self.assertEqual([run.result().outcome for run in runs if run is not runs[2]], ["ok"] * 3)
        self.assertEqual((await running).outcome, "ok")
        self.assertEqual((await first.run("order")).value, "[0, 1, 3]")
        for other in others:
            await other.close()

    @with_daemon
    async def test_output_of_other_clients_is_not_in_a_result(self, client, daemon):
        session = await client.create("main", language="python")
        self.assertEqual((await session.run("1")).value, "1")
        other = await connect_when_ready(daemon)
        turn = await other.session("main").start("for i in range(200000): print(i, 'x' * 50)")
        await other.call("turn/wait", {"session": "main", "turn": turn, "wait_ms": 1000 * DEADLINE})
        result = await session.run("print('mine')")
        self.assertEqual((result.text, result.left_out), ("mine\n", 0))
        await other.close()


if __name__ == "__main__":
    unittest.main()
