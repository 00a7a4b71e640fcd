"""Puts magics between the statements of modules of the standard library, and translates them: notebook_check.py SOURCE.

Only the magics may change. Prints the modules with other changes, and how many were checked."""
import ast
import glob
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
from turnstone_worker import notebook

MAGIC, PYTHON = "!echo it's {x", "__magics__.system(\"echo it's {x\")"


def starts(tree):
    """Yields where statements without decorators begin, at any depth: rows from 0 on, and columns."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            statements = getattr(node, name, ())
            for statement in statements if isinstance(statements, list) else ():
                if not getattr(statement, "decorator_list", None):
                    yield statement.lineno - 1, statement.col_offset


checked = 0
for path in sorted(glob.glob(os.path.join(os.path.dirname(os.__file__), "*.py"))):
    with open(path, encoding="utf-8") as f:
        source = f.read().rstrip()
    if not 0 < len(source) < 60000 or "\f" in source or source.endswith("\\"):
        continue
    checked += 1
    if notebook.translated(source, 0) is not None:
        print(path, "is Python, and was changed")
    lines, want = source.split("\n"), source.split("\n")
    for row, column in sorted(set(starts(ast.parse(source))), reverse=True)[::5]:
        indent = lines[row][:column]
        if indent.strip() or lines[row].lstrip().startswith(("elif ", "else")) or row and lines[row - 1].endswith("\\"):
            continue  # no statement begins here
        lines.insert(row, indent + MAGIC)
        want.insert(row, indent + PYTHON)
    lines.append("%matplotlib inline")
    want.append("pass")
    cell = notebook.translated("\n".join(lines), 0)
    if cell is None or cell.code != "\n".join(want):
        print(path, "has other changes")
print(checked, "modules")
