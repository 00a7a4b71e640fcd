import os
import signal
import threading
import unittest

from jupyter_client.manager import KernelManager
from kernels import LIMIT, Case, Kernel, eventually, repl, text


def sessions():
    return repl("list", check=False)


class Faults(Case):
    def test_a_kernel_that_is_killed_leaves_its_session_and_the_next_one_finds_it(self):
        k = self.kernel()
        k.run("kept = 41")
        name = k.session
        os.kill(k.km.provisioner.pid, signal.SIGKILL)
        eventually(lambda: not k.km.is_alive())
        self.assertIn(name, sessions())
        k.kc.stop_channels()
        k.km.start_kernel()  # by the same connection file
        k.kc = k.km.client()
        k.start_client(k.kc)
        self.assertEqual(k.session, name)
        self.assertEqual(k.text("print(kept + 1)"), "42\n")
        history = k.ask(k.kc.history(hist_access_type="tail", n=9, raw=True, output=False))["content"]["history"]
        self.assertIn("kept = 41", [h[2] for h in history])

    def test_a_shutdown_ends_the_session_and_a_restart_resets_it(self):
        k = self.kernel()
        name = k.session
        k.run("gone = 1")
        k.km.restart_kernel()
        k.kc.wait_for_ready(timeout=LIMIT)
        self.assertEqual(k.session, name)
        self.assertEqual(k.text("print('gone' in globals())"), "False\n")
        k.kc.stop_channels()
        k.km.shutdown_kernel()
        self.assertNotIn(name, sessions())

    def test_two_notebooks_and_an_agent_share_a_session(self):
        repl("jupyter", "install", "--session", "shared", "--lang", "python")
        one, two = self.kernel("turnstone-shared"), self.kernel("turnstone-shared")
        one.run("v = 1")
        self.assertEqual(two.text("print(v)"), "1\n")
        self.assertEqual(repl("exec", "shared", "-e", "v += 1; print('agent', v)"), "agent 2\n")
        self.assertEqual(one.text("print(v)"), "2\n")
        seen = two.next("stream", None)
        while "agent" not in seen["content"]["text"]:
            seen = two.next("stream", None)
        self.assertRegex(seen["parent_header"]["msg_id"], r"^turn-\d+$")
        self.assertIn("exec", seen["parent_header"]["username"])
        one.kc.stop_channels()
        one.km.shutdown_kernel()
        self.assertIn("shared", sessions())
        self.assertEqual(two.text("print(v)"), "2\n")

    def test_a_cell_waits_for_the_agent_and_says_so_once(self):
        repl("jupyter", "install", "--session", "busy", "--lang", "python")
        k = self.kernel("turnstone-busy")
        k.run("import os")
        gate = os.path.join(os.environ["HOME"], "gate")
        agent = threading.Thread(
            target=repl, args=("exec", "busy", "-e", f"import time\nwhile not os.path.exists({gate!r}): time.sleep(0.01)")
        )
        agent.start()
        while "gate" not in k.next("execute_input")["content"]["code"]:
            pass
        waiting, queued = k.kc.execute("1"), k.kc.execute("2")
        said = k.next("stream", waiting)["content"]
        self.assertRegex(said["text"], r"^\[waiting for .* \(exec\)'s turn \d+\]\n$")
        self.assertEqual(said["name"], "stderr")
        k.ask(k.kc.kernel_info())  # answered while both cells wait, so both have arrived
        k.km.interrupt_kernel()  # cancels the cells that wait, but not the agent's turn
        self.assertEqual(k.ask(waiting)["content"]["status"], "error")
        self.assertEqual(k.ask(queued)["content"]["status"], "aborted")
        last = k.kc.execute("print('mine')")
        k.next("stream", last)
        open(gate, "w").close()
        agent.join(LIMIT)
        self.assertFalse(agent.is_alive())
        self.assertEqual(k.ask(last)["content"]["status"], "ok")
        self.assertEqual(text(k.outputs(last)), "mine\n")

    def test_a_worker_that_ends_between_cells_is_told_by_the_next_cell_which_does_not_run(self):
        k = self.kernel()
        pid = int(k.text("import os; print(os.getpid())"))
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: "ended" in repl("list"))
        reply, out = k.run("open('deployed', 'w')")
        self.assertEqual((reply["status"], reply["ename"]), ("error", "NotExecuted"))
        self.assertIn("its variables are gone: killed by SIGKILL", reply["evalue"])
        self.assertEqual([m["content"]["evalue"] for m in out if m["msg_type"] == "error"], [reply["evalue"]])
        self.assertEqual(k.text("import os; print(os.path.exists('deployed'))"), "False\n")

    def test_a_session_that_ends_between_cells_is_told_by_the_next_cell_which_does_not_run(self):
        k = self.kernel()
        name = k.session
        k.run("x = 1")
        repl("close", name)
        reply, _ = k.run("print('deploying')")
        self.assertEqual((reply["status"], reply["ename"]), ("error", "NotExecuted"))
        self.assertIn("its variables are gone", reply["evalue"])
        self.assertEqual(k.text("print('x' in globals())"), "False\n")

    def test_an_agent_whose_code_ends_the_worker_is_told_by_the_next_cell(self):
        repl("jupyter", "install", "--session", "ends", "--lang", "python")
        k = self.kernel("turnstone-ends")
        k.run("x = 1")
        repl("exec", "ends", "-e", "import os; os._exit(3)", check=False)
        self.assertIn("its variables are gone: exit status 3", k.run("x")[0]["evalue"])
        self.assertEqual(k.text("print('x' in globals())"), "False\n")

    def test_a_reset_by_somebody_else_is_told_by_the_next_cell(self):
        repl("jupyter", "install", "--session", "again", "--lang", "python")
        k = self.kernel("turnstone-again")
        k.run("x = 1")
        repl("reset", "again")
        reply, out = k.run("print('x' in globals())")
        self.assertEqual(reply["status"], "ok")
        self.assertEqual([(m["content"]["name"], m["content"]["text"]) for m in out], [("stderr", "[the worker has ended, and its variables are gone: reset]\n"), ("stdout", "False\n")])

    def test_a_daemon_that_ends_takes_the_cell_with_it_and_the_next_cell_works(self):
        k = self.kernel()
        msg_id = k.kc.execute("lost = 1\nprint('on', flush=True)\nimport time; time.sleep(600)")
        k.next("stream", msg_id)
        repl("daemon", "stop")
        reply = k.ask(msg_id)["content"]
        self.assertEqual(reply["status"], "error")
        self.assertIn("ended", reply["evalue"])
        k.outputs(msg_id)
        self.assertEqual(k.text("print('lost' in globals())"), "False\n")

    def test_a_late_subscriber_gets_the_rest_of_a_turn(self):
        k = self.kernel()
        gate = os.path.join(os.environ["HOME"], "gate2")
        msg_id = k.kc.execute(f"import os, time\nprint('a', flush=True)\nwhile not os.path.exists({gate!r}): time.sleep(0.01)\nprint('b')")
        k.next("stream", msg_id)
        late = k.km.client()
        late.session = late.session.clone()
        late.session.session = "late"
        late.start_channels()
        self.addCleanup(late.stop_channels)
        while late.get_iopub_msg(timeout=LIMIT)["msg_type"] != "iopub_welcome":
            pass
        open(gate, "w").close()
        self.assertIn("b\n", text(k.outputs(msg_id, kc=late)))

    def test_a_signal_interrupts_as_the_message_does(self):
        k = self.kernel()
        msg_id = k.kc.execute("print('on', flush=True)\nimport time; time.sleep(600)")
        k.next("stream", msg_id)
        os.kill(k.km.provisioner.pid, signal.SIGINT)
        self.assertEqual(k.ask(msg_id)["content"]["ename"], "KeyboardInterrupt")


if __name__ == "__main__":
    unittest.main()
