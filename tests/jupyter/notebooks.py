"""Runs notebooks in the manner of public ones through repl's kernel and ipykernel, and compares each cell.

The packages are those of the system, behind the ones of the environment: notebooks.py DIRECTORY."""

import re
import sys

import corpus

SETUP = [
    "import os, sys, tempfile\nsys.path.append(%r)\nwhere = tempfile.mkdtemp()" % sys.argv[1],
    # matplotlib before 3.7 lacks what the matplotlib_inline of ipykernel calls.
    "import matplotlib\nif not hasattr(matplotlib.RcParams, '_get'): matplotlib.RcParams._get = lambda self, key: dict.__getitem__(self, key)",
    "%cd -q {where}",
]

NOTEBOOKS = {
    "exploration of a table": [
        "import numpy as np\nimport pandas as pd\nimport matplotlib.pyplot as plt\n%matplotlib inline",
        "df = pd.DataFrame({'city': ['Oslo', 'Rome', 'Oslo', 'Bonn'], 'temp': [3.5, 18.0, 4.5, 11.0]})\ndf.head()",
        "df.describe()",
        "df.groupby('city').temp.mean()",
        "df.info()",
        "df['warm'] = df.temp > 10\ndf[df.warm]",
        "df.shape",
        "df.temp.plot.hist(bins=3)\nplt.title('Temperatures')\nplt.show()",
        "df.isnull().sum()",
        "df.no_such_column",
    ],
    "figures": [
        "%matplotlib inline\n%config InlineBackend.figure_format = 'png'\nimport matplotlib.pyplot as plt\nimport numpy as np\nplt.rcParams['figure.figsize'] = (4, 3)",
        "x = np.linspace(0, 2 * np.pi, 50)\nplt.plot(x, np.sin(x));",
        "fig, axes = plt.subplots(1, 2)\naxes[0].bar(['a', 'b'], [1, 2])\naxes[1].scatter(x, x ** 2)\nfig.tight_layout()",
        "for k in range(2):\n    plt.figure()\n    plt.plot(x, k * x)\n    plt.show()",
        "plt.plot([1, 2, 3])\nplt.xlabel('n')\n'a value after a plot'",
        "fig = plt.figure()\nax = fig.add_subplot(111)\nax.plot(x)\nplt.close(fig)",
        "plt.hist(x, bins=4)[0].tolist()",
        "%%capture shown\nplt.plot(x)\nprint('kept')",
        "shown.stdout, [sorted(o.data)[0] for o in shown.outputs][-1:]",
    ],
    "timing": [
        "import math\nn = 1000",
        "%timeit -n 2 -r 2 sum(range(n))",
        "%%timeit -n 2 -r 2 total = 0\nfor i in range(n):\n    total += i",
        "%time squares = [i * i for i in range(n)]\nlen(squares)",
        "%%time\ns = 0\nfor i in range(n):\n    s += math.sqrt(i)\nprint(round(s))",
        "best = %timeit -n 2 -r 3 -q -o sorted(squares)\nbest.repeat, best.loops, best.best > 0",
        "def slow(k):\n    %time sum(range(k))\n    return k\nslow(10)",
        "results = {}\nfor size in (10, 100):\n    t = %timeit -n 1 -r 1 -q -o sum(range(size))\n    results[size] = t.loops\nresults",
    ],
    "the shell": [
        "!echo Hello from the shell",
        "!mkdir -p data && echo one > data/a.txt && echo two > data/b.txt\n!ls data",
        "files = !ls data\nfiles",
        "for name in files:\n    !cat data/{name}",
        "pattern = 'two'\n!grep -l $pattern data/*.txt",
        "%%bash\ncd data\nfor f in *.txt; do\n  wc -l < $f\ndone",
        "count = !ls data | wc -l\nint(count[0])",
        "!no_such_command_at_all 2>/dev/null\n_exit_code != 0",
        "!cat data/*.txt | awk '{print $1 \"!\"}'",
        "%pwd\n%cd -q data\nos.listdir('.') and sorted(os.listdir('.'))",
        "%cd -q ..",
        "path = !pwd\npath[0] == os.getcwd()",
    ],
    "a project with its own module": [
        "%load_ext autoreload\n%autoreload 2\n%matplotlib inline\n\nimport warnings\nwarnings.filterwarnings('ignore')",
        "%%writefile helpers.py\n\"\"\"Helpers of the project.\"\"\"\n\ndef double(x):\n    return 2 * x\n",
        "sys.path.insert(0, '')\nimport helpers\nhelpers.double(21)",
        "helpers.__doc__",
        "%env PROJECT=demo\nos.environ['PROJECT']",
        "warnings.warn('not shown')",
        "out = !{sys.executable} -c 'import sys; print(sys.version_info[0])'\nout",
        "%reload_ext autoreload\nhelpers.double('ab')",
    ],
    "texts": [
        "import json, re\nfrom collections import Counter\nfrom IPython.display import HTML, Markdown, display",
        "text = '''The %time of the year:\n%matplotlib inline\n!ls is no command here\n'''\nprint(text)",
        "Counter(re.findall(r'\\w+', text.lower())).most_common(3)",
        "display(Markdown('**bold**'))\nHTML('<b>bold</b>')",
        "print(json.dumps({'a': [1, 2]}, indent=2))",
        "words = text.split()\n# %who is missing?\nlen(words)",
        "'%d words' % len(words)",
        "value = (17\n         %5)\nvalue",
        "print('50%', 10 %\n      3)",
    ],
    "a simulation": [
        "import numpy as np\nrng = np.random.default_rng(0)",
        "%%time\nwalk = rng.normal(size=1000).cumsum()\nprint(walk.shape)",
        "%%capture log\nfor step in range(3):\n    print('step', step)\nprint('warning', file=sys.stderr)",
        "log.stdout.splitlines()[-1], log.stderr",
        "log.show()",
        "walk.min() < walk.max(), walk[:3].round(3)",
        "%%capture\nprint('never seen')",
        "np.set_printoptions(precision=2)\nwalk[:4]",
        "%time np.sort(walk)[:2].shape",
    ],
    "functions and classes": [
        "def greet(name='you'):\n    \"\"\"Greets.\"\"\"\n    return f'Hello {name}'\n\ngreet()",
        "class Money:\n    def __init__(self, n): self.n = n\n    def __repr__(self): return f'Money({self.n})'\n    def _repr_html_(self): return f'<b>{self.n}</b>'\nMoney(3)",
        "[Money(1), Money(2)]",
        "display(Money(4))\nprint('after')",
        "class Own:\n    def _ipython_display_(self): print('shows itself')\nOwn()",
        "class Pretty:\n    def _repr_pretty_(self, p, cycle): p.text('Pretty!')\nPretty()",
        "import inspect\nprint(inspect.getsource(greet))",
        "_",
        "async def later(): return 5\nawait later()",
        "%config Application.log_level = 30\ngreet.__name__",
    ],
    "errors": [
        "%matplotlib inline\nimport sys\nprint('out')\nprint('err', file=sys.stderr)\n1 / 0",
        "open('no/such/file')",
        "import json\njson.loads('{')",
        "try:\n    !true\n    raise ValueError('own')\nexcept ValueError as e:\n    print('caught', e)",
        "%time len([])",
        "%%time\nundefined_name",
        "def f():\n    return g()\ndef g():\n    raise KeyError('deep')\nf()",
        "for = 1",
        "%matplotlib inline\nx = = 2",
        "assert 1 == 2, 'not equal'",
    ],
    "data in files": [
        "%%writefile scores.csv\nname,score\nAda,9.5\nBob,7.25\nCyd,8.0\n",
        "import csv\nwith open('scores.csv') as f:\n    rows = list(csv.DictReader(f))\nrows[0]",
        "import pandas as pd\nscores = pd.read_csv('scores.csv')\nscores",
        "scores.sort_values('score', ascending=False).head(2)",
        "!head -2 scores.csv",
        "scores.to_json('scores.json')\n!cat scores.json",
        "import sqlite3\ndb = sqlite3.connect(':memory:')\nscores.to_sql('scores', db, index=False)\npd.read_sql('select count(*) as n from scores', db)",
        "lines = !wc -l < scores.csv\nint(lines[0])",
        "%%writefile -a scores.csv\nDan,6\n",
        "len(pd.read_csv('scores.csv'))",
    ],
}


def figures(value_of):
    """Leaves out the text of a figure, which repl's kernel does not send with its image."""

    def value(o, language):
        kind, data = value_of(o, language)
        if data.get("image/png") and re.match(r"<Figure size .* with \d+ Axes>$", data.get("text/plain", "")):
            data.pop("text/plain")
        return [kind, data]

    return value


def notices(normal):
    """Leaves out the notice that autoreload does nothing."""

    def outputs(outputs, language):
        return [o for o in normal(outputs, language) if not (o[:2] == ["stream", "stderr"] and o[2].startswith("[%autoreload "))]

    return outputs


if __name__ == "__main__":
    corpus.value_of, corpus.normal = figures(corpus.value_of), notices(corpus.normal)
    sys.exit(corpus.compare({name: SETUP + cells for name, cells in NOTEBOOKS.items()}, "turnstone-python", "python3", "python"))
