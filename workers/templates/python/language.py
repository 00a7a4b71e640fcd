"""The language of the worker: Python, without the extras of its interactive mode."""

import ast
import builtins
import codeop
import rlcompleter
import sys
import traceback


class Language:
    name = "python"
    version = sys.version.split()[0]

    def __init__(self, ask):
        """ask(prompt) returns a line of input, or raises EOFError."""
        self.space = {"__name__": "__main__", "__builtins__": builtins}
        builtins.input = ask

    def run(self, text):
        """Runs an input. Errors are exceptions."""
        tree = ast.parse(text, "<input>")
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "<input>", "exec"), self.space)
        if last is not None:
            exec(compile(ast.Interactive([last]), "<input>", "single"), self.space)

    def words(self, error):
        """Returns the error report for users."""
        frames = error.__traceback__
        while frames and frames.tb_frame.f_code.co_filename != "<input>":
            frames = frames.tb_next  # the worker's frames
        return "".join(traceback.format_exception(type(error), error, frames))

    def query(self, kind, text, cursor):
        if kind == "parse":
            try:
                whole = codeop.compile_command(text, symbol="exec")
            except (SyntaxError, ValueError, OverflowError):
                return {"status": "invalid"}
            return {"status": "incomplete" if whole is None else "complete"}
        if kind == "variables":
            names = [n for n in self.space if not n.startswith("_")][:200]
            return {"status": "ok", "variables": [{"name": n, "type": type(self.space[n]).__name__} for n in names]}
        before = text.encode()[:cursor].decode("utf-8", "replace")
        word = before[len(before.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.")):]
        completer, matches = rlcompleter.Completer(self.space), []
        while len(matches) < 200 and "." not in word and word:  # an attribute might run code
            match = completer.complete(word, len(matches))
            if match is None:
                break
            matches.append(match.rstrip(" ("))
        return {"status": "ok", "start": cursor - len(word.encode()), "matches": matches or None}
