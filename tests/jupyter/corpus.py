"""Runs notebooks through repl's kernel and the original, by nbclient and papermill, and compares."""

import base64
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import nbformat
from jupyter_client.manager import AsyncKernelManager
from jupyter_core.utils import run_sync
from nbclient import NotebookClient

PYTHON = {
    "values": ["1 + 1", "x = 5", "x * 2", "'text'", "[1, {'a': (2, 3)}]", "None", "x;"],
    "streams": ["print('a'); print('b')", "import sys; print('e', file=sys.stderr)", "print('no newline', end='')", "for i in range(3000): print(i)"],
    "order": ["import sys\nprint(1)\nprint(2, file=sys.stderr)\nprint(3)"],
    "functions": ["def f(n):\n    '''Doubles.'''\n    return 2 * n", "f(21)", "class A:\n    def __repr__(self): return 'an A'\nA()"],
    "displays": [
        "from IPython.display import display, HTML, Markdown, JSON, SVG, Image",
        "display(HTML('<b>x</b>'))",
        "HTML('<i>y</i>')",
        "display(Markdown('# t'), Markdown('z'))",
        "JSON({'a': [1, 2]})",
        "display({'text/plain': 'p', 'text/html': '<p>'}, raw=True)",
    ],
    "mimebundles": [
        "class M:\n    def _repr_mimebundle_(self, include=None, exclude=None): return {'text/plain': 'm', 'text/html': '<m>'}\n    def __repr__(self): return 'm'\nM()",
        "class L:\n    def _repr_html_(self): return '<l>'\n    def _repr_latex_(self): return '$l$'\n    def __repr__(self): return 'l'\nL()",
    ],
    "texts": [  # a value always has one
        "class N:\n    def _repr_html_(self): return '<n>'\nN()",
        "class P:\n    def _repr_html_(self): return '<p>'\n    def _repr_pretty_(self, p, cycle): p.text('a P')\nP()",
        "class D:\n    def _ipython_display_(self): print('shows itself')\nD()",
        "display(D(), P())",
    ],
    "magics": [
        "import os, tempfile\nwhere = tempfile.mkdtemp()\n%cd -q {where}\nos.getcwd() == os.path.realpath(where)",
        "%load_ext autoreload\nx = 41\n%config IPCompleter.greedy = False\nx + 1",
        "%time y = x + 1\ny",
        "%%time\nprint('in')",
        "%timeit -n 2 -r 2 x",
        "%%timeit -n 2 -r 2\nx + 1",
        "r = %timeit -n 2 -r 2 -o -q x\nr.loops, r.repeat",
        "%%capture kept\nprint('a')\n7",
        "kept.stdout, len(kept.outputs)",
        "!echo $x {x + 1} '$x'",
        "files = !printf 'a\\nb\\n'\nfiles",
        "files.s, files.n",
        "!!echo a",
        "for i in range(2):\n    !echo in a block $i",
        "%%bash\necho a\necho b",
        "%%bash --no-raise-error\nexit 3",
        "%%writefile written.txt\none {x}\n",
        "%%writefile -a written.txt\ntwo",
        "open('written.txt').read()",
        "os.mkdir('below')\n%cd -q below\nhere = %pwd\nos.path.basename(here)",
        "%env WITH_VALUE={x}",
        "%env WITH_VALUE",
        "len.nothing?",
    ],
    "updates": ["from IPython.display import display, HTML\nh = display(HTML('1'), display_id='d')", "h.update(HTML('2'))"],
    "clear": ["from IPython.display import clear_output\nprint('gone')\nclear_output()\nprint('stays')", "print('a'); clear_output(wait=True); print('b')"],
    "errors": ["import json; json.loads('')", "1/0", "raise KeyError('k')", "def g(): return undefined_name\ng()", "import no_such_module"],
    "children": ["import subprocess, time; subprocess.run(['echo', 'child']).returncode", "time.sleep(1); print('after')"],
    "async": ["import asyncio\nawait asyncio.sleep(0)\n'awaited'"],
    "unicode": ["print('äöü €😀')", "'日本'", "print('\\x1b[31mred\\x1b[0m')"],
}

R = {
    "values": ["1 + 1", "x <- 5", "x * 2", "'text'", "c(a = 1, b = 2)", "invisible(3)", "NULL"],
    "streams": ["cat('a\\n'); cat('b\\n')", "message('e')", "for (i in 1:500) cat(i, '\\n')"],
    "functions": ["f <- function(n) 2 * n", "f(21)"],
    "warnings": ["warning('careful')", "as.integer('x')"],
    "errors": ["stop('bad')", "undefined_name", "log(-1)"],
    "plots": ["plot(1:3)", "hist(c(1, 2, 2, 3))"],
    "unicode": ["cat('äöü €\\n')"],
    "print": ["print(1:30)", "print('q')", "for (i in 1:2) print(i)"],
}


PICTURE = "image/png"


def notebook(cells, kernel, language):
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    nb.metadata.kernelspec = {"name": kernel, "display_name": kernel, "language": language}
    return nb


def run(corpus, kernel, language):
    """Runs all notebooks of a corpus in one kernel, one after the other."""
    km = AsyncKernelManager(kernel_name=kernel)
    run_sync(km.start_kernel)()
    done = {}
    for name, cells in corpus.items():
        done[name] = nb = notebook(cells, kernel, language)
        client = NotebookClient(nb, km=km, timeout=240, allow_errors=True)
        client.execute()
        client.kc.stop_channels()  # the next client has the same identity
        nbformat.validate(nb)
    run_sync(km.shutdown_kernel)()
    return done


def plain(text):
    text = re.sub(r"(<cell \d+>|\S*/ipykernel_\d+/\d+\.py):", "CELL:", text)
    text = re.sub(r"/\S*/tmp[a-z0-9_]{8}\b", "DIRECTORY", text)
    text = re.sub(r"[\d.e+]+ (ns|[μµ]s|ms|s)\b", "TIME", text)
    text = re.sub(r"<(?:[\w.]+\.)?(\w+)(?: object| at 0x[0-9a-f]+)+>", r"<\1 object>", text.replace("\r\n", "\n"))
    text = re.sub(r"\x1b\[[0-9;]*m", "", text) if text.count("\x1b") > 2 else text
    return re.sub(r"0x[0-9a-f]+", "0x", "".join(text)).rstrip("\n")


def normal(outputs, language):
    """Returns the compared part of a cell's outputs. It leaves out how the two streams are split and
    interleaved, which ipykernel does not preserve, and the layout of an error."""
    found, streams = [], {}
    for o in outputs:
        if o.output_type == "stream":
            if o.name not in streams:
                streams[o.name] = ["stream", o.name, ""]
                found.append(streams[o.name])
            streams[o.name][2] += o.text
        elif o.output_type == "error":
            found.append(["error", error_of(o, language)])
        else:
            found.append(value_of(o, language))
    for f in found:
        if f[0] == "stream":
            f[2] = plain(f[2])
            if language == "R" and f[1] == "stderr":
                f[2] = warning_of(f[2])
    return joined(in_order_of_kind(found)) if language == "R" else found


def joined(found):
    """Joins texts of values that follow each other, which repl's kernel sends together."""
    done = []
    for f in found:
        if done and f[0] == done[-1][0] == "value" and PICTURE not in (f[1], done[-1][1]) and isinstance(f[1], str) and isinstance(done[-1][1], str):
            done[-1][1] += " " + f[1]
        else:
            done.append(f)
    return done


def in_order_of_kind(found):
    """Puts what IRkernel sends at another time last: a picture, which it sends when the expression is done,
    and warnings, which it sends at once, while R itself waits until the expression is done."""
    return sorted(found, key=lambda f: (f[1] == PICTURE) + 2 * (f[:2] == ["stream", "stderr"]))


def warning_of(text):
    """Returns a warning without its layout, in which IRkernel differs from R."""
    text = re.sub(r"Warning messages?( in [^\n]*)?:\n(In [^\n]* : )?", "", text)
    text = re.sub(r"^\d+: | +$|\n(?=\n)", "", text, flags=re.M)
    return text.replace("“", "").replace("”", "").strip()


def error_of(o, language):
    if language == "R":  # IRkernel names every error ERROR, with R's sentence around the message
        text = re.sub(r"^Error( in [^\n]*?)?: ?\n?", "", o.evalue).strip()
        return re.sub(r"^<text>:\d+:\d+: |( in \"|\n\d+: ).*", "", text, flags=re.S)  # of syntax errors, with the place
    return [o.ename, re.sub(r"\([^()]*, line (\d+)\)$", r"(line \1)", o.evalue)]


def value_of(o, language):
    data = {m: plain(d) if isinstance(d, str) else d for m, d in o.data.items()}
    if language == "R":  # IRkernel displays values, also as types that R does not produce, and aligns tables to the left
        text = data.get("text/plain")
        return ["value", PICTURE if PICTURE in data else data if text is None else " ".join(text.split())]
    text, source = data.get("text/plain", ""), [data[m] for m in ("text/markdown", "text/latex") if m in data]
    if source and (text.endswith(" object>") or text in source):
        data.pop("text/plain", None)  # repl's kernel shows the source where ipykernel shows the name of a class
    data = {m: picture(o.data[m], o.metadata.get(m)) if m == PICTURE else "picture" if m.startswith("image/") and m != "image/svg+xml" else d for m, d in data.items()}
    return [o.output_type, data]


def picture(data, metadata):
    """Returns the size of a picture and how large it is shown, which is the compared part of it."""
    size = base64.b64decode(data)[16:24]
    return [int.from_bytes(size[:4], "big"), int.from_bytes(size[4:], "big"), metadata]


def compare(corpus, ours, theirs, language, different=()):
    """Compares the outputs of two kernels, and returns the number of cells that fail. Those in different must differ."""
    failed = 0
    with ThreadPoolExecutor() as pool:
        mine, other = pool.map(lambda kernel: run(corpus, kernel, language), (ours, theirs))
    for name in corpus:
        if name == "children":  # ipykernel shows their output late: after the value, in the next cell or, on a busy machine, never
            got, want = written(mine[name]), "".join(sorted("0child" "after"))
            if got != want:
                failed += 1
                print(f"{name}: ours: {got}, want: {want}")
            continue
        for a, b in zip(mine[name].cells, other[name].cells):
            got, want = normal(a.outputs, language), normal(b.outputs, language)
            if (got != want) != (a.source in different) or a.execution_count != b.execution_count:
                failed += 1
                print(f"{name}: {a.source!r}\n  ours [{a.execution_count}]:   {str(got)[:600]}\n  theirs [{b.execution_count}]: {str(want)[:600]}")
    return failed


def written(nb):
    """Returns all characters that a notebook shows, sorted, because a child's text may break into a line."""
    outputs = [o for cell in nb.cells for o in cell.outputs]
    text = "".join(o.get("text") or o["data"]["text/plain"] for o in outputs)
    return "".join(sorted(text.replace("\n", "")))


def papermill(kernel, language):
    """Papermill passes parameters to a notebook, and an error ends it."""
    cell = nbformat.v4.new_code_cell("n <- 1" if language == "R" else "n = 1")
    cell.metadata.tags = ["parameters"]
    nb = notebook(["n * 2"], kernel, language)
    nb.cells.insert(0, cell)
    bad = notebook(["1", "stop('end')" if language == "R" else "1/0", "2"], kernel, language)
    with tempfile.TemporaryDirectory() as d:
        def call(nb, *args):
            nbformat.write(nb, os.path.join(d, "in.ipynb"))
            done = subprocess.run([sys.executable, "-m", "papermill", "--no-progress-bar", "in.ipynb", "out.ipynb", *args], cwd=d, capture_output=True, text=True, timeout=120)
            return done, nbformat.read(os.path.join(d, "out.ipynb"), 4)

        done, out = call(nb, "-p", "n", "21")
        value = "".join(o.get("data", {}).get("text/plain", "") for o in out.cells[-1].outputs)
        assert done.returncode == 0 and "42" in value, (done, value)
        done, out = call(bad)
        assert done.returncode != 0 and out.cells[-1].execution_count is None, done


if __name__ == "__main__":
    if sys.argv[1] == "r":
        papermill("turnstone-r", "R")
        sys.exit(compare(R, "turnstone-r", "ir", "R"))
    papermill("turnstone-python", "python")
    sys.exit(compare(PYTHON, "turnstone-python", "python3", "python"))
