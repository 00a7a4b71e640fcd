"""Runs notebooks in the manner of public ones through repl's kernel and the original, and compares each cell.

For Python, the packages are those of the system, behind the ones of the environment: notebooks.py python
DIRECTORY, or notebooks.py r."""

import sys

import corpus
import notebooks_python
import notebooks_r

SETUP = [
    "import os, sys, tempfile\nsys.path += %r\nwhere = tempfile.mkdtemp()" % sys.argv[2:],
    # matplotlib before 3.7 lacks what the matplotlib_inline of ipykernel calls.
    "import matplotlib\nif not hasattr(matplotlib.RcParams, '_get'): matplotlib.RcParams._get = lambda self, key: dict.__getitem__(self, key)",
    "%cd -q {where}",
]

# Cells whose outputs must differ, and why. A cell that no longer differs is a failure, so that the list stays short.
DIFFERENT = {
    "answer = input('Continue? ')": "without input there is an end of file, as in a script",
    "import getpass\ngetpass.getpass('Key: ')": "without input there is an end of file, as in a script",
    "%%bash\nset -e\ntr '[:upper:]' '[:lower:]' < poem.txt > lower.txt\ngrep -c 'the' lower.txt\necho done >&2": "child processes share one terminal",
    "%%bash\nfalse\necho not reached by default\nexit 4": "the error names the program, where ipykernel repeats the script as bytes",
    "class Broken:\n    def _repr_html_(self): raise ValueError('no table')\n    def __repr__(self): return 'Broken'\nBroken()": "a notice, because the cell does not fail",
    "asyncio.get_running_loop().is_running()": "the loop runs only in cells that await, so asyncio.run works",
    "_, __": "only the last value is kept, so that others are freed",
    "Out[7] if 'Out' in globals() else None, In[1][:6]": "only the last value is kept, so that others are freed",
    "plt.plot([1, 2])\nno_such_name": "the figure comes before the error",
    "exit_words = ['quit']\n%whos str": "a list of the session's own, with shapes",
    "print(df)\ndf[0, ]": "R's own text of a table without rows",
    "anova(fit)": "R's own text of a table with significance stars",
    "library(tibble)\ntibble(a = 1:2, b = c('x', 'y'))": "the text of the package pillar, as in R",
    "cat('to stderr\\n', file = stderr()); 'value'": "IRkernel loses what is written to stderr()",
    "display_json('{\"a\": 1}')": "IRkernel sends JSON as a text",
    "interactive()": "a session can be asked, and is interactive",
}


def notices(normal):
    """Leaves out the notice that autoreload does nothing."""

    def outputs(outputs, language):
        return [o for o in normal(outputs, language) if not (o[:2] == ["stream", "stderr"] and o[2].startswith("[%autoreload "))]

    return outputs


if __name__ == "__main__":
    corpus.normal = notices(corpus.normal)
    if sys.argv[1] == "r":
        sys.exit(corpus.compare(notebooks_r.NOTEBOOKS, "turnstone-r", "ir", "R", DIFFERENT))
    notebooks = {name: SETUP + cells for name, cells in notebooks_python.NOTEBOOKS.items()}
    sys.exit(corpus.compare(notebooks, "turnstone-python", "python3", "python", DIFFERENT))
