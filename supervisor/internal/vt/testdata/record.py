"""Records programs at a terminal, with what tmux shows for the same bytes.

usage: record.py [NAME...]

For each name, NAME.raw gets the output of a program at a terminal of 40 rows and 120 columns, whose
kernel leaves newlines alone as in a session (OPOST off). NAME.txt gets one line about the terminal, and
then the picture of tmux. The line has the cursor's row and column, and "return" if a newline must
return to the first column. That is so unless the program says otherwise by its modes: it clears ONLCR,
or it clears all input modes and signals, as cfmakeraw does. IGNBRK is set before to see the second.

PYTHON is a Python with prompt_toolkit, questionary, rich and textual. PYTHON313 is Python 3.13. BUBBLETEA
is a program made with bubbletea v2: a menu in which "a" shows the alternate screen.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = os.environ.get("PYTHON", "python3")
WORK = os.path.join(tempfile.gettempdir(), "vt-recordings")

PROGRAMS = {
    "cbreak.py": """
import sys, tty
tty.setcbreak(0)
print("first line")
print("second line\\n\\nafter a blank")
for i in range(3):
    print(f"press a key {i}: ", end="", flush=True)
    print(f"got {sys.stdin.read(1)!r}")
sys.stdin.read(1)
""",
    "menu.py": """
import curses
def main(w):
    curses.curs_set(0)
    curses.use_default_colors()
    at = 0
    while True:
        w.erase()
        w.box()
        w.addstr(1, 2, "choose one")
        for i, text in enumerate(["alpha", "beta", "gamma", "delta"]):
            w.addstr(3 + i, 4, text.ljust(20), curses.A_REVERSE if i == at else 0)
        w.addstr(12, 2, "\u65e5\u672c\u8a9e wide")
        w.addstr(38, 100, "bottom")
        w.refresh()
        if w.getch() == curses.KEY_DOWN:
            at += 1
curses.wrapper(main)
""",
    "table.py": """
import time
from rich.console import Console
from rich.progress import track
from rich.table import Table
c = Console(force_terminal=True, width=120)
t = Table(title="Stars")
t.add_column("name", style="cyan")
t.add_column("mass", justify="right", style="bold red on white")
for i in range(8):
    t.add_row(f"star {i}", str(i * 1.5))
c.print(t)
for i in track(range(4), console=c):
    time.sleep(0.05)
c.print("[bold magenta]done[/] [reverse]reversed[/]")
input("next? ")
""",
    "prompt.py": """
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import WordCompleter
s = PromptSession(completer=WordCompleter(["apple", "apricot", "banana"]), bottom_toolbar="tool bar")
while True:
    print("got", repr(s.prompt("name> ")))
""",
    "choose.py": """
import questionary
print(questionary.select("Which?", choices=["one", "two", "three"]).ask())
print(questionary.checkbox("Many?", choices=["one", "two", "three"]).ask())
""",
    "form.py": """
from textual.app import App
from textual.widgets import Input, OptionList
class Form(App):
    def compose(self):
        yield OptionList("alpha", "beta", "gamma")
        yield Input(placeholder="your name")
Form().run()
""",
    "lines.txt": "".join(f"line {i}: the quick brown fox\tjumps over {'x' * (i % 7 * 20)}\n" for i in range(1, 200)),
    "wide.txt": "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8 and ascii\nna\u00efve caf\u00e9 e\u0301a\u0308\n\ud55c\uad6d\uc5b4\n" + "\u6f22\u5b57" * 70 + "\nend\n",
}

# The command and the keys of each recording. A key of one letter or in lower case is typed.
RECORDINGS = {
    "bash": (["bash", "--norc"], ["echo " + "long words " * 14, "Home", "C-k", "printf 'a\\tb\\nc\\n'", "Enter", "C-r", "pri"]),
    "bubbletea": ([os.environ.get("BUBBLETEA", "bubbletea")], ["Down", "Down", "x"]),
    "bubbletea-alternate": ([os.environ.get("BUBBLETEA", "bubbletea")], ["a", "Down", "Down", "x", "Down"]),
    "cbreak": ([PYTHON, "cbreak.py"], ["a", "b"]),
    "curses": ([PYTHON, "menu.py"], ["Down", "Down"]),
    "dialog": (["dialog", "--menu", "choose an entry", "15", "50", "5", "a", "first", "b", "second", "c", "third"], ["Down", "Down"]),
    "fzf": (["sh", "-c", "seq 1 300 | fzf --multi --header=pick"], ["7", "Up", "Up", "Tab"]),
    "fzf-inline": (["sh", "-c", "seq 1 300 | fzf --height=10 --layout=reverse"], ["2", "Down"]),
    "less": (["less", "lines.txt"], ["Space", "Space", "b", "/line 1[0-9]0", "Enter", "n"]),
    "nano": (["nano", "lines.txt"], ["Down", "Down", "hello", "Enter", "world", "PageDown", "C-w", "line 9", "Enter", "C-k"]),
    "prompt-toolkit": ([PYTHON, "prompt.py"], ["hello", "Enter", "ap", "Tab", "Tab"]),
    "pyrepl": ([os.environ.get("PYTHON313", "python3.13"), "-q"], ["def f(x):", "Enter", "return x", "Enter", "Enter", "f(3)", "Enter", "Up"]),
    "questionary": ([PYTHON, "choose.py"], ["Down", "Enter", "Space", "Down"]),
    "rich": ([PYTHON, "table.py"], ["yes"]),
    "textual": ([PYTHON, "form.py"], ["Down", "Down"]),
    "vim": (["vim", "-n", "-u", "NONE", "-N", "lines.txt"], ["50j", ":set number", "Enter", "dd", "Oinserted text", "Escape", ":split", "Enter", "30k", "/line 77", "Enter"]),
    "vim-wide": (["vim", "-n", "-u", "NONE", "-N", "wide.txt"], ["jj", "A\u6f22\u5b57", "Escape", "ggx", "Ghhx"]),
}

LINE_DRAWING = dict(zip("`afgijklmnopqrstuvwxyz{|}~", "◆▒°±␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·"))


def tmux(*arguments):
    environment = dict(os.environ, LC_ALL="C.UTF-8")
    return subprocess.run(["tmux", "-u", "-L", "vt-record", "-f", os.devnull, *arguments], capture_output=True, env=environment, text=True).stdout


def start(script):
    tmux("kill-server")
    time.sleep(0.2)
    tmux("new-session", "-d", "-x", "120", "-y", "40", "-s", "s", "sh", "-c", script)
    tmux("set", "-g", "status", "off")
    tmux("resize-window", "-t", "s", "-x", "120", "-y", "40")


def picture():
    text = re.sub("\x1b\\[[0-9;:]*m|\x1b\\][^\x1b]*\x1b\\\\", "", tmux("capture-pane", "-e", "-p", "-t", "s"))
    text = re.sub("\x0e([^\x0f]*)(\x0f|$)", lambda m: "".join(LINE_DRAWING.get(c, c) for c in m[1]), text)
    return "\n".join(line.rstrip(" ") for line in text.split("\n")).rstrip("\n") + "\n"


def newline_returns():
    modes = subprocess.run(["stty", "-a", "-F", tmux("display", "-p", "-t", "s", "#{pane_tty}").strip()], capture_output=True, text=True).stdout.replace(";", " ").split()
    made_raw = "-isig" in modes and "-ignbrk" in modes
    return "-opost" in modes and "onlcr" in modes and not made_raw


def record(name):
    command, keys = RECORDINGS[name]
    raw = os.path.join(HERE, name + ".raw")
    for each in (raw, os.path.join(WORK, "go")):
        if os.path.exists(each):
            os.unlink(each)
    start(
        f"cd {WORK}; export HOME=$PWD TERM=xterm-256color COLORTERM= LC_ALL=C.UTF-8 PS1='$ '; unset TMUX; "
        f"while [ ! -e go ]; do sleep .05; done; stty -opost ignbrk; exec {shlex.join(command)}"
    )
    tmux("pipe-pane", "-t", "s", f"cat > {raw}")
    open(os.path.join(WORK, "go"), "w").close()
    time.sleep(2)
    for key in keys:
        named = len(key) > 1 and (key[0].isupper() and key.isalpha() and key.isascii() or key.startswith("C-"))
        tmux("send-keys", "-t", "s", *([key] if named else ["-l", key]))
        time.sleep(0.35)
    time.sleep(0.5)
    returns = newline_returns()
    start(f"stty raw -echo {'opost onlcr' if returns else ''}; cat {raw}; sleep 60")
    time.sleep(1)
    cursor = tmux("display", "-p", "-t", "s", "#{cursor_y} #{cursor_x}").strip()
    with open(os.path.join(HERE, name + ".txt"), "w") as f:
        f.write(cursor + (" return" if returns else "") + "\n" + picture())
    tmux("kill-server")


if __name__ == "__main__":
    os.makedirs(WORK, exist_ok=True)
    for file, text in PROGRAMS.items():
        with open(os.path.join(WORK, file), "w") as f:
            f.write(text)
    for name in sys.argv[1:] or RECORDINGS:
        record(name)
        print(name, flush=True)
