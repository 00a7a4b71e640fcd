"""The dialect of notebooks: cells with magics and shell commands, as Python.

Only a cell that does not compile is translated, so valid Python never has another meaning. Each line
is replaced by one line, and line numbers stay. A cell of one line, such as pip install x, may lack the percent
sign if its first word is no variable. A line is replaced only if a statement begins there:
the tokenizer of this Python decides that, so strings, brackets and continued lines are left alone.
A magic that is unknown stays, and is a syntax error.
"""
import _ast
import builtins

from turnstone_worker import imports

re, tokenize, warnings = map(imports.quietly, ("re", "tokenize", "warnings"))

# Settings of IPython without an effect on the values that code computes.
_SETTINGS = frozenset(
    "matplotlib load_ext reload_ext unload_ext autosave precision colors xmode pdb automagic gui pprint"
    " doctest_mode autocall autoawait autoindent".split()
)
_CALLS = frozenset("autoreload config pylab reset timeit pip cd pwd env set_env who whos sx system run".split())
_COMMANDS = frozenset("cat cp load ls mkdir mv rm rmdir".split())
_SCRIPTS = frozenset("bash perl python python3 ruby sh".split())
_KNOWN = _SETTINGS | _CALLS | _COMMANDS | {"time"}
REGISTERED = {"line": {}, "cell": {}}  # the functions that code has registered as magics, by name
_SHOWN = {"html": "text/html", "javascript": "application/javascript", "js": "application/javascript", "svg": "image/svg+xml"}
_SHOWN.update(latex="text/latex", markdown="text/markdown")
_MAGICS = "__magics__."  # a name of builtins, so that functions and other modules' code find it

_SUSPECT = re.compile(r"^[ \t]*[%!?]|=[ \t]*[%!](?!=)|\?[ \t]*$", re.M)
_NAME = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_HELP = re.compile(r"(\?\??)\s*(%s)\s*|(%s)\s*(\?\??)\s*" % (_NAME, _NAME))
_BARE = re.compile(r"\s*([^\W\d]\w*)([ \t]+[^\s=,].*)?\s*")
_SKIPPED = (tokenize.COMMENT, tokenize.NL, tokenize.ENDMARKER)


class Cell:
    """A translated cell: its code, and what runs around it."""

    def __init__(self, code, around=()):
        self.code = code
        self.around = around  # the names and arguments of the cell magics whose body is Python, outermost first


def translated(code, flags, namespace=None):
    """Returns the cell for code, whose variables may be known; None if it is Python already, or if nothing in it can be translated."""
    bare = _BARE.fullmatch(code)
    if namespace is not None and bare is not None and not (bare[1] in namespace or hasattr(builtins, bare[1])):
        if bare[1] in _KNOWN or bare[1] in REGISTERED["line"]:
            return Cell("\n" * code[: bare.start(1)].count("\n") + (_magic(code.strip()) or code))
    if not _SUSPECT.search(code) or _compiles(code, flags):
        return None
    lines, around = code.split("\n"), []
    head = next(n for n, line in enumerate(lines) if line.strip())
    while head < len(lines) and lines[head].startswith("%%"):
        name, arguments = _split(lines[head][2:])
        body = "\n".join(lines[head + 1 :])
        if name == "capture" or name == "time" and arguments[:1] in ("", "#"):
            around.append((name, arguments))
            lines[head] = ""
            head += 1
            continue
        call = _whole(name, arguments, body)
        if call is None:
            break
        return Cell("\n" * head + call, around)
    changed = _translate(lines, head)
    return Cell("\n".join(lines), around) if changed or around else None


def is_complete(text):
    """Reports whether no further line belongs to the last magic of text. Like IPython's, a cell magic ends with an empty line."""
    lines = text.split("\n")
    if text.lstrip().startswith("%%"):
        return not lines[-2 if text.endswith("\n") else -1].strip()
    return not text.rstrip("\n").endswith("\\")


def _compiles(code, flags):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are shown by the compilation that counts
        try:
            compile(code, "<input>", "exec", _ast.PyCF_ONLY_AST | flags, True)
        except SyntaxError:
            return False
        except (ValueError, OverflowError, MemoryError, RecursionError):
            pass  # another error than that of a magic
    return True


def _whole(name, arguments, body):
    """Returns the call for a cell magic whose body is text; None for an unknown one."""
    if name == "timeit" and body.strip():
        lines = body.split("\n")
        _translate(lines, 0)
        return "%stimeit(%r, %r)" % (_MAGICS, arguments, "\n".join(lines))
    if name.lower() in _SHOWN:
        return "%sshow(%r, %r)" % (_MAGICS, _SHOWN[name.lower()], body)
    if name == "script" and arguments or name in _SCRIPTS:
        return "%sscript(%r, %r)" % (_MAGICS, arguments if name == "script" else name + " " + arguments, body)
    if name in ("writefile", "file") and arguments:
        return "%swritefile(%r, %r)" % (_MAGICS, arguments, body if body.endswith("\n") else body + "\n")
    return "%sregistered(%r, %r, %r)" % (_MAGICS, name, arguments, body.rstrip("\n") + "\n") if name in REGISTERED["cell"] else None


# ---------------------------------------------------------------- lines


def _translate(lines, first):
    """Replaces the lines from first on that are magics; reports whether there were any."""
    changed, blocks = False, []
    while first < len(lines):
        row = _next(lines, first, blocks)
        if row is None:
            break
        first = row + 1
        line = lines[row]
        while line.endswith("\\") and first < len(lines):
            line = line[:-1] + " " + lines[first]
            first += 1
        text = line.lstrip(" \t")
        python = _statement(text.rstrip())
        if python is not None:
            lines[row:first] = [line[: len(line) - len(text)] + python] + [""] * (first - row - 1)
            changed = True
    return changed


def _next(lines, first, blocks):
    """Returns the first row from first on that is a magic; None if there is none. A statement begins
    at first, within blocks of this indentation, which is updated."""
    opened = []
    if blocks:  # the tokenizer needs their beginnings
        opened = [indent + "if 1:" for indent in [""] + blocks[:-1]] + [blocks[-1] + "pass"]
    offset, fresh = first - len(opened) - 1, True
    source = _source(opened, lines, first)
    try:
        for kind, text, at, _, _ in tokenize.generate_tokens(lambda: next(source, "")):
            row = at[0] + offset
            if kind == tokenize.NEWLINE:
                fresh = True
            elif row < first:
                continue
            elif kind == tokenize.INDENT:
                blocks.append(text)
            elif kind == tokenize.DEDENT:
                blocks.pop()
            elif fresh and kind not in _SKIPPED:
                fresh = False
                if _is_magic(lines[row].strip()):
                    return row
    except (tokenize.TokenError, SyntaxError):
        pass  # the compiler reports it
    return None


def _source(opened, lines, first):
    for line in opened:
        yield line + "\n"
    for row in range(first, len(lines)):
        yield lines[row] + "\n"


def _split(magic):
    """Returns the name and the arguments of a magic."""
    words = magic.split(None, 1)
    if not words or magic[:1].isspace():
        return "", ""
    return words[0], words[1].strip() if len(words) > 1 else ""


def _is_magic(line):
    """Reports whether a line at which a statement begins is a magic, known or not. Such a line is never Python."""
    return line[:1] in ("%", "!") or _HELP.fullmatch(line) is not None or _assigned(line) is not None


def _assigned(line):
    """Returns the target and the magic of an assignment such as files = !ls; None for any other line."""
    target, _, magic = line.partition("=")
    target, magic = target.rstrip(), magic.lstrip()
    if magic[:1] not in ("%", "!") or magic[1:2] == "=":
        return None
    return (target, magic) if [type(statement) for statement in _parsed(target + " = 0")] in ([_ast.Assign], [_ast.AnnAssign]) else None


def _statement(line):
    """Returns the Python for a magic; None for an unknown one."""
    helped = _HELP.fullmatch(line)
    if helped is not None:
        return "%sdescribe(%r, %r)" % (_MAGICS, helped[2] or helped[3], "??" in (helped[1], helped[4]))
    assigned = _assigned(line)
    if assigned is None:
        return _magic(line)
    target, magic = assigned
    value = "%slines(%r)" % (_MAGICS, magic.lstrip("!").strip()) if magic[0] == "!" else _magic(magic)
    body = _parsed(value or "")
    return "%s = %s" % (target, value) if body and type(body[0]) is _ast.Expr else None


def _magic(line):
    """Returns the Python for a line that begins with !, % or a name."""
    if line.startswith("!!"):
        return "%slines(%r)" % (_MAGICS, line[2:].strip())
    if line[:1] == "!":
        return "%ssystem(%r)" % (_MAGICS, line[1:].strip())
    name, arguments = _split(line[line[:1] == "%" :])
    if name in _SETTINGS:
        return "pass"
    if name == "time":
        return _timed(arguments)
    if name == "timeit" and arguments:
        return "%stimeit(%r)" % (_MAGICS, arguments)
    if name in _COMMANDS:
        return "%ssystem(%r)" % (_MAGICS, {"ls": "ls -F", "load": "cat"}.get(name, name) + " " + arguments)
    if name in ("sx", "system"):
        return "%slines(%r)" % (_MAGICS, arguments)
    if name in REGISTERED["line"]:
        return "%sregistered(%r, %r)" % (_MAGICS, name, arguments)
    return "%s%s(%r)" % (_MAGICS, name, arguments) if name in _CALLS else None


def _timed(code):
    """Returns code that is timed, so that it has its own variables, its value and its await."""
    if code[:1] in ("%", "!"):
        code = None if _split(code[1:])[0] == "time" else _magic(code)
    if not code:
        return None if code is None else "pass"
    body = _parsed(code)
    if not body:
        return None
    if len(body) > 1 or type(body[0]) is not _ast.Expr:
        if any(hasattr(statement, "body") or hasattr(statement, "cases") for statement in body):
            return "%stime_block(%r)" % (_MAGICS, code)
        return "with %stiming(): %s" % (_MAGICS, code)
    value = body[0].value
    encoded = code.encode()
    value, rest = encoded[value.col_offset : value.end_col_offset], encoded[value.end_col_offset :]  # a comment would hide what follows
    return "%stimed(%sclock(), (%s))%s" % (_MAGICS, _MAGICS, value.decode(), ";" if b";" in rest.partition(b"#")[0] else "")


def _parsed(code):
    """Returns the statements of one line of code; empty if it is not Python."""
    try:
        return compile(code, "<input>", "exec", _ast.PyCF_ONLY_AST | _ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, True).body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return []
