"""Helpers of the scripts: a kernel with a client, and the messages that it sends."""

import os
import queue
import subprocess
import time
import unittest

from jupyter_client.manager import KernelManager

REPL = os.environ["JUPYTER_BINARY"]
LIMIT = 60  # seconds for any one wait


def repl(*args, check=True):
    done = subprocess.run([REPL, *args], capture_output=True, text=True, timeout=LIMIT)
    if check and done.returncode:
        raise AssertionError(f"repl {args}: {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


class Kernel:
    """A kernel process and one client of it."""

    def __init__(self, name="turnstone-python", start=None, **kw):
        """Starts the kernel. The arguments in start are for its process, such as cwd and env."""
        self.km = KernelManager(kernel_name=name, **kw)
        self.km.start_kernel(**(start or {}))
        self.kc = self.km.client()
        self.start_client(self.kc)

    @staticmethod
    def start_client(kc):
        kc.start_channels()
        kc.wait_for_ready(timeout=LIMIT)

    def close(self):
        self.kc.stop_channels()
        if self.km.has_kernel:
            self.km.shutdown_kernel()

    @property
    def session(self):
        """Returns the name of the session, from the banner."""
        return self.ask(self.kc.kernel_info())["content"]["banner"].split(" session ")[1].split(",")[0]

    def ask(self, msg_id, channel="shell"):
        get = getattr(self.kc, f"get_{channel}_msg")
        while True:
            m = get(timeout=LIMIT)
            if m["parent_header"].get("msg_id") == msg_id:
                return m

    def next(self, kind=None, parent=None, kc=None):
        """Returns the next message of a type and parent on the iopub channel."""
        while True:
            m = (kc or self.kc).get_iopub_msg(timeout=LIMIT)
            if kind in (None, m["msg_type"]) and parent in (None, m["parent_header"].get("msg_id")):
                return m

    def outputs(self, parent, kc=None):
        """Returns the messages of a request up to its idle, without statuses and execute_input."""
        found = []
        while True:
            m = self.next(parent=parent, kc=kc)
            if m["msg_type"] == "status":
                if m["content"]["execution_state"] == "idle":
                    return found
            elif m["msg_type"] != "execute_input":
                found.append(m)

    def run(self, code, **kw):
        """Runs code, and returns its reply and its outputs."""
        kw.setdefault("allow_stdin", False)
        msg_id = self.kc.execute(code, **kw)
        reply = self.ask(msg_id)["content"]
        return reply, self.outputs(msg_id)

    def text(self, code):
        """Returns the output of code, which must not fail."""
        reply, outputs = self.run(code)
        if reply["status"] != "ok":
            raise AssertionError(f"{code}: {reply}")
        return text(outputs)


def text(outputs):
    return "".join(m["content"]["text"] for m in outputs if m["msg_type"] == "stream")


def eventually(fact):
    end = time.time() + LIMIT
    while not fact():
        if time.time() > end:
            raise AssertionError("it did not come true")
        time.sleep(0.01)


class Case(unittest.TestCase):
    longMessage = True

    def kernel(self, *args, **kw):
        k = Kernel(*args, **kw)
        self.addCleanup(k.close)
        return k
