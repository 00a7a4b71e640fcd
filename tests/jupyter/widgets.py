"""Compares the comms of widgets with those of ipykernel, and tests how they end and what bounds them."""

import itertools
import sys
import unittest

from kernels import LIMIT, Case, Kernel, eventually, repl, text

BOX = (
    "import ipywidgets\nfrom IPython.display import display\n"
    "bar = ipywidgets.IntProgress(max=100)\nbox = ipywidgets.HBox([ipywidgets.Label('work'), bar])\ndisplay(box)\n"
    "for i in range(100): bar.value = i + 1\n"
)
TQDM = "from tqdm.notebook import tqdm\nfor i in tqdm(range(200), desc='work', mininterval=0): pass\n"
SLIDER = "import ipywidgets\nipywidgets.FloatSlider(value=0.5, max=2)"
INTERACT = "from ipywidgets import interact\ndef show(n): print('n is', n)\n_ = interact(show, n=(0, 9))"
COMMS = ("comm_open", "comm_msg", "comm_close")
VIEW = "application/vnd.jupyter.widget-view+json"


def of_type(out, *kinds):
    return [m for m in out if m["msg_type"] in kinds]


def order(out):
    """Returns the types of messages. Updates are merged: those before the display come after it, and several count as one."""
    kinds = [m["msg_type"] for m in out if m["msg_type"] != "stream"]
    shown = min(kinds.index(kind) for kind in ("display_data", "execute_result") if kind in kinds)
    kinds[:shown] = (kind for kind in kinds[:shown] if kind != "comm_msg")
    return [kind for kind, _ in itertools.groupby(kinds)]


def states(out):
    """Returns the last state of each comm, by the order in which they were opened."""
    found = {}
    for m in of_type(out, "comm_open", "comm_msg"):
        found.setdefault(m["content"]["comm_id"], {}).update(m["content"]["data"]["state"])
    names = {name: f"comm {i}" for i, name in enumerate(found)}

    def plain(value):
        if isinstance(value, str) and value.startswith("IPY_MODEL_"):
            return names[value.removeprefix("IPY_MODEL_")]
        return [plain(one) for one in value] if isinstance(value, list) else value

    return [{key: plain(value) for key, value in state.items()} for state in found.values()]


class Widgets(Case):
    @classmethod
    def setUpClass(cls):
        cls.k, cls.other = Kernel(), Kernel("python3")

    @classmethod
    def tearDownClass(cls):
        cls.k.close()
        cls.other.close()

    def test_the_messages_are_those_of_ipykernel(self):
        for name, code in {"box": BOX, "slider": SLIDER, "interact": INTERACT, "tqdm": TQDM}.items():
            with self.subTest(name):
                (_, ours), (_, theirs) = self.k.run(code), self.other.run(code)
                if name == "interact":  # only ipykernel sends what the function prints to the widget
                    ours, theirs = ([m for m in out if m["msg_type"] != "comm_msg"] for out in (ours, theirs))
                self.assertEqual(order(ours), order(theirs))
                opened = [[m["content"]["target_name"] for m in of_type(out, "comm_open")] for out in (ours, theirs)]
                self.assertEqual(*opened)
                self.assertEqual(*([m["metadata"]["version"] for m in of_type(out, "comm_open")] for out in (ours, theirs)))
                for out in (ours, theirs):
                    view = of_type(out, "display_data", "execute_result")[0]["content"]["data"][VIEW]["model_id"]
                    before = itertools.takewhile(lambda m: m["msg_type"] not in ("display_data", "execute_result"), out)
                    self.assertIn(view, [m["content"]["comm_id"] for m in of_type(before, "comm_open")])
                if name != "tqdm":  # whose text has times
                    self.assertEqual(states(ours), states(theirs))

    def test_an_executed_notebook_has_the_states(self):
        import nbclient
        import nbformat

        def executed(name):
            book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(BOX)])
            nbclient.NotebookClient(book, timeout=LIMIT, kernel_name=name).execute()
            models = book.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"].values()
            return sorted((m["model_name"], m["state"].get("value")) for m in models if "Model" in m["model_name"])

        self.assertEqual(executed("turnstone-python"), executed("python3"))

    def test_bytes_are_buffers(self):
        code = "import ipywidgets\npicture = ipywidgets.Image(value=b'one')\npicture.value = b'two'\npicture"
        for out in (self.k.run(code)[1], self.other.run(code)[1]):
            opened, update = of_type(out, "comm_open")[-1], of_type(out, "comm_msg")[-1]
            self.assertEqual([opened["content"]["data"]["buffer_paths"], *map(bytes, opened["buffers"])], [[["value"]], b"one"])
            self.assertEqual([update["content"]["data"]["buffer_paths"], *map(bytes, update["buffers"])], [[["value"]], b"two"])

    def test_data_that_is_not_json_is_an_error_of_the_code(self):
        reply, out = self.k.run("import comm\nc = comm.create_comm(target_name='mine', data={'state': {}})\nc.send({'method': 'update', 'state': {'f': print}})")
        self.assertEqual(reply["ename"], "TypeError")
        _, out = self.k.run("c.send({'method': 'update', 'state': {'n': float('nan')}}); c.close()")
        self.assertEqual([m["msg_type"] for m in out], ["comm_msg", "comm_close"])
        self.assertEqual(out[0]["content"]["data"]["state"], {"n": None})

    def test_messages_that_are_not_states_are_reported_once(self):
        code = "import comm\nc = comm.create_comm(target_name='mine')\nfor i in range(3): c.send({'method': 'custom', 'content': i})"
        _, out = self.k.run(code)
        self.assertEqual(text(out), "[messages of mine that are not a state do not reach notebooks]\n")

    def test_a_flood_of_updates_is_merged(self):
        self.k.run("import ipywidgets\nbar = ipywidgets.IntProgress(max=20_000)")
        _, out = self.k.run("for i in range(20_000): bar.value = i + 1")
        updates = [m["content"]["data"]["state"]["value"] for m in of_type(out, "comm_msg")]
        self.assertEqual(updates[-1], 20_000)
        self.assertEqual(updates, sorted(updates))
        self.assertLess(len(updates), 2_000)

    def test_updates_arrive_while_the_cell_runs(self):
        self.k.run("import ipywidgets\nbar = ipywidgets.IntProgress()")
        asked = self.k.kc.execute("bar.value = 1\ninput()", allow_stdin=True)
        self.assertEqual(self.k.next("comm_msg", asked)["content"]["data"]["state"], {"value": 1})
        self.k.kc.get_stdin_msg(timeout=LIMIT)
        self.k.kc.input("")
        self.assertEqual(self.k.ask(asked)["content"]["status"], "ok")
        self.k.outputs(asked)

    def test_threads_update_after_the_cell(self):
        self.k.run("import ipywidgets, threading\nbar, go = ipywidgets.IntProgress(), threading.Event()")
        self.k.run("def later():\n    go.wait(); bar.value = 7\nthread = threading.Thread(target=later); thread.start()")
        self.k.run("go.set(); thread.join()")
        self.assertEqual(self.ask_states()[self.k.text("print(bar.model_id)").strip()]["state"]["value"], 7)

    def ask_states(self):
        """Asks for all states, as a front end does that connects late."""
        kc = self.k.kc
        for kind, content in (("comm_open", {"target_name": "jupyter.widget.control", "data": {}}), ("comm_msg", {"data": {"method": "request_states"}})):
            m = kc.session.msg(kind, dict(content, comm_id="control"))
            kc.shell_channel.send(m)
        answer = self.k.next("comm_msg", m["header"]["msg_id"])["content"]
        self.assertEqual((answer["comm_id"], answer["data"]["method"]), ("control", "update_states"))
        return answer["data"]["states"]

    def test_a_late_front_end_gets_the_states(self):
        model = self.k.text("import ipywidgets\nbar = ipywidgets.IntProgress(max=9); bar.value = 3; print(bar.model_id)").strip()
        info = self.k.ask(self.k.kc.comm_info())["content"]["comms"]
        self.assertEqual(info[model], {"target_name": "jupyter.widget"})
        self.assertEqual(self.k.ask(self.k.kc.comm_info(target_name="other"))["content"]["comms"], {})
        state = self.ask_states()[model]
        self.assertEqual((state["model_name"], state["state"]["max"], state["state"]["value"]), ("IntProgressModel", 9, 3))
        self.k.run("bar.close()")
        self.assertNotIn(model, self.k.ask(self.k.kc.comm_info())["content"]["comms"])

    def test_messages_of_front_ends_are_ignored(self):
        model = self.k.text("import ipywidgets\ns = ipywidgets.IntSlider(); print(s.model_id)").strip()
        m = self.k.kc.session.msg("comm_msg", {"comm_id": model, "data": {"method": "update", "state": {"value": 5}}})
        self.k.kc.shell_channel.send(m)
        self.assertEqual(self.k.outputs(m["header"]["msg_id"]), [])
        self.assertEqual(self.k.text("print(s.value)"), "0\n")

    def test_widgets_beyond_the_bound_are_text(self):
        k = self.kernel()
        _, out = k.run("import ipywidgets\nmany = [ipywidgets.Layout() for i in range(510)]\nipywidgets.Layout()")
        self.assertIn("more than 500 widgets are open", text(out))
        self.assertEqual(len(of_type(out, "comm_open")), 500)
        self.assertNotIn(VIEW, out[-1]["content"]["data"])
        reply, out = k.run(TQDM)
        self.assertIn("200/200", text(out))

    def test_a_restart_ends_the_comms(self):
        k = self.kernel()
        k.run(BOX)
        self.assertTrue(k.ask(k.kc.comm_info())["content"]["comms"])
        k.km.restart_kernel()
        k.kc.wait_for_ready(timeout=LIMIT)
        self.assertEqual(k.ask(k.kc.comm_info())["content"]["comms"], {})
        _, out = k.run(SLIDER)
        self.assertIn(VIEW, of_type(out, "execute_result")[0]["content"]["data"])

    def test_an_agent_in_the_same_session_gets_text(self):
        repl("jupyter", "install", "--session", "shared", "--lang", "python", "--python", sys.executable)
        k, second = self.kernel("turnstone-shared"), self.kernel("turnstone-shared")
        self.assertEqual(repl("exec", "shared", "-e", SLIDER), "FloatSlider(value=0.5, max=2.0)\n")
        k.run(BOX)
        said = repl("exec", "shared", "-e", "display(bar)")
        self.assertEqual(said, "IntProgress(value=100)\n[a widget, of which only this text is shown]\n")
        model = repl("exec", "shared", "-e", "mine = ipywidgets.IntProgress(); print(mine.model_id)").strip()
        _, out = k.run("mine")
        self.assertEqual(out[-1]["content"]["data"][VIEW]["model_id"], model)
        repl("exec", "shared", "-e", "mine.value = 42")
        for each in (k, second):
            eventually(lambda: each.next("comm_msg")["content"]["data"]["state"] == {"value": 42})
        events = repl("events", "shared")
        self.assertNotIn("vnd.turnstone.comm", events)


if __name__ == "__main__":
    unittest.main()
