//go:build unix

package e2e

import (
	"context"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/replbin"
)

// rawKeysCode is a program, in the runtime itself, that reads each key until a q.
const rawKeysCode = `
def keys(change="setraw"):
    import os, signal, sys, termios, tty
    signal.signal(signal.SIGWINCH, lambda *_: os.write(1, b"painted\r\n"))
    before = termios.tcgetattr(0)
    getattr(tty, change)(0)
    os.write(1, b"\x1b[?1049hre" + b"ady\nnext")
    got = b""
    while not got.endswith(b"q"):
        got += os.read(0, 100)
    os.write(1, b"\x1b[?1049l")
    termios.tcsetattr(0, termios.TCSADRAIN, before)
    signal.signal(signal.SIGWINCH, signal.SIG_DFL)
    return got
`

// newProgramTerminal starts repl in a terminal that programs can use, and defines the function raw.
func newProgramTerminal(t *testing.T, h home, args ...string) *terminalUser {
	t.Helper()
	h.env = append(h.env, "TERM=xterm-256color", "NO_COLOR=")
	p := h.startAtPrompt(t, args...)
	p.pasteDefinitions(rawKeysCode)
	return p
}

// pasteDefinitions pastes code.
func (u *terminalUser) pasteDefinitions(code string) {
	u.t.Helper()
	u.typeKeys("\x1b[200~" + code + "\x1b[201~\r")
	u.waitText("return got")
	u.waitText(">>> ")
}

func TestFullScreen(t *testing.T) {
	t.Parallel()

	// The common recipe for reading one key uses sys.stdin.
	t.Run("standard input gives each key in raw and cbreak mode", func(t *testing.T) {
		t.Parallel()
		p := newProgramTerminal(t, newHome(t))
		p.pasteDefinitions(`
def key(change="setcbreak", stream="sys.stdin"):
    import sys, termios, tty
    before = termios.tcgetattr(0)
    getattr(tty, change)(0)
    print("re" + "ady", end="", flush=True)
    try:
        got = eval(stream).read(1)
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
    return got
`)
		for call, want := range map[string]string{"key()": "'x'", "key('setraw')": "'x'", "key(stream='sys.stdin.buffer')": "b'x'"} {
			p.enterLine(call)
			p.waitText("ready")
			p.typeKeys("x")
			p.waitText(want)
			p.waitText(">>> ")
		}
		p.enterLine("key()")
		p.waitText("ready")
		p.typeKeys(ctrlC)
		p.waitText("KeyboardInterrupt")
		p.waitText(">>> ")
		p.enterLine("input('Who' + '? ')")
		p.waitText("Who? ")
		p.enterLine("Ann")
		p.waitText("'Ann'")
		p.waitText(">>> ")
		p.typeKeys(ctrlD)
		p.waitExit(0)
	})

	t.Run("a program gets each key and its output is unchanged", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		p := newProgramTerminal(t, h)
		p.enterLine("keys()")
		p.waitText("ready\nnext") // a line feed that no terminal has changed
		p.typeKeys("a\r\x03\x1b[A\x1cä")
		p.typeKeys("q")
		p.waitText(`b'a\r\x03\x1b[A\x1c\xc3\xa4q'`)
		p.waitText(">>> ")
		p.enterLine("'the prompt ' + 'edits'")
		p.waitText("\r\n'the prompt edits'\r\n")
		p.waitText(">>> ")
		p.typeKeys(ctrlD)
		p.waitExit(0)
		h.wantNothingLeft(t)
	})

	t.Run("typed-ahead text goes to the program", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		p := newProgramTerminal(t, h)
		p.enterLine("import os, time; print('o' + 'n', flush=True); [time.sleep(.01) for _ in iter(lambda: os.path.exists('go'), True)]; keys()")
		p.waitText("\r\non\r\n")
		p.typeKeys("ahead")
		h.writeFile(t, "go", "")
		p.waitText("ready")
		p.typeKeys("q")
		p.waitText("b'aheadq'")
	})

	t.Run("two Ctrl-backslashes take the keys back", func(t *testing.T) {
		t.Parallel()
		p := newProgramTerminal(t, newHome(t))
		p.enterLine("keys()")
		p.waitText("ready")
		p.raw = ""
		p.typeKeys("\x1c\x1c")
		p.waitDrawn("\x1b[?1049l")
		p.waitText("KeyboardInterrupt")
		p.waitText(">>> ")
		p.enterLine("keys()") // the next program gets them
		p.waitText("ready")
		p.typeKeys("\x1cq")
		p.waitText(`b'\x1cq'`)
	})

	t.Run("an interrupt is a signal to the program", func(t *testing.T) {
		t.Parallel()
		p := newProgramTerminal(t, newHome(t))
		p.enterLine(`import signal; _ = signal.signal(signal.SIGINT, lambda *_: os.write(1, b"str" + b"uck\r\n")); import os; keys("setcbreak")`)
		p.waitText("ready")
		p.typeKeys(ctrlC)
		p.waitText("struck")
		p.typeKeys("q")
		p.waitText("b'q'")
	})

	t.Run("a program is redrawn after a suspend", func(t *testing.T) {
		t.Parallel()
		bash, err := exec.LookPath("bash")
		if err != nil {
			t.Skip("bash is not installed")
		}
		h := newHome(t)
		h.env = append(h.env, "PS1=$ ", "TERM=xterm-256color")
		p := h.startProgram(t, exec.CommandContext(context.Background(), bash, "--norc", "--noprofile", "-i"))
		p.waitText("$ ")
		p.enterLine(replbin.Path())
		p.waitText("Ctrl-D ends.")
		p.waitText(">>> ")
		p.pasteDefinitions(rawKeysCode)
		p.enterLine("keys()")
		p.waitText("ready")
		p.raw = ""
		p.typeKeys("\x1a")
		p.waitDrawn("\x1b[?1049l")
		p.waitText("Stopped")
		p.waitText("$ ")
		p.raw = ""
		p.enterLine("fg")
		p.waitDrawn("\x1b[?1049h")
		p.waitText("painted")
		p.typeKeys("aq")
		p.waitText("b'aq'")
		p.waitText(">>> ")
		p.typeKeys(ctrlD)
		p.waitText("$ ")
		p.typeKeys("exit\r")
		p.waitExit(0)
	})

	t.Run("a curses program is redrawn after a suspend", func(t *testing.T) {
		t.Parallel()
		bash, err := exec.LookPath("bash")
		if err != nil {
			t.Skip("bash is not installed")
		}
		h := newHome(t)
		h.env = append(h.env, "PS1=$ ", "TERM=xterm-256color")
		p := h.startProgram(t, exec.CommandContext(context.Background(), bash, "--norc", "--noprofile", "-i"))
		p.waitText("$ ")
		p.enterLine(replbin.Path())
		p.waitText("Ctrl-D ends.")
		p.waitText(">>> ")
		p.pasteDefinitions(cursesCode)
		p.enterLine("curses()")
		p.waitText("ready")
		p.typeKeys("\x1a")
		p.waitText("Stopped")
		p.waitText("$ ")
		p.enterLine("fg")
		p.waitText("painted 1")
		p.waitText("painted 2") // in its own size again
		p.typeKeys("q")
		p.waitText("b'q'")
		p.waitText(">>> ")
		p.typeKeys(ctrlD)
		p.waitText("$ ")
		p.typeKeys("exit\r")
		p.waitExit(0)
	})

	t.Run("a kill restores the terminal", func(t *testing.T) {
		t.Parallel()
		for by, end := range map[syscall.Signal]func(*terminalUser){
			syscall.SIGTERM: func(p *terminalUser) { _ = p.cmd.Process.Signal(syscall.SIGTERM) },
			syscall.SIGQUIT: func(p *terminalUser) { p.typeKeys("\x1c\x1c\x1c") }, // two take the keys back
		} {
			t.Run("repl, by "+by.String(), func(t *testing.T) {
				t.Parallel()
				h := newHome(t)
				p := newProgramTerminal(t, h)
				p.enterLine("keys()")
				p.waitText("ready")
				p.raw = ""
				end(p)
				p.waitDrawn("\x1b[?1049l")
				p.waitExit(128 + int(by))
				h.wantNothingLeft(t)
			})
		}
		t.Run("the runtime", func(t *testing.T) {
			t.Parallel()
			p := newProgramTerminal(t, newHome(t))
			p.enterLine("import os, signal; _ = signal.signal(signal.SIGINT, lambda *_: os.kill(os.getpid(), 9)); keys('setcbreak')")
			p.waitText("ready")
			p.typeKeys(ctrlC)
			p.waitText("killed by SIGKILL")
			p.waitText(">>> ")
			p.enterLine("'a new ' + 'one'")
			p.waitText("\r\n'a new one'\r\n")
		})
	})

	t.Run("an interrupt ends the job of a shell and not the turn", func(t *testing.T) {
		t.Parallel()
		if _, err := exec.LookPath("bash"); err != nil {
			t.Skip("bash is not installed")
		}
		h := newHome(t)
		h.env = append(h.env, "PS1=$ ")
		p := newProgramTerminal(t, h)
		p.enterLine("import os; os.system('bash --norc --noprofile -i')")
		p.waitText("$ ")
		p.typeKeys("sh -c 'echo o\"\"n; exec sleep 1000'\r") // a job that prints is in the foreground
		p.waitText("on\r\n")
		p.typeKeys(ctrlC)
		p.waitText("$ ")
		p.typeKeys("exit 3\r")
		p.waitText("768") // the status of the shell, and no KeyboardInterrupt
		p.waitText(">>> ")
	})
}

// cursesCode is a program that behaves like a curses program such as htop. When it reads its keys
// it checks the size, and redraws its screen only if the size has changed.
const cursesCode = `
def curses():
    import os, select, signal, termios, tty
    signal.signal(signal.SIGWINCH, lambda *_: None)
    woken, wake = os.pipe2(os.O_NONBLOCK)
    signal.set_wakeup_fd(wake)
    before, known, got, painted = termios.tcgetattr(0), os.get_terminal_size(0), b"", 0
    tty.setraw(0)
    os.write(1, b"\x1b[?1049hre" + b"ady")
    while not got.endswith(b"q"):
        ready = select.select([0, woken], [], [])[0]
        if 0 in ready:
            got += os.read(0, 100)
        if woken in ready:
            os.read(woken, 100)
            if os.get_terminal_size(0) != known:
                known, painted = os.get_terminal_size(0), painted + 1
                os.write(1, b"painted %d\r\n" % painted)
    os.write(1, b"\x1b[?1049l")
    termios.tcsetattr(0, termios.TCSADRAIN, before)
    signal.set_wakeup_fd(-1)
    return got
`

func TestTerminalEnvironment(t *testing.T) {
	t.Parallel()

	t.Run("help opens in the pager of the user", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		h.env = append(h.env, "PAGER=echo a page; true")
		p := newProgramTerminal(t, h)
		p.enterLine("help(len)")
		p.waitText("a page")
		p.waitText(">>> ")
		p.enterLine("len?")
		p.waitText("a page")
	})

	t.Run("help of R opens in the pager of the user", func(t *testing.T) {
		t.Parallel()
		h := newRHome(t)
		h.env = append(h.env, "PAGER=echo a page", "TERM=xterm-256color")
		p := h.startTerminal(t, "--lang", "r")
		p.waitText("Ctrl-D ends.")
		p.waitText("> ")
		p.enterLine("?mean")
		p.waitText("a page")
		p.waitText("> ")
		p.enterLine("file.show(system.file('DESCRIPTION', package = 'base'), header = 'top')")
		p.waitText("a page")
	})

	t.Run("programs see the real terminal type, agents see dumb", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		h.env = append(h.env, "PAGER=most")
		p := newProgramTerminal(t, h)
		p.enterLine("import os; [os.environ[n] for n in ('TERM', 'PAGER')]")
		p.waitText("['xterm-256color', 'most']")
		h.env = append(h.env, "TERM=xterm-256color")
		wantResult(t, h.runRepl(t, "", "-e", "import os; [os.environ[n] for n in ('TERM', 'PAGER')]"), result{"['dumb', 'cat']\n", "", 0})
	})

	// From 3.13 on, CPython colours errors for a user. An agent's errors never have colours,
	// whatever its environment asks for.
	t.Run("errors have the colors of the runtime", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		p := newProgramTerminal(t, h)
		p.enterLine("import sys; sys.version_info >= (3, 13)")
		p.waitText("\r\n")
		coloured := p.waitText("e\r\n") == "Tru"
		p.waitText(">>> ")
		p.raw = ""
		p.enterLine("1/0")
		p.waitText("ZeroDivisionError")
		p.waitText(">>> ")
		if got := hasErrorColor(p.raw); got != coloured {
			t.Errorf("colours %t, want %t: %q", got, coloured, p.raw)
		}
		h.env = append(h.env, "FORCE_COLOR=1", "TERM=xterm-256color")
		if r := h.runRepl(t, "", "-e", "1/0"); hasErrorColor(r.stderr) {
			t.Errorf("got %q", r.stderr)
		}
	})
}

func hasErrorColor(text string) bool {
	return strings.Contains(text, "\x1b[35m") || strings.Contains(text, "\x1b[1;35m")
}
