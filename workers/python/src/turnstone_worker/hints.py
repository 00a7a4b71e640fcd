"""One-line hints for inputs that failed because they are shell or notebook code, or lack an await."""

_COMMANDS = frozenset(
    "apt apt-get awk brew cat cd chmod conda cp curl docker echo export find git grep head kill ls make mkdir mv npm"
    " pip pip3 ps pwd python python3 rm rmdir sed source sudo tail tar touch uv wc wget which".split()
)
_LOOP = "[an input runs in an event loop if it has an await: await the task in the input that makes it]"
_PROMPTS = "[the input has %s: send the code without them]"
_LENGTH = 100  # characters of an input that a hint repeats


def hint(error, sources, dialect=None):
    """Returns the hint without a newline, or None. Errors of valid Python code have no hint."""
    if type(error) is RuntimeError:
        return _LOOP if str(error) == "no running event loop" else None
    if isinstance(error, SyntaxError):
        name, number = error.filename, error.lineno
    elif type(error) is NameError:
        tb = error.__traceback__
        if tb is None or tb.tb_next is not None:
            return None
        name, number = tb.tb_frame.f_code.co_filename, tb.tb_lineno
    else:
        return None
    if name not in sources or not number:
        return None
    lines = sources[name][2]
    if number > len(lines):
        return None
    line = lines[number - 1].strip()
    if isinstance(error, NameError):
        if line.startswith("In [") and str(error) == "name 'In' is not defined":
            return _PROMPTS % "prompts (In [1]:)"
        word = line.split(" ")[0]
        return _command(line) if word in _COMMANDS and str(error) == "name '%s' is not defined" % word.partition("-")[0] else None
    for start, text in (("```", "Markdown fences (```)"), (">>>", "prompts (>>>)"), ("In [", "prompts (In [1]:)")):
        if line.startswith(start):
            return _PROMPTS % text
    if "=" in line and line.partition("=")[2].lstrip()[:1] in ("!", "%"):
        line = line.partition("=")[2].lstrip()  # files = !ls
    if line[:1] == "!":
        return _command(line.lstrip("!").strip())
    if line[:2] == "$ ":
        return _command(line[2:].strip())
    if line[:1] == "%" and dialect == "notebook":
        return "[%s is none of the magics that notebooks have here]" % line.split(" ")[0][:_LENGTH]
    if line[:1] == "%":
        return _magic(line.lstrip("%"))
    if line[:1] == "?" or line[-1:] == "?":
        return "[this is plain Python: help(%s) tells about it]" % line.strip("? ")[:_LENGTH]
    if line.split(" ")[0] in _COMMANDS:
        return _command(line)
    return None


def _command(line):
    word, _, rest = line.partition(" ")
    if word in ("pip", "pip3"):
        return _pip(rest)
    if word == "cd":
        return _chdir(rest)
    if len(line) > _LENGTH:
        line = line[:_LENGTH] + "…"
    return "[this is plain Python and no shell: subprocess.run(%r, shell=True) runs a command]" % line


def _magic(line):
    word, _, rest = line.partition(" ")
    rest = rest.strip()
    if word == "pip":
        return _pip(rest)
    if word == "cd":
        return _chdir(rest)
    instead = {
        "timeit": "timeit.timeit(lambda: %s, number=1000) measures" % (rest or "f()")[:_LENGTH],
        "time": "time.perf_counter() before and after measures",
        "run": "runpy.run_path(%r) runs a file" % rest[:_LENGTH],
        "matplotlib": "figures are shown without it",
        "who": "globals() has the variables",
        "whos": "globals() has the variables",
        "bash": "subprocess.run(..., shell=True) runs a command",
        "sh": "subprocess.run(..., shell=True) runs a command",
    }.get(word, "what begins with % is IPython's")
    return "[this is plain Python, without magics: %s]" % instead


def _pip(arguments):
    words = ", ".join(map(repr, arguments[:_LENGTH].split()))
    return "[this is plain Python and no shell: subprocess.run([sys.executable, '-m', 'pip'%s]) runs pip]" % (words and ", " + words)


def _chdir(directory):
    return "[this is plain Python and no shell: os.chdir(%r) changes the directory]" % directory.strip()[:_LENGTH]
