//go:build unix

package e2e

import (
	"context"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// raw is a program, in the runtime itself, that takes each key until a q.
const raw = `
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

// withPrograms sits down at a terminal that programs can use, with raw defined.
func withPrograms(t *testing.T, h home, args ...string) *person {
	t.Helper()
	h.env = append(h.env, "TERM=xterm-256color", "NO_COLOR=")
	p := h.sitDown(t, args...)
	p.defines(raw)
	return p
}

// defines pastes code.
func (p *person) defines(code string) {
	p.t.Helper()
	p.types("\x1b[200~" + code + "\x1b[201~\r")
	p.sees("return got")
	p.sees(">>> ")
}

// The usual recipe for one key reads sys.stdin.
func TestScreen_StandardInputGivesEachKeyInTheModeForThat(t *testing.T) {
	t.Parallel()
	p := withPrograms(t, newHome(t))
	p.defines(`
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
		p.enters(call)
		p.sees("ready")
		p.types("x")
		p.sees(want)
		p.sees(">>> ")
	}
	p.enters("key()")
	p.sees("ready")
	p.types(ctrlC)
	p.sees("KeyboardInterrupt")
	p.sees(">>> ")
	p.enters("input('Who' + '? ')")
	p.sees("Who? ")
	p.enters("Ann")
	p.sees("'Ann'")
	p.sees(">>> ")
	p.types(ctrlD)
	p.leaves(0)
}

func TestScreen_AProgramGetsEachKeyAndWritesToTheTerminalAsItIs(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	p := withPrograms(t, h)
	p.enters("keys()")
	p.sees("ready\nnext") // a line feed that no terminal turns into more
	p.types("a\r\x03\x1b[A\x1cä")
	p.types("q")
	p.sees(`b'a\r\x03\x1b[A\x1c\xc3\xa4q'`)
	p.sees(">>> ")
	p.enters("'the prompt ' + 'edits'")
	p.sees("\r\n'the prompt edits'\r\n")
	p.sees(">>> ")
	p.types(ctrlD)
	p.leaves(0)
	h.leavesNothing(t)
}

func TestScreen_WhatWasTypedAheadIsForTheProgram(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	p := withPrograms(t, h)
	p.enters("import os, time; print('o' + 'n', flush=True); [time.sleep(.01) for _ in iter(lambda: os.path.exists('go'), True)]; keys()")
	p.sees("\r\non\r\n")
	p.types("ahead")
	h.file(t, "go", "")
	p.sees("ready")
	p.types("q")
	p.sees("b'aheadq'")
}

func TestScreen_TwoCtrlBackslashesTakeTheKeysBack(t *testing.T) {
	t.Parallel()
	p := withPrograms(t, newHome(t))
	p.enters("keys()")
	p.sees("ready")
	p.raw = ""
	p.types("\x1c\x1c")
	p.draws("\x1b[?1049l")
	p.sees("KeyboardInterrupt")
	p.sees(">>> ")
	p.enters("keys()") // the next one gets them
	p.sees("ready")
	p.types("\x1cq")
	p.sees(`b'\x1cq'`)
}

func TestScreen_CtrlCIsTheProgramsOwnSignal(t *testing.T) {
	t.Parallel()
	p := withPrograms(t, newHome(t))
	p.enters(`import signal; _ = signal.signal(signal.SIGINT, lambda *_: os.write(1, b"str" + b"uck\r\n")); import os; keys("setcbreak")`)
	p.sees("ready")
	p.types(ctrlC)
	p.sees("struck")
	p.types("q")
	p.sees("b'q'")
}

func TestScreen_SuspendedItIsPaintedAnew(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	h := newHome(t)
	h.env = append(h.env, "PS1=$ ", "TERM=xterm-256color")
	p := h.startProgram(t, exec.CommandContext(context.Background(), bash, "--norc", "--noprofile", "-i"))
	p.sees("$ ")
	p.enters(binary())
	p.sees("Ctrl-D ends.")
	p.sees(">>> ")
	p.defines(raw)
	p.enters("keys()")
	p.sees("ready")
	p.raw = ""
	p.types("\x1a")
	p.draws("\x1b[?1049l")
	p.sees("Stopped")
	p.sees("$ ")
	p.raw = ""
	p.enters("fg")
	p.draws("\x1b[?1049h")
	p.sees("painted")
	p.types("aq")
	p.sees("b'aq'")
	p.sees(">>> ")
	p.types(ctrlD)
	p.sees("$ ")
	p.types("exit\r")
	p.leaves(0)
}

// curses is a program like those that use curses, such as htop: when it comes to its keys it looks
// at the size, and draws its screen anew only if that is another one.
const curses = `
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

func TestScreen_SuspendedAProgramOfCursesIsPaintedAnew(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	h := newHome(t)
	h.env = append(h.env, "PS1=$ ", "TERM=xterm-256color")
	p := h.startProgram(t, exec.CommandContext(context.Background(), bash, "--norc", "--noprofile", "-i"))
	p.sees("$ ")
	p.enters(binary())
	p.sees("Ctrl-D ends.")
	p.sees(">>> ")
	p.defines(curses)
	p.enters("curses()")
	p.sees("ready")
	p.types("\x1a")
	p.sees("Stopped")
	p.sees("$ ")
	p.enters("fg")
	p.sees("painted 1")
	p.sees("painted 2") // in its own size again
	p.types("q")
	p.sees("b'q'")
	p.sees(">>> ")
	p.types(ctrlD)
	p.sees("$ ")
	p.types("exit\r")
	p.leaves(0)
}

func TestScreen_KilledInTheMiddleItLeavesTheTerminalAsItWas(t *testing.T) {
	t.Parallel()
	for by, end := range map[syscall.Signal]func(*person){
		syscall.SIGTERM: func(p *person) { _ = p.cmd.Process.Signal(syscall.SIGTERM) },
		syscall.SIGQUIT: func(p *person) { p.types("\x1c\x1c\x1c") }, // two take the keys back
	} {
		t.Run("repl, by "+by.String(), func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			p := withPrograms(t, h)
			p.enters("keys()")
			p.sees("ready")
			p.raw = ""
			end(p)
			p.draws("\x1b[?1049l")
			p.leaves(128 + int(by))
			h.leavesNothing(t)
		})
	}
	t.Run("the runtime", func(t *testing.T) {
		t.Parallel()
		p := withPrograms(t, newHome(t))
		p.enters("import os, signal; _ = signal.signal(signal.SIGINT, lambda *_: os.kill(os.getpid(), 9)); keys('setcbreak')")
		p.sees("ready")
		p.types(ctrlC)
		p.sees("killed by SIGKILL")
		p.sees(">>> ")
		p.enters("'a new ' + 'one'")
		p.sees("\r\n'a new one'\r\n")
	})
}

func TestScreen_AShellsJobIsInterruptedAndNotTheTurn(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("bash is not installed")
	}
	h := newHome(t)
	h.env = append(h.env, "PS1=$ ")
	p := withPrograms(t, h)
	p.enters("import os; os.system('bash --norc --noprofile -i')")
	p.sees("$ ")
	p.types("sh -c 'echo o\"\"n; exec sleep 1000'\r") // a job that speaks is in the foreground
	p.sees("on\r\n")
	p.types(ctrlC)
	p.sees("$ ")
	p.types("exit 3\r")
	p.sees("768") // the status of the shell, and no KeyboardInterrupt
	p.sees(">>> ")
}

func TestScreen_HelpIsInThePersonsPager(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.env = append(h.env, "PAGER=echo a page; true")
	p := withPrograms(t, h)
	p.enters("help(len)")
	p.sees("a page")
	p.sees(">>> ")
	p.enters("len?")
	p.sees("a page")
}

func TestScreen_RsHelpIsInThePersonsPager(t *testing.T) {
	t.Parallel()
	h := newRHome(t)
	h.env = append(h.env, "PAGER=echo a page", "TERM=xterm-256color")
	p := h.start(t, "--lang", "r")
	p.sees("Ctrl-D ends.")
	p.sees("> ")
	p.enters("?mean")
	p.sees("a page")
	p.sees("> ")
	p.enters("file.show(system.file('DESCRIPTION', package = 'base'), header = 'top')")
	p.sees("a page")
}

func TestScreen_ProgramsFindTheTerminalsNameAndThoseOfAnAgentADumbOne(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.env = append(h.env, "PAGER=most")
	p := withPrograms(t, h)
	p.enters("import os; [os.environ[n] for n in ('TERM', 'PAGER')]")
	p.sees("['xterm-256color', 'most']")
	h.env = append(h.env, "TERM=xterm-256color")
	want(t, h.run(t, "", "-e", "import os; [os.environ[n] for n in ('TERM', 'PAGER')]"), result{"['dumb', 'cat']\n", "", 0})
}

// CPython colours errors from 3.13 on, for a person. An agent's never have colours, whatever its
// environment asks for.
func TestScreen_ErrorsHaveTheRuntimesColours(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	p := withPrograms(t, h)
	p.enters("import sys; sys.version_info >= (3, 13)")
	p.sees("\r\n")
	coloured := p.sees("e\r\n") == "Tru"
	p.sees(">>> ")
	p.raw = ""
	p.enters("1/0")
	p.sees("ZeroDivisionError")
	p.sees(">>> ")
	if got := hasColour(p.raw); got != coloured {
		t.Errorf("colours %t, want %t: %q", got, coloured, p.raw)
	}
	h.env = append(h.env, "FORCE_COLOR=1", "TERM=xterm-256color")
	if r := h.run(t, "", "-e", "1/0"); hasColour(r.stderr) {
		t.Errorf("got %q", r.stderr)
	}
}

func hasColour(text string) bool {
	return strings.Contains(text, "\x1b[35m") || strings.Contains(text, "\x1b[1;35m")
}
