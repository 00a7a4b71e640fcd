//go:build unix

package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/term"

	"github.com/turnstone-repl/turnstone/internal/testkit/replbin"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
)

// A terminalUser works at a terminal with repl running in it. Each search removes the text that was
// found from the screen, so the next search finds only new text.
type terminalUser struct {
	t       *testing.T
	cmd     *exec.Cmd
	tty     *os.File // the terminal's other end
	slave   *os.File // the terminal itself, kept open to check its mode
	normal  *term.State
	chunks  chan []byte // what the terminal shows; closed at its end
	unread  string      // without drawing sequences
	raw     string      // everything, with drawing sequences
	screen  terminalScreen
	timeout <-chan time.Time
}

// startAtPrompt starts repl in a terminal and waits for its first prompt.
func (h home) startAtPrompt(t *testing.T, args ...string) *terminalUser {
	t.Helper()
	p := h.startTerminal(t, args...)
	p.waitText("Ctrl-D ends.")
	p.waitText(">>> ")
	return p
}

// startTerminal starts repl in a terminal of 24 rows and 100 columns.
func (h home) startTerminal(t *testing.T, args ...string) *terminalUser {
	t.Helper()
	return h.startProgram(t, h.command(t, args...))
}

// startProgram starts a program in such a terminal.
func (h home) startProgram(t *testing.T, cmd *exec.Cmd) *terminalUser {
	t.Helper()
	cmd.Dir, cmd.Env = h.dir, h.env
	tty, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(tty, &pty.Winsize{Rows: 24, Cols: 100}); err != nil {
		t.Fatal(err)
	}
	normal, err := term.GetState(int(slave.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	p := &terminalUser{t: t, tty: tty, slave: slave, normal: normal, chunks: make(chan []byte, 64), timeout: time.After(testTimeout)}
	p.cmd = cmd
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = slave, slave, slave
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		_ = p.cmd.Process.Kill()
		_ = slave.Close()
		_ = tty.Close()
	})
	go func() {
		defer close(p.chunks)
		buf := make([]byte, 4096)
		for {
			n, err := tty.Read(buf)
			if err != nil {
				return
			}
			select {
			case p.chunks <- bytes.Clone(buf[:n]):
			case <-ctx.Done():
				return
			}
		}
	}()
	return p
}

// drawingPattern matches what a line editor writes invisibly: control sequences that move the
// cursor and change colours, and a blank that is erased at once.
var drawingPattern = regexp.MustCompile(`\x1b\[[0-9;?]*[ -/]*[@-~]| \x08`)

// waitText waits until text is shown, and returns the text before it.
func (u *terminalUser) waitText(text string) (before string) {
	u.t.Helper()
	return u.waitTextPressingTab(text, nil)
}

// waitDrawn waits until a sequence was drawn, which waitText does not see.
func (u *terminalUser) waitDrawn(sequence string) {
	u.t.Helper()
	for !strings.Contains(u.raw, sequence) {
		u.readChunk(nil, sequence, func() string { return u.raw })
	}
}

// readChunk reads what the terminal shows next, or presses Tab if again fires first. want and got
// describe the failure if nothing arrives.
func (u *terminalUser) readChunk(again <-chan time.Time, want string, got func() string) {
	u.t.Helper()
	select {
	case b, ok := <-u.chunks:
		if !ok {
			u.t.Fatalf("the terminal ended; it shows %q, want %q", got(), want)
		}
		u.raw += string(b)
		u.unread = drawingPattern.ReplaceAllString(u.unread+string(b), "")
		u.screen.write(b)
	case <-again:
		u.typeKeys(keyTab)
	case <-u.timeout:
		u.t.Fatalf("the terminal shows %q, want %q", got(), want)
	}
}

// waitTextPressingTab is waitText, and presses Tab whenever again fires.
func (u *terminalUser) waitTextPressingTab(text string, again <-chan time.Time) (before string) {
	u.t.Helper()
	for {
		if i := strings.Index(u.unread, text); i >= 0 {
			before, u.unread = u.unread[:i], u.unread[i+len(text):]
			return before
		}
		u.readChunk(again, text, func() string { return u.unread })
	}
}

// completeTo presses Tab until text appears: on a busy machine the runtime may take too long to
// offer completions.
func (u *terminalUser) completeTo(text string) {
	u.t.Helper()
	u.typeKeys(keyTab)
	again := time.NewTicker(3 * time.Second)
	defer again.Stop()
	u.waitTextPressingTab(text, again.C)
}

// typeKeys presses keys.
func (u *terminalUser) typeKeys(keys string) {
	u.t.Helper()
	if _, err := u.tty.WriteString(keys); err != nil {
		u.t.Fatal(err)
	}
}

// enterLine types a line and waits until it is shown, not only echoed.
func (u *terminalUser) enterLine(line string) {
	u.t.Helper()
	u.typeKeys(line)
	u.waitOnScreen(line)
	u.unread = ""
	u.typeKeys("\r")
}

// waitOnScreen waits until typed is on the screen before the cursor. It may be drawn in pieces, if
// the keys arrived so.
func (u *terminalUser) waitOnScreen(typed string) {
	u.t.Helper()
	for !strings.HasSuffix(u.screen.textBeforeCursor(), typed) {
		u.readChunk(nil, typed, u.screen.textBeforeCursor)
	}
}

// Keys.
const (
	ctrlC  = "\x03"
	ctrlD  = "\x04"
	keyUp  = "\x1b[A"
	keyTab = "\t"
)

// waitExit waits until repl exits, and checks the terminal's mode and the status.
func (u *terminalUser) waitExit(wantStatus int) {
	u.t.Helper()
	_ = u.cmd.Wait()
	if got := exitStatusOf(u.t, u.cmd); got != wantStatus {
		u.t.Errorf("got status %d, want %d", got, wantStatus)
	}
	now, err := term.GetState(int(u.slave.Fd()))
	if err != nil {
		u.t.Fatal(err)
	}
	if *now != *u.normal {
		u.t.Errorf("the terminal is left in another mode: %+v, was %+v", *now, *u.normal)
	}
}

func TestTerminal(t *testing.T) {
	t.Parallel()

	t.Run("shows values and ends with Ctrl-D", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		p := h.startAtPrompt(t, "--lang", "python")
		p.enterLine("6 * 7")
		p.waitText("\r\n42\r\n")
		p.waitText(">>> ")
		p.typeKeys(ctrlD)
		p.waitExit(0)
		h.wantNothingLeft(t)
	})

	t.Run("a block continues until an empty line", func(t *testing.T) {
		t.Parallel()
		p := newHome(t).startAtPrompt(t)
		p.enterLine("def f(x):")
		p.waitText("... ")
		p.typeKeys(keyTab + "return x * 2\r") // Tab at the start of a line indents
		p.waitText("return x * 2")            // in the color of a keyword; redrawn from its beginning if the word arrived in pieces
		p.waitText("... ")
		p.typeKeys("\r")
		p.waitText(">>> ")
		p.enterLine("f(21)")
		p.waitText("\r\n42\r\n")
		p.waitText(">>> ")
		p.enterLine("(1 +")
		p.waitText("... ")
		p.enterLine("2)")
		p.waitText("\r\n3\r\n")
	})

	t.Run("background output keeps the line being typed", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		p := h.startAtPrompt(t)
		p.enterLine("import threading; go = threading.Event(); t = threading.Thread(target=lambda: (input, go.wait(), print('back' + 'ground'))); t.start()")
		p.waitText(">>> ")
		p.typeKeys("_ = go.set() or ")
		p.waitOnScreen("_ = go.set() or ")
		p.enterLine("None")
		p.waitText("background")
		p.waitText(">>> ")
		p.enterLine("import os, time; " + pythonWhenFileExists("print('la' + 'ter')"))
		p.waitText(">>> ")
		p.typeKeys("'half ' + ")
		p.waitOnScreen("'half ' + ")
		p.unread = ""
		h.writeFile(t, "go", "")
		p.waitText("later\r\n")
		p.waitText(">>> 'half ' + ") // redrawn
		p.enterLine("'line'")
		p.waitText("'half line'")
	})

	t.Run("raw output stays raw", func(t *testing.T) {
		t.Parallel()
		p := newHome(t).startAtPrompt(t)
		p.enterLine(`import sys; _ = sys.stdout.write("10%\r20%\r\x1b]0;ti" + "tle\x07done\n")`)
		p.waitText("10%\r20%\r\x1b]0;title\x07done\r\n")
	})

	t.Run("the session has the size of the window", func(t *testing.T) {
		t.Parallel()
		p := newHome(t).startAtPrompt(t)
		p.enterLine("import os; os.get_terminal_size()")
		p.waitText("columns=100, lines=24")
		p.waitText(">>> ")
		// The code waits for the signal itself, so the test need not guess when it has arrived.
		p.enterLine("import signal; _ = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGWINCH}); print('o' + 'n', flush=True); _ = signal.sigwait({signal.SIGWINCH}); os.get_terminal_size()")
		p.waitText("\r\non\r\n")
		if err := pty.Setsize(p.tty, &pty.Winsize{Rows: 30, Cols: 70}); err != nil {
			t.Fatal(err)
		}
		p.waitText("columns=70, lines=30")
	})

	t.Run("an image is saved as a file", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		p := h.startAtPrompt(t)
		p.typeKeys("\x1b[200~import base64\nclass P:\n  def _repr_png_(self): return base64.b64decode('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==')\nP()\x1b[201~\r")
		p.waitText("[image: ")
		path := p.waitText(", until this session ends]")
		if data, err := os.ReadFile(strings.NewReplacer("\r", "", "\n", "").Replace(path)); err != nil || !bytes.HasPrefix(data, []byte("\x89PNG")) {
			t.Errorf("%q: %v, want the image", path, err)
		}
		p.waitText(">>> ")
		p.typeKeys(ctrlD)
		p.waitExit(0)
		h.wantNothingLeft(t)
	})

	t.Run("prompts come from the runtime", func(t *testing.T) {
		t.Parallel()
		p := newHome(t).startAtPrompt(t)
		p.enterLine("import sys; sys.ps1, sys.ps2 = 'one> ', 'more> '")
		p.waitText("one> ")
		p.enterLine("if True:")
		p.waitText("more>     ")
		p.typeKeys("print(40 + 2)\r\r")
		p.waitText("\r\n42\r\n")
		p.waitText("one> ")
		p.typeKeys("\x1b[200~if True:\n    print(43)\n\x1b[201~")
		p.waitText("more>     print(43)")
		p.typeKeys("\r")
		p.waitText("\r\n43\r\n")
		p.waitText("one> ")
		p.enterLine("sys.ps2 = '... '")
		p.waitText("one> ")
		p.enterLine("if True:")
		p.waitText("... ")
		p.typeKeys(ctrlC)
		p.waitText("one> ")
		p.typeKeys(ctrlD)
		p.waitExit(0)
	})

	// It would show them as text, as Emacs does in M-x shell.
	t.Run("a dumb terminal gets no control sequences", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		h.env = append(h.env, "TERM=dumb")
		p := h.startAtPrompt(t)
		p.enterLine("for i in [41]:")
		p.waitText("... ")
		p.enterLine("    print(i + 1)")
		p.waitText("... ")
		p.typeKeys("\r")
		p.waitText("\r\n42\r\n")
		p.waitText(">>> ")
		p.enterLine("input('Who' + '? ')")
		p.waitText("Who? ")
		p.enterLine("Ann")
		p.waitText("'Ann'")
		p.waitText(">>> ")
		p.enterLine("1/0")
		p.waitText("ZeroDivisionError")
		p.waitText(">>> ")
		p.typeKeys(ctrlD)
		p.waitExit(0)
		if strings.ContainsAny(p.raw, "\x1b\a") {
			t.Errorf("got %q", p.raw)
		}
	})
}

func TestTerminalEditing(t *testing.T) {
	t.Parallel()

	t.Run("tab completes from the live session", func(t *testing.T) {
		t.Parallel()
		p := newHome(t).startAtPrompt(t)
		p.enterLine("distinctive_name = 'ä'")
		p.waitText(">>> ")
		p.typeKeys("'ü', distinct")
		p.completeTo("distinctive_name")
		p.typeKeys(".encod")
		p.completeTo("encode")
		p.typeKeys("()\r")
		p.waitText(`('ü', b'\xc3\xa4')`)
		p.waitText(">>> ")
		p.enterLine("distinctive_note = 1")
		p.waitText(">>> ")
		p.typeKeys("distinct" + keyTab + keyTab)
		p.completeTo("distinctive_name")
		p.waitText("distinctive_note")
	})

	t.Run("a paste is one input", func(t *testing.T) {
		t.Parallel()
		p := newHome(t).startAtPrompt(t)
		p.typeKeys("\x1b[200~def f(x):\n\ty = 'fr'\n\n\treturn y + 'om a paste'\n\nprint(f(1))\x1b[201~")
		p.waitText("print(f(1))")
		p.typeKeys("\r")
		p.waitText("from a paste")
	})

	// A terminal that does not mark pastes sends them as if typed. Automatic indentation would
	// change the program.
	t.Run("an unmarked paste is not indented", func(t *testing.T) {
		t.Parallel()
		p := newHome(t).startAtPrompt(t)
		p.typeKeys("def f(x):\r\tif x:\r\t\treturn 1\r\treturn 2\r\rprint('f', f(0), f(1))\r")
		p.waitText("f 2 1")
		p.waitText(">>> ")
		p.typeKeys("for i in range(3):\r    x = i\rprint('margin', x)\r\r")
		if before := p.waitText("margin 2"); strings.Contains(before, "margin 0") {
			t.Errorf("a line at the margin became one of the block: %q", before)
		}
	})

	t.Run("a paste that ends in a newline waits for Enter", func(t *testing.T) {
		t.Parallel()
		p := newHome(t).startAtPrompt(t)
		p.typeKeys("\x1b[200~print('ru' + 'n')\n\x1b[201~")
		p.waitText("print('ru' + 'n')")
		p.typeKeys(ctrlC)
		p.waitText("^C")
		p.waitText(">>> ")
		p.enterLine("'o' + 'k'")
		if before := p.waitText("'ok'"); strings.Contains(before, "run") {
			t.Errorf("the paste has run: %q", before)
		}
	})

	// The editor's program gets the keys, and repl does not read them while it runs.
	t.Run("an external editor changes the text", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		program := filepath.Join(h.dir, "editor")
		if err := testexec.WriteExecutable(program, []byte("#!/bin/sh\necho which\nread name\necho \"$name = '${1##*/}'\" >> \"$1\"\n")); err != nil {
			t.Fatal(err)
		}
		h.env = append(h.env, "VISUAL="+program)
		p := h.startAtPrompt(t)
		p.typeKeys("x = 1\x18\x05")
		p.waitText("which")
		p.typeKeys("typed\r")
		p.waitText(">>> x = 1")
		p.waitText("... typed = 'input.py'")
		p.typeKeys("\r")
		p.waitText(">>> ")
		p.enterLine("x, typed")
		p.waitText("(1, 'input.py')")
		p.waitText(">>> ")
		p.typeKeys(ctrlD)
		p.waitExit(0)
		h.wantNothingLeft(t)
	})

	t.Run("vi keys come from inputrc", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		inputrc := filepath.Join(h.dir, "inputrc")
		if err := os.WriteFile(inputrc, []byte("$if Other\nset editing-mode emacs\n$endif\nset editing-mode vi\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		h.env = append(h.env, "INPUTRC="+inputrc)
		p := h.startAtPrompt(t)
		p.typeKeys("x = 122")
		p.waitText("x = 122")
		p.typeKeys("\x1b")
		p.waitDrawn("\x1b[11G") // on the last character, once the key is known to be alone
		p.typeKeys("0wwr4")     // "x = 422"
		p.typeKeys("$x\r")      // "x = 42"
		p.waitText(">>> ")
		p.enterLine("i" + "x") // Enter has returned to insert mode, so this is a name
		p.waitText("NameError")
	})

	t.Run("tab completes keys and parameters and imports", func(t *testing.T) {
		t.Parallel()
		p := newHome(t).startAtPrompt(t)
		p.typeKeys("\x1b[200~def function(one, distinctive=2):\n    'Adds both.'\n    return one + distinctive\n\ntable = {'distinctive key': 40}\x1b[201~\r")
		p.waitText("... table")
		p.waitText(">>> ")
		p.typeKeys("function(table['dis")
		p.completeTo("distinctive key")
		p.typeKeys("'], disti")
		p.completeTo("distinctive=")
		p.typeKeys("2)\r")
		p.waitText("\r\n42\r\n")
		p.waitText(">>> ")
		p.typeKeys("function(")
		p.completeTo("function(one, distinctive=2)")
		p.waitText("Adds both.")
		p.typeKeys(ctrlC)
		p.waitText(">>> ")
		p.typeKeys("from collections import OrderedD")
		p.completeTo("OrderedDict")
	})

	t.Run("commands of other prompts work", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		h.env = append(h.env, "PAGER=cat")
		p := h.startAtPrompt(t, "-i", "-c", "x = 41")
		p.enterLine("x + 1")
		p.waitText("\r\n42\r\n")
		p.waitText(">>> ")
		p.enterLine("!echo o''n")
		p.waitText("\r\non\r\n")
		p.waitText(">>> ")
		p.enterLine("len?")
		p.waitText("Return the number of items in a container")
		p.waitText(">>> ")
		p.enterLine("%timeit x")
		p.waitText("instead, use: import timeit")
		p.waitText(">>> ")
		p.enterLine("exit")
		p.waitExit(0)
	})
}

func TestTerminalInterrupt(t *testing.T) {
	t.Parallel()

	t.Run("interrupts code and keeps the session", func(t *testing.T) {
		t.Parallel()
		p := newHome(t).startAtPrompt(t)
		p.enterLine("x = 1; print('o' + 'n', flush=True); exec('while True: pass')")
		p.waitText("\r\non\r\n")
		p.typeKeys(ctrlC)
		p.waitText("KeyboardInterrupt")
		p.waitText(">>> ")
		p.enterLine("x")
		p.waitText("\r\n1\r\n")
	})

	t.Run("a second one forces code that catches the first", func(t *testing.T) {
		t.Parallel()
		p := newHome(t).startAtPrompt(t)
		p.enterLine("import time")
		p.waitText(">>> ")
		p.typeKeys("\x1b[200~while True:\n  try:\n    print('o' + 'n', flush=True); time.sleep(1000)\n  except KeyboardInterrupt: pass\n\x1b[201~\r")
		p.waitText("\r\non\r\n")
		p.typeKeys(ctrlC)
		p.waitText("on\r\n") // it was swallowed
		p.waitText("press Ctrl-C again to force it")
		p.typeKeys(ctrlC)
		p.waitText(">>> ")
		p.enterLine("time.__name__")
		p.waitText("'time'")
	})

	t.Run("at the prompt drops the input", func(t *testing.T) {
		t.Parallel()
		p := newHome(t).startAtPrompt(t)
		p.typeKeys("1/0" + ctrlC)
		p.waitText("^C")
		p.waitText(">>> ")
		p.enterLine("if True:")
		p.waitText("... ")
		p.enterLine("  1/0")
		p.waitText("... ")
		p.typeKeys(ctrlC)
		p.waitText(">>> ")
		p.enterLine("'still ' + 'here'")
		if before := p.waitText("still here"); strings.Contains(before, "ZeroDivisionError") {
			t.Errorf("the dropped input has run: %q", before)
		}
	})

	t.Run("with completions open drops the input", func(t *testing.T) {
		t.Parallel()
		p := newHome(t).startAtPrompt(t)
		p.enterLine("distinctive_name = distinctive_note = 1")
		p.waitText(">>> ")
		p.typeKeys("distinct" + keyTab) // as far as both agree
		p.completeTo("distinctive_note")
		p.typeKeys(ctrlC)
		p.waitText("^C")
		p.waitText(">>> ")
		p.enterLine("'still ' + 'here'")
		p.waitText("\r\n'still here'\r\n")
	})

	// Ctrl-Z while code runs reaches the shell at once. It does not become a key of a later line.
	t.Run("a suspend while code runs returns to the shell", func(t *testing.T) {
		t.Parallel()
		bash, err := exec.LookPath("bash")
		if err != nil {
			t.Skip("bash is not installed")
		}
		h := newHome(t)
		if err := os.WriteFile(filepath.Join(h.dir, "wait.py"), []byte("import os, time\nprint('o' + 'n', flush=True)\nwhile not os.path.exists('go'): time.sleep(.01)\nprint('do' + 'ne')\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		h.env = append(h.env, "PS1=$ ")
		p := h.startProgram(t, exec.CommandContext(t.Context(), bash, "--norc", "--noprofile", "-i"))
		p.waitText("$ ")
		p.enterLine(replbin.Path())
		p.waitText("Ctrl-D ends.")
		p.waitText(">>> ")
		p.enterLine("exec(open('wait.py').read())")
		p.waitText("\r\non\r\n")
		p.typeKeys("\x1a")
		p.waitText("Stopped")
		p.waitText("$ ")
		if err := os.WriteFile(filepath.Join(h.dir, "go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		p.enterLine("fg")
		p.waitText("done\r\n")
		p.waitText(">>> ")
		p.typeKeys(ctrlD)
		p.waitText("$ ")
		p.typeKeys("exit\r")
		p.waitExit(0)
	})

	t.Run("goes to a shell command until that ends", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		script := "trap 'echo caught' INT\necho ready\nuntil [ -e over ]; do sleep 0.05; done\necho end of it\n"
		h.writeFile(t, "catches", script)
		p := h.startAtPrompt(t)
		p.enterLine("!sh catches")
		p.waitText("ready")
		for range 2 {
			p.typeKeys(ctrlC)
			p.waitText("caught")
		}
		h.writeFile(t, "over", "")
		if seen := p.waitText("end of it"); strings.Contains(seen, "KeyboardInterrupt") || strings.Contains(seen, ">>>") {
			t.Errorf("got %q, want no effect of the interrupt, which was for the command", seen)
		}
		p.waitText(">>> ")
		p.typeKeys(ctrlD)
		p.waitExit(0)
	})
}

func TestTerminalQuestion(t *testing.T) {
	t.Parallel()

	t.Run("end of input leaves no blanks behind", func(t *testing.T) {
		t.Parallel()
		p := newHome(t).startAtPrompt(t)
		p.enterLine("input('na' + 'me? ')")
		p.waitText("name? ")
		p.typeKeys(ctrlD)
		p.waitText("Traceback")
		if i := strings.LastIndex(p.raw, "Traceback"); !strings.HasSuffix(p.raw[:i], "\r") && !strings.HasSuffix(p.raw[:i], "\n") {
			t.Errorf("it is not shown in the first column: %q", p.raw)
		}
		p.waitText("EOFError")
		p.waitText(">>> ")
	})

	t.Run("is answered after its prompt", func(t *testing.T) {
		t.Parallel()
		p := newHome(t).startAtPrompt(t)
		p.enterLine("x = input('na' + 'me? '); y = input()")
		p.waitText("\r\nname? ")
		p.typeKeys("Ann\r")
		if before := p.waitText("Ann"); strings.Contains(before, "name?") {
			t.Errorf("the prompt is shown twice: %q", before)
		}
		p.typeKeys("Bobb\x7f\r")
		p.waitText(">>> ")
		p.enterLine("x + y")
		p.waitText("'AnnBob'")
		p.waitText(">>> ")
		p.enterLine("input()")
		p.typeKeys(ctrlD)
		p.waitText("EOFError")
		p.waitText(">>> ")
		p.enterLine("input('agai' + 'n? ')")
		p.waitText("again? ")
		p.raw = ""
		p.typeKeys("half\x7f")
		p.waitText("hal")
		if strings.Contains(p.raw, "\x1b[1G") || strings.Contains(p.raw, "again") {
			t.Errorf("the question is drawn over: %q", p.raw)
		}
		p.typeKeys(ctrlC)
		p.waitText("KeyboardInterrupt")
		p.waitText(">>> ")
	})

	t.Run("returns to the prompt when it has ended", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		p := h.startAtPrompt(t)
		p.enterLine("import os, signal, threading, time; felt = []; _ = signal.signal(signal.SIGALRM, lambda *a: felt or felt.append(1) or 1 / 0)")
		p.waitText(">>> ")
		// Python misses a signal that arrives just before a blocking call, until the next signal.
		p.enterLine(pythonWhenFileExists("[os.kill(os.getpid(), signal.SIGALRM) or time.sleep(.1) for _ in iter(lambda: bool(felt), True)]") + "; input('qu' + 'ick? ')")
		p.waitText("quick? ")
		h.writeFile(t, "go", "")
		p.waitText("ZeroDivisionError: ")
		p.waitText(">>> ")
		p.enterLine("'all ' + 'well'")
		p.waitText("all well")
	})

	t.Run("a secret is neither shown nor saved", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		p := h.startAtPrompt(t)
		p.enterLine("import getpass; s = getpass.getpass('Pass' + 'word: ')")
		p.waitText("Password: ")
		p.typeKeys("hunter2\r")
		if before := p.waitText(">>> "); strings.Contains(before, "hunter") {
			t.Errorf("the secret is on the screen: %q", before)
		}
		p.enterLine("len(s)")
		p.waitText("\r\n7\r\n")
		p.waitText(">>> ")
		p.typeKeys(ctrlD)
		p.waitExit(0)
		for _, kv := range h.env {
			if dir, ok := strings.CutPrefix(kv, "XDG_STATE_HOME="); ok && dir != "" {
				if data, err := os.ReadFile(filepath.Join(dir, "turnstone", "history-python")); err == nil && strings.Contains(string(data), "hunter2") {
					t.Errorf("the secret is in the history: %q", data)
				}
			}
		}
	})

	t.Run("a program asks the user", func(t *testing.T) {
		t.Parallel()
		p := newHome(t).startTerminal(t, "-e", "print('hello', input('who? '))")
		p.waitText("who? ")
		p.typeKeys("Ann\r")
		p.waitText("hello Ann\r\n")
		p.waitExit(0)
	})

	t.Run("echo returns when a program dies asking for a secret", func(t *testing.T) {
		t.Parallel()
		p := newHome(t).startTerminal(t, "-e", "import getpass; getpass.getpass('Pass' + 'word: ')")
		p.waitText("Password: ")
		wait.Until(t, "the echo is turned off", func() bool {
			now, err := term.GetState(int(p.slave.Fd()))
			return err == nil && *now != *p.normal
		})
		p.typeKeys(ctrlC)
		p.waitText("KeyboardInterrupt")
		p.waitExit(130)
	})

	t.Run("a start-up file may ask", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		startup := filepath.Join(h.dir, "startup.py")
		if err := os.WriteFile(startup, []byte("print('profile'); who = input('who? ')\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		h.env = append(h.env, "PYTHONSTARTUP="+startup)
		p := h.startTerminal(t)
		p.waitText("profile")
		p.waitText("who? ")
		p.typeKeys("Ann\r")
		p.waitText(">>> ")
		p.enterLine("'I am ' + who")
		p.waitText("I am Ann")
	})
}

func TestTerminalHistory(t *testing.T) {
	t.Parallel()

	t.Run("outlives the program", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		p := h.startAtPrompt(t)
		p.enterLine("remembered = 40 + 2")
		p.waitText(">>> ")
		p.typeKeys(ctrlD)
		p.waitExit(0)
		p = h.startAtPrompt(t)
		p.typeKeys(keyUp)
		p.waitText("remembered = 40 + 2")
		p.typeKeys("\r")
		p.waitText(">>> ")
		p.enterLine("remembered")
		p.waitText("\r\n42\r\n")
	})

	t.Run("recalls whole blocks in the next program as well", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		p := h.startAtPrompt(t)
		p.enterLine("def f(x):")
		p.waitText("... ")
		p.typeKeys("return x * 2\r\r")
		p.waitText(">>> ")
		p.typeKeys(ctrlD)
		p.waitExit(0)
		p = h.startAtPrompt(t)
		p.typeKeys(keyUp)
		p.waitText("def f(x):")
		p.waitText("...     return x * 2")
		p.typeKeys(keyUp + "\x1b[F # again") // into its first line, and from there it runs
		p.waitOnScreen("def f(x): # again")
		p.waitText("...     return x * 2")
		p.typeKeys("\r")
		p.waitText(">>> ")
		p.enterLine("f(21)")
		p.waitText("\r\n42\r\n")
	})

	t.Run("can belong to the project", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		sub := filepath.Join(h.dir, "project", "sub")
		if err := os.MkdirAll(filepath.Join(h.dir, "project", ".git"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(sub, 0o700); err != nil {
			t.Fatal(err)
		}
		p := h.startAtPrompt(t)
		p.enterLine("everywhere = 1")
		p.waitText(">>> ")
		p.typeKeys(ctrlD)
		p.waitExit(0)
		p = h.startAtPrompt(t, "--history", "project", "--dir", filepath.Dir(sub))
		p.enterLine("here = 1")
		p.waitText(">>> ")
		p.typeKeys(ctrlD)
		p.waitExit(0)
		p = h.startAtPrompt(t, "--history", "project", "--dir", sub)
		p.typeKeys(keyUp + keyUp)
		p.waitText("here = 1")
		p.typeKeys("0\r")
		p.waitText(">>> ")
		p.enterLine("here")
		p.waitText("\r\n10\r\n")
	})
}

// pythonWhenFileExists returns Python code that makes another thread wait for a file named go and
// then run a statement.
func pythonWhenFileExists(do string) string {
	return "threading.Thread(target=lambda: ([time.sleep(.01) for _ in iter(lambda: os.path.exists('go'), True)], " + do + ")).start()"
}

func TestTerminalExit(t *testing.T) {
	t.Parallel()

	t.Run("a dead runtime is reported and replaced", func(t *testing.T) {
		t.Parallel()
		p := newHome(t).startAtPrompt(t)
		p.enterLine("import os; x = 1")
		p.waitText(">>> ")
		p.enterLine("os.kill(os.getpid(), 9)")
		p.waitText("killed by SIGKILL")
		p.waitText("its state is lost")
		p.waitText(">>> ")
		p.enterLine("for i in range(2):") // the new rule also judges it
		p.waitText("... ")
		p.enterLine("  print('n' + 'ew')")
		p.waitText("... ")
		p.typeKeys("\r")
		p.waitText("new\r\nnew\r\n")
		p.waitText(">>> ")
		p.enterLine("x")
		p.waitText("NameError")
	})

	t.Run("exit ends with its status", func(t *testing.T) {
		t.Parallel()
		p := newHome(t).startAtPrompt(t)
		p.enterLine("exit(3)")
		p.waitExit(3)
	})

	t.Run("a signal ends it and restores the terminal", func(t *testing.T) {
		t.Parallel()
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
			t.Run(sig.String()+" at the prompt", func(t *testing.T) {
				t.Parallel()
				h := newHome(t)
				p := h.startAtPrompt(t)
				p.typeKeys("half")
				p.waitText("half")
				if err := p.cmd.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
				p.waitExit(128 + int(sig))
				h.wantNothingLeft(t)
			})
		}
		t.Run("Ctrl-\\ while code runs", func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			p := h.startAtPrompt(t)
			p.enterLine("print('o' + 'n', flush=True); import time; time.sleep(1000)")
			p.waitText("\r\non\r\n")
			p.typeKeys("\x1c")
			p.waitExit(128 + int(syscall.SIGQUIT))
			h.wantNothingLeft(t)
		})
	})

	t.Run("a runtime that does not start ends it", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		p := h.startTerminal(t, "--python", h.writeBrokenPython(t))
		p.waitText("/python3 ended before it was ready: exit status 3")
		p.waitExit(1)
	})

	t.Run("a kill leaves the alternate screen", func(t *testing.T) {
		t.Parallel()
		p := newHome(t).startAtPrompt(t)
		p.enterLine("import os, time; print('\\x1b[?1049h\\x1b[?25l\\x1b[31mo' + 'n', flush=True); time.sleep(1000)")
		p.waitText("on\r\n")
		p.raw = ""
		p.typeKeys("\x1c")
		p.waitDrawn("\x1b[?1049l\x1b[?25h\x1b[0m")
		p.waitExit(128 + int(syscall.SIGQUIT))
	})
}
