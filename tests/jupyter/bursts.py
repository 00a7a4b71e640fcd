"""Tests of requests that a front end sends before it knows that an earlier one has failed."""

import time
import unittest

from jupyter_client import BlockingKernelClient
from kernels import LIMIT, Case, Kernel


class Bursts(Case):
    @classmethod
    def setUpClass(cls):
        cls.k = Kernel()

    @classmethod
    def tearDownClass(cls):
        cls.k.close()

    def request(self, code, date=None, **content):
        """Returns an execute request that is not sent yet."""
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False, "stop_on_error": True, "user_expressions": {}, **content}
        m = self.k.kc.session.msg("execute_request", content)
        if date is not None:
            m["header"]["date"] = date
        return m

    def send(self, m):
        self.k.kc.shell_channel.send(m)
        return m["header"]["msg_id"]

    def status(self, msg_id):
        return self.k.ask(msg_id)["content"]["status"]

    def value(self, code):
        return self.k.run(code)[1][0]["content"]["data"]["text/plain"]

    def test_what_was_sent_before_the_reply_is_given_up(self):
        """Sends requests some milliseconds apart, as a browser does with Run All."""
        kc = self.k.kc
        for gap in (0, 0.001, 0.003, 0.01, 0.02):
            for _ in range(20):  # repeated until no pause was too long: a busy machine may delay one
                self.k.run("ran = 0")
                ids, times = [kc.execute("1/0")], [time.monotonic()]
                for _ in range(8):
                    time.sleep(gap)
                    ids.append(kc.execute("ran += 1"))
                    times.append(time.monotonic())
                replies = [self.k.ask(i)["content"]["status"] for i in ids]
                for i in ids:
                    self.k.outputs(i)  # each ends with idle, in order
                if max(b - a for a, b in zip(times, times[1:])) < 0.03:
                    break
            self.assertEqual(replies, ["error"] + 8 * ["aborted"], f"gap {gap}")
            self.assertEqual(self.value("ran"), "0", f"gap {gap}")

    def test_who_knows_of_the_error_is_not_given_up(self):
        kc = self.k.kc
        for wait in (self.k.ask, self.k.outputs):  # for the reply, or for the idle on the other channel
            for n in range(20):
                failed = kc.execute("1/0")
                wait(failed)
                after = kc.execute(f"{n}")
                self.assertEqual(self.status(after), "ok", f"{wait.__name__}, try {n}")
                self.k.outputs(after)

    def test_what_was_made_before_the_reply_and_comes_after_it_is_given_up(self):
        failed = self.send(self.request("1/0"))
        late = self.request("ran = 'late'")
        self.assertEqual(self.status(failed), "error")
        self.assertEqual(self.status(self.send(late)), "aborted")
        self.assertEqual(self.status(self.send(self.request("'later'"))), "ok")

    def test_a_clock_that_is_wrong_decides_nothing(self):
        for first, then in (
            (None, "2001-01-01T00:00:00.000Z"),  # the clock was set back
            ("2044-01-01T00:00:00.000Z", None),
            ("2030-01-01T00:00:00.000Z", "2030-01-01T00:00:00.000Z"),  # the clock stands still
            ("2030-01-01T00:00:00.000Z", "2030-01-01T00:01:00.000Z"),  # the clock is ahead, but runs
            ("", ""),
            ("yesterday", "today"),
        ):
            failed = self.send(self.request("1/0", first))
            self.assertEqual(self.status(failed), "error")
            self.assertEqual(self.status(self.send(self.request("1", then))), "ok", f"{first}, {then}")
        failed = self.send(self.request("1/0", "2030-01-01T00:00:00.000Z"))
        self.assertEqual(self.status(failed), "error")
        late = self.request("1", "2030-01-01T00:00:00.001Z")
        self.assertEqual(self.status(self.send(late)), "aborted", "one that is ahead tells how much later a request was made")

    def test_another_client_is_given_up_only_where_it_waited(self):
        other = BlockingKernelClient(connection_file=self.k.km.connection_file)
        other.load_connection_file()
        Kernel.start_client(other)
        self.addCleanup(other.stop_channels)
        failed = self.send(self.request("1/0"))
        self.assertEqual(self.status(failed), "error")
        after = other.execute("2")
        while (m := other.get_shell_msg(timeout=LIMIT))["parent_header"]["msg_id"] != after:
            pass
        self.assertEqual(m["content"]["status"], "ok")

    def test_what_asks_to_go_on_goes_on(self):
        for options in ({"stop_on_error": False}, {"silent": True}):
            ids = [self.send(self.request(code, **(options if code == "1/0" else {}))) for code in ("1/0", "1", "2")]
            self.assertEqual([self.status(i) for i in ids], ["error", "ok", "ok"], str(options))

    def test_other_requests_are_answered(self):
        failed = self.send(self.request("1/0"))
        complete, ran = self.k.kc.complete("impor"), self.send(self.request("1"))
        info = self.k.kc.kernel_info()
        got = {}
        while len(got) < 4:
            m = self.k.kc.get_shell_msg(timeout=LIMIT)
            got[m["parent_header"]["msg_id"]] = m["content"]["status"]
        self.assertEqual([got[i] for i in (failed, complete, ran, info)], ["error", "ok", "aborted", "ok"])

    def test_an_interrupt_that_comes_too_late_strikes_nothing(self):
        failed = self.k.kc.execute("1/0")
        self.k.next("error", failed)
        self.k.km.interrupt_kernel()
        self.assertEqual(self.k.ask(failed)["content"]["ename"], "ZeroDivisionError")
        self.assertEqual(self.k.run("1")[0]["status"], "ok")

    def test_a_client_that_never_stops_sending_gets_its_reply(self):
        kc, began = self.k.kc, time.monotonic()
        ids, done = [kc.execute("1/0")], False
        while not done and time.monotonic() < began + LIMIT:
            ids.append(kc.execute("1"))
            try:
                done = kc.get_shell_msg(timeout=0.01)["parent_header"]["msg_id"] == ids[0]
            except Exception:
                pass
        self.assertTrue(done)
        last = self.k.kc.execute("'last'")
        self.assertEqual(self.status(last), "ok")


if __name__ == "__main__":
    unittest.main()
