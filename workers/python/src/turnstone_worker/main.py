"""The life of a worker: start-up, turns and the end.

One thread does everything. Its current step is a state, which advances before the part that may
fail. An asynchronous exception that escapes from a step reaches one loop, which continues from that
state.
"""
import atexit
import os
import sys
from _thread import get_ident

from turnstone_worker import cache, functions, hooks, imports, system
from turnstone_worker.calls import Calls
from turnstone_worker.cells import Cells, exit_text, explain, summary
from turnstone_worker.channel import Channel, Gone
from turnstone_worker.codec import text
from turnstone_worker.display import Display
from turnstone_worker.frames import is_ours
from turnstone_worker.interrupt import Interrupts, TurnAborted, critical
from turnstone_worker.standard import Stdin
from turnstone_worker.terminal import Fence, Streams

VERSION = "1"
_GONE_SECONDS = 1.0  # for exit handlers, when the supervisor is gone
_RESERVE = 4 << 20  # bytes of address space that are released when memory has run out
_TRIES = 10000  # failures of one step, after which the worker ends
_OWN = 100  # an error of the worker itself counts as many failures as this; one of a user's handler counts once


class Turn:
    def __init__(self, number, run, no_exit=False):
        self.number = number
        self.run = run  # the code, as a function
        self.no_exit = no_exit  # SystemExit is an ordinary error
        self.error = None
        self.failure = None  # the error in the form of the idle frame
        self.prompt, self.continuation = ">>> ", "... "
        self.farewell = None  # the prepared idle frame

    def exits(self):
        return isinstance(self.error, SystemExit) and not self.no_exit


class Worker:
    def __init__(self, options, path, save, codes):
        """path is the user's sys.path. If save is not empty, codes are cached at that path."""
        setting = os.environ.pop("REPL_IPC", "").split(",")
        if len(setting) != 3:
            sys.stderr.write("turnstone: this program is started by a supervisor, which sets REPL_IPC=IN,OUT,NONCE\n")
            sys.exit(2)
        self.save, self.codes = save, codes
        self.namespace = sys.modules["__main__"].__dict__
        self.interrupts = Interrupts()
        self.channel = Channel(*system.open_channel(setting[0], setting[1]), self.interrupts)
        self.interrupts.channel = self.channel
        self.channel.calls = Calls(self.channel)
        if system.KEEPS_MARKERS:
            try:
                self.channel.fence = Fence(setting[2])
            except OSError:
                pass  # no terminal: frames are handled in order of arrival
        system.listen(setting[2])
        self.program = "program" in options
        self.streams = Streams(self.channel, self.program)
        self.stdin = Stdin(self.channel, self.streams)
        self.reserve = []  # holds the reserved memory
        self.display = Display(self.channel, self.streams, int(options.get("dpi", 0)))
        self.cells = Cells(self.namespace, options.get("show") == "all", self.interrupts, self.reserve.clear, self.display)
        self.turn = None
        self.step = self.introduce
        self.chores = imports.ERRORS[:]  # imported while idle
        self.failures = 0  # failures of the current step
        _fill(self.reserve)
        self.status = 0  # of the process
        self.ended = None  # the session_end frame's fields
        self._prepare(path, setting[2])

    def _prepare(self, path, nonce):
        """Gives the process the state that a user expects of Python."""
        for name in list(self.namespace):
            if not (name.startswith("__") and name.endswith("__")):
                del self.namespace[name]
        for name in ("__file__", "__cached__"):
            self.namespace.pop(name, None)
        self.namespace["__doc__"] = None
        self.namespace["__loader__"] = sys.__loader__
        sys.argv = [""]
        if not self.program:
            sys.ps1, sys.ps2 = ">>> ", "... "
        if hasattr(sys, "orig_argv"):
            sys.orig_argv[:] = [sys.executable]  # the worker's arguments are useless to a program that restarts itself
        os.environ.setdefault("PYTHON_BASIC_REPL", "1")
        self.streams.install()
        self.stdin.install()
        self.display.install()
        hooks.install(self)
        imports.if_there("warnings")  # without it, a warning of the compiler would not show its line
        functions.install(self.channel, self.channel.calls, self.display.functions)
        self.interrupts.install()
        try:
            import faulthandler

            faulthandler.enable(file=system.crash_log(nonce))  # a crash writes its stack
        except Exception:
            pass
        atexit.register(self._last)  # first in, last out
        sys.path[:] = path

    # ------------------------------------------------------------ the loop

    def live(self):
        """Runs until the session is over, and raises SystemExit then."""
        while self.step is not None:
            try:
                self._go_on()
            except BaseException as e:
                self._escaped(e)
        try:
            sys.exit(self.status)
        finally:
            # This is the very last bytecode. SIGINT may interrupt an exit handler or the join
            # of a thread, but nothing before that.
            self.interrupts.running = True

    def _go_on(self):
        """Runs step after step. An exception escapes if it strikes while another one is handled. It
        also escapes at the jump of a loop, which some Pythons compile as if it were outside its
        try."""
        while self.step is not None:
            try:
                while self.step is not None:
                    self.step()
                    self.failures = 0
            except BaseException as e:
                self._escaped(e)

    def _escaped(self, error):
        """Handles an exception outside user code: from a user's handler or from the worker itself."""
        self.interrupts.running = False
        if isinstance(error, MemoryError):
            self.reserve.clear()
        own = isinstance(error, Exception) and _is_own(error)
        self.failures += _OWN if own else 1
        if self.failures > _TRIES:
            self._give_up(error)
        if isinstance(error, Gone):
            self.step = self.abandon
        elif self.channel.forked:
            os._exit(1)
        elif self.turn is not None:
            if self.turn.error is None:
                self.turn.error = error
        elif self.step == self.rest and not own:
            try:
                self.cells.report(error)
                self.streams.flush()
            except Exception:
                pass

    def _give_up(self, error):
        """Ends a worker that cannot continue, with a reason."""
        self.cells.sources.clear()
        kind = type(error).__name__
        try:
            reason = "out of memory" if kind == "MemoryError" else "the worker fails: %s: %s" % (kind, error)
            self.channel.send({"type": "session_end", "reason": "crash", "code": 70, "message": text(reason)}, True)
        except BaseException:
            pass  # the exit status reports the crash
        os._exit(70)

    # ------------------------------------------------------------ start

    def introduce(self):
        """Sends worker_ready, then begins turn 0: the user's start-up file, as python -i runs it."""
        self.step = self.execute
        self.turn = Turn(0, self._start_up)
        self.channel.send(
            {
                "type": "worker_ready",
                "protocol": {"name": "turnstone-worker", "version": 1},
                "worker": {
                    "name": "turnstone-python",
                    "version": VERSION,
                    "language": "python",
                    "runtime_version": "%d.%d.%d" % sys.version_info[:3],
                    "executable": text(sys.executable or ""),
                    "pid": os.getpid(),
                },
                "capabilities": {"images": True, "display": True, "fence": self.channel.fence is not None, "query": True, "variables": True, "functions": True, "tables": True, "interrupt": "signal"},
            }
        )

    def _start_up(self):
        path = os.environ.get("PYTHONSTARTUP")
        if not path or sys.flags.ignore_environment:
            return
        sys.audit("cpython.run_startup", path)
        try:
            open(path, "rb").close()
        except OSError as e:
            sys.stderr.write("Could not open PYTHONSTARTUP\n%s: %s\n" % (type(e).__name__, e))
            return
        self.cells.run_file(path)

    # ------------------------------------------------------------ a turn

    def rest(self):
        """Performs the idle step. Begins a turn that has arrived, whatever exception struck since."""
        if self.turn is None:
            self._find_work()
        if self.turn is not None:
            self.step = self.execute

    def _find_work(self):
        """Waits for something to do."""
        channel = self.channel
        if self.chores or self.save:
            while not (self._wanted() or channel.readable()) and (self.chores or self.save):
                self._do_chore()
        channel.wait(self._wanted)
        self.interrupts.stale()
        if channel.start is not None:
            start = channel.start
            self.display.silent = start["silent"]
            self.turn = Turn(start["turn"], lambda: self.cells.run(start["turn"], start["input"], start["dialect"]), start["no_exit"])
        elif channel.queries:
            self._answer(channel.queries.pop(0))
        elif channel.shutdown is not None:
            self._end("shutdown", 0)

    def _wanted(self):
        c = self.channel
        return c.start is not None or c.queries or c.shutdown is not None or (c.interruptions and not c.active)

    def execute(self):
        self.step = self.report
        turn = self.turn
        try:
            self.interrupts.begin(turn.number)
            functions.host.refresh()
            self.streams.install()
            self.stdin.mend()
            self.interrupts.resume()
            turn.run()
        except BaseException as e:
            self.interrupts.running = False
            if isinstance(e, MemoryError):
                self.reserve.clear()
            turn.error = e
        self.interrupts.running = False

    def report(self):
        """Shows the error that ended the cell. This may run user code, which may be interrupted."""
        self.step = self.finish
        error = self.turn.error
        if self.channel.forked:
            self._leave_fork(error)
        self.streams.install()
        if error is None or isinstance(error, Gone) or self.turn.exits():
            return
        self.turn.failure = {"name": type(error).__name__, "message": ""}
        self.interrupts.running = True
        writers, thread = self.channel.writers, get_ident()
        try:
            explain(error)
            self.turn.failure = summary(error, self.cells.dialect)
            if self.cells.dialect == "notebook":
                self._show_figures()  # else the traceback would not be last
            self.streams.flush_others()  # the output of the cell comes before its error
            writers[thread] = "traceback"
            if isinstance(error, SystemExit):
                self.cells.report_exit(error, self.turn.failure)
            else:
                self.cells.report(error)
        except BaseException:
            # The report was interrupted, or memory is exhausted: show only one line.
            error.__traceback__ = error.__context__ = None
            writers[thread] = "traceback"
            sys.stderr.write("%(name)s: %(message)s\n" % self.turn.failure)
        writers.pop(thread, None)
        if type(error) is MemoryError:
            # Free the objects in the frames; otherwise the next turn would have no memory either.
            error.__traceback__ = error.__context__ = sys.last_traceback = None
        self.interrupts.running = False

    def _show_figures(self):
        try:
            self.display.finish()
        except Exception as e:
            self.cells.report(e)

    def finish(self):
        """Shows the cell's figures and computes the prompt."""
        self.step = self.close
        turn = self.turn
        if not turn.exits():
            self.interrupts.resume()
            self._show_figures()
            self.streams.flush_others()
            self.streams.notice()
            turn.prompt = _prompt("ps1", ">>> ")
            turn.continuation = _prompt("ps2", "... ")
            self.interrupts.running = False

    def close(self):
        """Returns to idle. It may be repeated from any point."""
        turn = self.turn
        self.channel.start = None
        self.channel.writers.pop(get_ident(), None)
        self.interrupts.end()
        self.interrupts.reset()
        self.stdin.release()
        self.stdin.discard()
        self.streams.flush_ours()
        if turn.exits():
            self._exit(turn.error)
        elif isinstance(turn.error, Gone):
            self.step = self.abandon
        else:
            self.step = self.part

    def part(self):
        """Sends the idle frame exactly once, whatever exception strikes."""
        turn = self.turn
        if turn is not None:
            self._bid_farewell(turn)
            self.turn = None
        if not self.reserve:
            _fill(self.reserve)
        self._stay_last()
        self.step = self.rest

    def _bid_farewell(self, turn):
        if turn.farewell is None:
            idle = {"type": "idle", "turn": turn.number, "prompt": text(turn.prompt), "outcome": "ok"}
            if turn.continuation != "... ":
                idle["continuation"] = text(turn.continuation)
            if turn.error is not None:
                interrupted = isinstance(turn.error, (KeyboardInterrupt, TurnAborted)) or (
                    self.interrupts.honoured and type(turn.error).__name__ == "CancelledError"  # asyncio.run's way
                )
                idle["outcome"] = "interrupted" if interrupted else "error"
                idle["error"] = turn.failure or {"name": type(turn.error).__name__, "message": ""}
            turn.farewell = self.channel.prepare(idle)
        self.channel.active = False  # the next turn_start may arrive at once
        self.channel.deliver(turn.farewell)

    def _answer(self, query):
        """Answers a query, which runs as turn 0: the supervisor interrupts it if it takes too long."""
        from turnstone_worker import query as queries

        result = {"status": "timeout"}
        try:
            self.interrupts.begin(0)
            functions.host.refresh()
            self.interrupts.resume()
            result = queries.answer(query, self.namespace, self.cells.compiler_flags(), self.channel)
        except BaseException:
            pass
        finally:
            self.interrupts.running = False
            self.interrupts.end()
            result.update(type="query_result", id=query["id"])
            self.channel.send(result)

    def _do_chore(self):
        if self.chores:
            imports.if_there(self.chores.pop(0))
        elif self.save:
            path, self.save = self.save, None
            codes, self.codes = self.codes, None
            cache.write(path, codes)

    # ------------------------------------------------------------ the end

    def _exit(self, error):
        """Handles sys.exit() in a cell."""
        code, message = error.code, ""
        if code is None:
            code = 0
        elif not isinstance(code, int):
            message, code = exit_text(error), 1
            try:
                sys.stderr.write(message + "\n")
            except Exception:
                pass  # user code has replaced it; the message is in session_end, too
        if not -(1 << 63) <= code < 1 << 63:
            code = -1
        self._end("exit", int(code), message)

    def _end(self, reason, status, message=""):
        """Leaves the loop. Then Python itself ends: it joins threads and runs the exit handlers, _last as the last one."""
        os.environ.pop("PYTHONINSPECT", None)  # otherwise Python would show its own prompt
        self.status = status
        self.ended = {"type": "session_end", "reason": reason, "code": status}
        if message:
            self.ended["message"] = text(message)
        self._stay_last()
        self.step = None
        self.cells.loops.leave()
        self.interrupts.turn = self.channel.turn

    def _stay_last(self):
        """Registers _last again if user code has run or cleared the exit handlers."""
        if not atexit._ncallbacks():
            atexit.register(self._last)

    def _last(self):
        if self.step is not None:
            return  # user code is running the exit handlers
        self.interrupts.running = False
        # Python frees the variables next, which flushes files. The fork hooks keep the worker alive
        # longer: until the interpreter no longer works, or forever.
        self.turn = self.namespace = self.cells.namespace = self.interrupts.user_handler = None
        if self.channel.forked:
            return
        self.cells.loops.close()
        self.streams.flush()
        if self.ended is not None:
            self.channel.deliver(self.channel.prepare(self.ended))
        self.channel.mute = self.channel.closed = True  # that was the last frame; finalizers follow

    def abandon(self):
        """Ends the worker when the supervisor is gone, and gives exit handlers a second."""
        self.channel.mute = True
        system.end_within(_GONE_SECONDS)
        self._end("shutdown", 0)

    # ------------------------------------------------------------ forks

    @critical
    def forked(self):
        """Runs in a forked child, which keeps the terminal and loses the channel."""
        if not self.channel.forked:
            self.channel.forget()
            self.interrupts.forget()

    def _leave_fork(self, error):
        """Ends a forked child that has returned from its cell, as at the end of a script."""
        status = 0
        if isinstance(error, SystemExit):
            status = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
        elif error is not None:
            status = 1
            try:
                self.cells.report(error)
            except Exception:
                pass
        if not self.turn.no_exit:  # they would run at the end of a script, too
            self._run_exit_handlers()
        self.streams.flush()
        os._exit(status & 0xFF)

    def _run_exit_handlers(self):
        self.interrupts.running = True
        try:
            if "threading" in sys.modules:
                sys.modules["threading"]._shutdown()
            atexit._run_exitfuncs()
        except BaseException:
            pass  # as in Python, which has shown the error
        self.interrupts.running = False


def _prompt(name, default):
    try:
        return str(getattr(sys, name, default))
    except Exception:
        return ""  # as in Python itself, which ignores the error


def _fill(reserve):
    """Puts reserved memory into a list. It is never touched, and the same amount is still available."""
    size = _RESERVE
    while size >= 1 << 16:
        try:
            reserve.append((bytes(size), bytes(size))[0])
            return
        except MemoryError:
            size >>= 1


def _is_own(error):
    """Reports whether the worker's own code raised an error, and not a user's handler."""
    tb = error.__traceback__
    if tb is None:
        return True  # there was no memory for it
    while tb.tb_next is not None:
        tb = tb.tb_next
    return is_ours(tb.tb_frame)
