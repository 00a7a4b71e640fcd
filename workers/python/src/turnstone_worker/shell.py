"""get_ipython() of a notebook. Libraries do not find it: they would expect the rest of the shell."""
import builtins
import sys

from turnstone_worker import imports, magics, notebook


def _is_called_by_cell():
    return sys._getframe().f_globals.get("__name__") in ("__main__", "IPython.core.magic")


class ZMQInteractiveShell:
    """The name of the class tells code that it runs in a notebook."""

    def __init__(self, cells):
        self._cells = cells
        self.config = {"IPKernelApp": {}}
        self.user_ns = cells.namespace
        self.ast_node_interactivity = "last_expr"
        self.system, self.getoutput = magics.system, magics.lines
        magics.shell, builtins.__magics__ = self, magics
        imports.when("IPython.core.getipython", self._teach_ipython)
        # The native function would start a shell of IPython.
        imports.when("matplotlib_inline.backend_inline", lambda module: setattr(module, "set_matplotlib_formats", self.set_formats))

    def of_caller(self):
        """get_ipython()"""
        if not _is_called_by_cell():
            raise NameError("name 'get_ipython' is not defined")
        return self

    def shows_all(self):
        """Reports whether a cell shows the value of each expression."""
        kind = getattr(sys.modules.get("IPython.core.interactiveshell"), "InteractiveShell", type)
        return "all" in (self.ast_node_interactivity, vars(kind).get("ast_node_interactivity"))

    def set_formats(self, *formats, **_):
        self._cells.display.formats = self._cells.formats = formats

    def _teach_ipython(self, module):
        native = module.get_ipython
        module.get_ipython = lambda: self if self._cells.dialect == "notebook" and _is_called_by_cell() else native()

    def run_cell(self, raw_cell, *_, **__):
        cell = notebook.translated(raw_cell, 0, self.user_ns) or notebook.Cell(raw_cell)
        with magics.around(cell.around, self._cells.display, self.user_ns):
            for part in self._cells._compile(cell.code, "<magic>"):
                exec(part, self.user_ns)

    def run_line_magic(self, magic_name, line, *_):
        line = "%%%s %s" % (magic_name, line)
        cell = notebook.translated("_ = " + line, 0)
        return eval(cell.code[4:], self.user_ns) if cell else self.run_cell(line)

    def run_cell_magic(self, magic_name, line, cell):
        self.run_cell("%%%%%s %s\n%s" % (magic_name, line, cell))

    def magic(self, arg_s):
        return self.run_line_magic(arg_s.lstrip("%"), "")

    def register_magic_function(self, func, magic_kind="line", magic_name=None):
        for kind in magic_kind.split("_"):
            notebook.REGISTERED[kind][magic_name or func.__name__] = func


ZMQInteractiveShell.__module__ = "ipykernel.zmqshell"
