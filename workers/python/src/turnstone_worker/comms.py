"""Comms: the objects, such as widgets, whose state the front ends of notebooks mirror.

Libraries open a comm through the package comm. From the first cell of a notebook on, comms are sent as
displays of a type of their own, which the supervisor does not show: it keeps their states. Before that,
and in sessions without a notebook, a comm goes nowhere, as outside of Jupyter.

Messages of front ends do not arrive, so callbacks of widgets do not run.
"""
import sys

from turnstone_worker import imports
from turnstone_worker.bundles import as_json

TYPE = "application/vnd.turnstone.comm+json"
_MOST = 500  # open comms
_MOST_BYTES = 1 << 20  # of a message with its buffers
_MOST_LATE = 1000  # messages of finalizers that wait


class Comms:
    def __init__(self, channel):
        self.channel = channel
        self.wanted = False  # a cell of a notebook has run
        self.notebook = False  # the turn is a cell of a notebook
        self.opened = set()  # the ids of open comms
        self.late = []  # messages of finalizers that struck while a frame was being written
        self.said = set()  # notices

    def begin(self, dialect):
        """Begins a turn in a dialect."""
        self.notebook = dialect == "notebook"
        self.wanted = self.wanted or self.notebook
        self._send_late()

    def mirrors(self, model):
        """Reports whether a reference to a comm can be shown."""
        return self.notebook and type(model) is str and model in self.opened

    def teach(self, module):
        """Replaces the function of the package comm that opens a comm."""
        comms, native = self, module.create_comm

        class Comm(module.BaseComm):
            def publish_msg(self, msg_type, data=None, metadata=None, buffers=None, **keys):
                comms.publish(self, msg_type, data or {}, metadata, buffers or ())

        Comm.__module__ = Comm.__qualname__ = "comm"

        def create_comm(*args, **kwargs):
            """Create a Comm."""
            wanted = comms.wanted and not comms.channel.forked
            return (Comm if wanted else native)(*args, **kwargs)

        module.create_comm = create_comm

    def publish(self, comm, kind, data, metadata, buffers):
        """Sends a message of a comm. Data that is not JSON is an error of the caller."""
        if self.channel.forked:
            return
        message = {"id": str(comm.comm_id)}
        if kind == "comm_open":
            if len(self.opened) >= _MOST:
                return self._say("more than %d widgets are open: further ones are shown as text. close() closes a widget" % _MOST)
            message.update(op="open", target=str(comm.target_name), data=data, metadata=metadata or {})
            paths = data.get("buffer_paths") or range(len(buffers))
        elif comm.comm_id not in self.opened:
            return
        elif kind == "comm_close":
            self.opened.discard(comm.comm_id)
            return self._send({"op": "close", "id": message["id"]})
        elif data.get("method") == "update":
            message.update(op="update", data=data.get("state") or {})
            paths = data.get("buffer_paths") or ()
        else:
            return self._say("messages of %s that are not a state do not reach notebooks" % comm.target_name)
        encoded = imports.quietly("binascii").b2a_base64
        size = sum(memoryview(one).nbytes for one in buffers)
        if size <= _MOST_BYTES:
            pairs = zip(paths, buffers)
            message["buffers"] = [{"path": path if isinstance(path, (list, tuple)) else [path], "data": encoded(one, newline=False).decode()} for path, one in pairs]
        if not self._send(message, size):
            self._say("the state of a widget has more than %d bytes, and is no longer shown" % _MOST_BYTES)
            self.opened.discard(comm.comm_id)
        elif kind == "comm_open":
            self.opened.add(comm.comm_id)

    def _send(self, message, size=0):
        """Sends a message with buffers of this size; reports whether that is within the bound."""
        data = as_json(message)
        if max(len(data) - size // 3, size) > _MOST_BYTES:
            return False
        frame = {"type": "display", "data": {TYPE: data}, "update": False, "kind": "display"}
        if self.channel.writing._is_owned():  # a finalizer runs while this thread writes a frame
            if len(self.late) < _MOST_LATE:
                self.late.append(frame)
            return True
        self._send_late()
        self.channel.send(frame)
        return True

    def _send_late(self):
        while self.late:
            self.channel.send(self.late.pop(0))

    def _say(self, notice):
        if notice not in self.said:
            self.said.add(notice)
            sys.stderr.write("[%s]\n" % notice)
