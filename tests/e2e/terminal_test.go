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

	"github.com/turnstone-repl/turnstone/tests/programs"
)

// A person sits at a terminal with repl running in it. Each search removes the text that they
// saw from the screen, so the next search finds only new text.
type person struct {
	t      *testing.T
	cmd    *exec.Cmd
	tty    *os.File // the terminal's other end
	slave  *os.File // the terminal itself, kept open to look at its mode
	normal *term.State
	chunks chan []byte // what the terminal shows; closed at its end
	unseen string      // without drawing
	raw    string      // everything, with drawing
	screen display
	late   <-chan time.Time
}

// sitDown starts repl in a terminal and waits for its first prompt.
func (h home) sitDown(t *testing.T, args ...string) *person {
	t.Helper()
	p := h.start(t, args...)
	p.sees("Ctrl-D ends.")
	p.sees(">>> ")
	return p
}

// start starts repl in a terminal of 24 rows and 100 columns.
func (h home) start(t *testing.T, args ...string) *person {
	t.Helper()
	return h.startProgram(t, h.command(t, args...))
}

// startProgram starts a program in such a terminal.
func (h home) startProgram(t *testing.T, cmd *exec.Cmd) *person {
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
	p := &person{t: t, tty: tty, slave: slave, normal: normal, chunks: make(chan []byte, 64), late: time.After(deadline)}
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

// drawing is what a line editor writes and nobody sees: control sequences that
// move the cursor and change colours, and a blank that is taken back at once.
var drawing = regexp.MustCompile(`\x1b\[[0-9;?]*[ -/]*[@-~]| \x08`)

// sees waits until text is shown, and returns the text before it.
func (p *person) sees(text string) (before string) {
	p.t.Helper()
	return p.watch(text, nil)
}

// draws waits until something was drawn, which sees does not show.
func (p *person) draws(sequence string) {
	p.t.Helper()
	for !strings.Contains(p.raw, sequence) {
		p.takes(nil, sequence, func() string { return p.raw })
	}
}

// takes notes what the terminal shows next, or presses Tab if again says so first. want and got are for
// the failure when nothing comes any more.
func (p *person) takes(again <-chan time.Time, want string, got func() string) {
	p.t.Helper()
	select {
	case b, ok := <-p.chunks:
		if !ok {
			p.t.Fatalf("the terminal ended; it shows %q, want %q", got(), want)
		}
		p.raw += string(b)
		p.unseen = drawing.ReplaceAllString(p.unseen+string(b), "")
		p.screen.write(b)
	case <-again:
		p.types(tab)
	case <-p.late:
		p.t.Fatalf("the terminal shows %q, want %q", got(), want)
	}
}

// watch is sees, and presses Tab whenever again says so.
func (p *person) watch(text string, again <-chan time.Time) (before string) {
	p.t.Helper()
	for {
		if i := strings.Index(p.unseen, text); i >= 0 {
			before, p.unseen = p.unseen[:i], p.unseen[i+len(text):]
			return before
		}
		p.takes(again, text, func() string { return p.unseen })
	}
}

// completes presses Tab until it has brought text: the runtime of a busy machine may
// not say in time how a line can go on.
func (p *person) completes(text string) {
	p.t.Helper()
	p.types(tab)
	again := time.NewTicker(3 * time.Second)
	defer again.Stop()
	p.watch(text, again.C)
}

// types presses keys.
func (p *person) types(keys string) {
	p.t.Helper()
	if _, err := p.tty.WriteString(keys); err != nil {
		p.t.Fatal(err)
	}
}

// enters types a line and sees it, and not only its echo.
func (p *person) enters(line string) {
	p.t.Helper()
	p.types(line)
	p.shows(line)
	p.unseen = ""
	p.types("\r")
}

// shows waits until typed is on the screen before the cursor: drawn in pieces, if the keys came so.
func (p *person) shows(typed string) {
	p.t.Helper()
	for !strings.HasSuffix(p.screen.before(), typed) {
		p.takes(nil, typed, p.screen.before)
	}
}

// Keys.
const (
	ctrlC = "\x03"
	ctrlD = "\x04"
	up    = "\x1b[A"
	tab   = "\t"
)

// leaves waits for repl's end, and checks the terminal's mode and the status.
func (p *person) leaves(wantStatus int) {
	p.t.Helper()
	_ = p.cmd.Wait()
	if got := status(p.t, p.cmd); got != wantStatus {
		p.t.Errorf("got status %d, want %d", got, wantStatus)
	}
	now, err := term.GetState(int(p.slave.Fd()))
	if err != nil {
		p.t.Fatal(err)
	}
	if *now != *p.normal {
		p.t.Errorf("the terminal is left in another mode: %+v, was %+v", *now, *p.normal)
	}
}

func TestTerminal_ShowsValuesAndEndsWithCtrlD(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	p := h.sitDown(t, "--lang", "python")
	p.enters("6 * 7")
	p.sees("\r\n42\r\n")
	p.sees(">>> ")
	p.types(ctrlD)
	p.leaves(0)
	h.leavesNothing(t)
}

func TestTerminal_BlockGoesOnUntilAnEmptyLine(t *testing.T) {
	t.Parallel()
	p := newHome(t).sitDown(t)
	p.enters("def f(x):")
	p.sees("... ")
	p.types(tab + "return x * 2\r") // Tab at the start of a line indents
	p.sees("return x * 2")          // drawn again from its beginning, if the word came in pieces: in the color of a keyword
	p.sees("... ")
	p.types("\r")
	p.sees(">>> ")
	p.enters("f(21)")
	p.sees("\r\n42\r\n")
	p.sees(">>> ")
	p.enters("(1 +")
	p.sees("... ")
	p.enters("2)")
	p.sees("\r\n3\r\n")
}

func TestTerminal_TabCompletesFromTheLiveSession(t *testing.T) {
	t.Parallel()
	p := newHome(t).sitDown(t)
	p.enters("distinctive_name = 'ä'")
	p.sees(">>> ")
	p.types("'ü', distinct")
	p.completes("distinctive_name")
	p.types(".encod")
	p.completes("encode")
	p.types("()\r")
	p.sees(`('ü', b'\xc3\xa4')`)
	p.sees(">>> ")
	p.enters("distinctive_note = 1")
	p.sees(">>> ")
	p.types("distinct" + tab + tab)
	p.completes("distinctive_name")
	p.sees("distinctive_note")
}

func TestTerminal_CtrlCInterruptsCodeAndKeepsTheSession(t *testing.T) {
	t.Parallel()
	p := newHome(t).sitDown(t)
	p.enters("x = 1; print('o' + 'n', flush=True); exec('while True: pass')")
	p.sees("\r\non\r\n")
	p.types(ctrlC)
	p.sees("KeyboardInterrupt")
	p.sees(">>> ")
	p.enters("x")
	p.sees("\r\n1\r\n")
}

func TestTerminal_CtrlCThatIsSwallowedGetsHarder(t *testing.T) {
	t.Parallel()
	p := newHome(t).sitDown(t)
	p.enters("import time")
	p.sees(">>> ")
	p.types("\x1b[200~while True:\n  try:\n    print('o' + 'n', flush=True); time.sleep(1000)\n  except KeyboardInterrupt: pass\n\x1b[201~\r")
	p.sees("\r\non\r\n")
	p.types(ctrlC)
	p.sees("on\r\n") // it was swallowed
	p.sees("press Ctrl-C again to force it")
	p.types(ctrlC)
	p.sees(">>> ")
	p.enters("time.__name__")
	p.sees("'time'")
}

func TestTerminal_CtrlCAtThePromptDropsTheInput(t *testing.T) {
	t.Parallel()
	p := newHome(t).sitDown(t)
	p.types("1/0" + ctrlC)
	p.sees("^C")
	p.sees(">>> ")
	p.enters("if True:")
	p.sees("... ")
	p.enters("  1/0")
	p.sees("... ")
	p.types(ctrlC)
	p.sees(">>> ")
	p.enters("'still ' + 'here'")
	if before := p.sees("still here"); strings.Contains(before, "ZeroDivisionError") {
		t.Errorf("what was dropped has run: %q", before)
	}
}

func TestTerminal_CtrlCWithTheCompletionsOpenDropsTheInput(t *testing.T) {
	t.Parallel()
	p := newHome(t).sitDown(t)
	p.enters("distinctive_name = distinctive_note = 1")
	p.sees(">>> ")
	p.types("distinct" + tab) // as far as both are the same
	p.completes("distinctive_note")
	p.types(ctrlC)
	p.sees("^C")
	p.sees(">>> ")
	p.enters("'still ' + 'here'")
	p.sees("\r\n'still here'\r\n")
}

// Ctrl-Z while code runs goes to the shell at once. It does not become a key of a later line.
func TestTerminal_CtrlZWhileCodeRunsGivesTheTerminalToTheShell(t *testing.T) {
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
	p.sees("$ ")
	p.enters(binary())
	p.sees("Ctrl-D ends.")
	p.sees(">>> ")
	p.enters("exec(open('wait.py').read())")
	p.sees("\r\non\r\n")
	p.types("\x1a")
	p.sees("Stopped")
	p.sees("$ ")
	if err := os.WriteFile(filepath.Join(h.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.enters("fg")
	p.sees("done\r\n")
	p.sees(">>> ")
	p.types(ctrlD)
	p.sees("$ ")
	p.types("exit\r")
	p.leaves(0)
}

func TestTerminal_EndOfInputLeavesNoBlanksBehind(t *testing.T) {
	t.Parallel()
	p := newHome(t).sitDown(t)
	p.enters("input('na' + 'me? ')")
	p.sees("name? ")
	p.types(ctrlD)
	p.sees("Traceback")
	if i := strings.LastIndex(p.raw, "Traceback"); !strings.HasSuffix(p.raw[:i], "\r") && !strings.HasSuffix(p.raw[:i], "\n") {
		t.Errorf("it is not shown in the first column: %q", p.raw)
	}
	p.sees("EOFError")
	p.sees(">>> ")
}

func TestTerminal_QuestionIsAnsweredBehindItsPrompt(t *testing.T) {
	t.Parallel()
	p := newHome(t).sitDown(t)
	p.enters("x = input('na' + 'me? '); y = input()")
	p.sees("\r\nname? ")
	p.types("Ann\r")
	if before := p.sees("Ann"); strings.Contains(before, "name?") {
		t.Errorf("the prompt is shown twice: %q", before)
	}
	p.types("Bobb\x7f\r")
	p.sees(">>> ")
	p.enters("x + y")
	p.sees("'AnnBob'")
	p.sees(">>> ")
	p.enters("input()")
	p.types(ctrlD)
	p.sees("EOFError")
	p.sees(">>> ")
	p.enters("input('agai' + 'n? ')")
	p.sees("again? ")
	p.raw = ""
	p.types("half\x7f")
	p.sees("hal")
	if strings.Contains(p.raw, "\x1b[1G") || strings.Contains(p.raw, "again") {
		t.Errorf("the question is drawn over: %q", p.raw)
	}
	p.types(ctrlC)
	p.sees("KeyboardInterrupt")
	p.sees(">>> ")
}

func TestTerminal_QuestionThatIsOverGivesThePromptBack(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	p := h.sitDown(t)
	p.enters("import os, signal, threading, time; felt = []; _ = signal.signal(signal.SIGALRM, lambda *a: felt or felt.append(1) or 1 / 0)")
	p.sees(">>> ")
	// Python misses a signal that comes just before a call that waits, until there is another one.
	p.enters(whenThereIsAFile("[os.kill(os.getpid(), signal.SIGALRM) or time.sleep(.1) for _ in iter(lambda: bool(felt), True)]") + "; input('qu' + 'ick? ')")
	p.sees("quick? ")
	h.file(t, "go", "")
	p.sees("ZeroDivisionError: ")
	p.sees(">>> ")
	p.enters("'all ' + 'well'")
	p.sees("all well")
}

func TestTerminal_SecretIsNeitherShownNorRemembered(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	p := h.sitDown(t)
	p.enters("import getpass; s = getpass.getpass('Pass' + 'word: ')")
	p.sees("Password: ")
	p.types("hunter2\r")
	if before := p.sees(">>> "); strings.Contains(before, "hunter") {
		t.Errorf("the secret is on the screen: %q", before)
	}
	p.enters("len(s)")
	p.sees("\r\n7\r\n")
	p.sees(">>> ")
	p.types(ctrlD)
	p.leaves(0)
	for _, kv := range h.env {
		if dir, ok := strings.CutPrefix(kv, "XDG_STATE_HOME="); ok && dir != "" {
			if data, err := os.ReadFile(filepath.Join(dir, "turnstone", "history-python")); err == nil && strings.Contains(string(data), "hunter2") {
				t.Errorf("the secret is in the history: %q", data)
			}
		}
	}
}

func TestTerminal_HistoryOutlivesTheProgram(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	p := h.sitDown(t)
	p.enters("remembered = 40 + 2")
	p.sees(">>> ")
	p.types(ctrlD)
	p.leaves(0)
	p = h.sitDown(t)
	p.types(up)
	p.sees("remembered = 40 + 2")
	p.types("\r")
	p.sees(">>> ")
	p.enters("remembered")
	p.sees("\r\n42\r\n")
}

func TestTerminal_PasteIsOneInput(t *testing.T) {
	t.Parallel()
	p := newHome(t).sitDown(t)
	p.types("\x1b[200~def f(x):\n\ty = 'fr'\n\n\treturn y + 'om a paste'\n\nprint(f(1))\x1b[201~")
	p.sees("print(f(1))")
	p.types("\r")
	p.sees("from a paste")
}

// A terminal that does not mark pastes sends them as a program types. The help for a person would make
// another program of this.
func TestTerminal_CodeThatAProgramTypesStaysAsItIs(t *testing.T) {
	t.Parallel()
	p := newHome(t).sitDown(t)
	p.types("def f(x):\r\tif x:\r\t\treturn 1\r\treturn 2\r\rprint('f', f(0), f(1))\r")
	p.sees("f 2 1")
	p.sees(">>> ")
	p.types("for i in range(3):\r    x = i\rprint('margin', x)\r\r")
	if before := p.sees("margin 2"); strings.Contains(before, "margin 0") {
		t.Errorf("a line at the margin became one of the block: %q", before)
	}
}

// whenThereIsAFile is Python code that has another thread wait for a file named go, and then do
// something.
func whenThereIsAFile(do string) string {
	return "threading.Thread(target=lambda: ([time.sleep(.01) for _ in iter(lambda: os.path.exists('go'), True)], " + do + ")).start()"
}

func TestTerminal_BackgroundOutputKeepsTheLine(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	p := h.sitDown(t)
	p.enters("import threading; go = threading.Event(); t = threading.Thread(target=lambda: (input, go.wait(), print('back' + 'ground'))); t.start()")
	p.sees(">>> ")
	p.types("_ = go.set() or ")
	p.shows("_ = go.set() or ")
	p.enters("None")
	p.sees("background")
	p.sees(">>> ")
	p.enters("import os, time; " + whenThereIsAFile("print('la' + 'ter')"))
	p.sees(">>> ")
	p.types("'half ' + ")
	p.shows("'half ' + ")
	p.unseen = ""
	h.file(t, "go", "")
	p.sees("later\r\n")
	p.sees(">>> 'half ' + ") // drawn again
	p.enters("'line'")
	p.sees("'half line'")
}

func TestTerminal_RawOutputStaysRaw(t *testing.T) {
	t.Parallel()
	p := newHome(t).sitDown(t)
	p.enters(`import sys; _ = sys.stdout.write("10%\r20%\r\x1b]0;ti" + "tle\x07done\n")`)
	p.sees("10%\r20%\r\x1b]0;title\x07done\r\n")
}

func TestTerminal_DeadRuntimeIsReportedAndReplaced(t *testing.T) {
	t.Parallel()
	p := newHome(t).sitDown(t)
	p.enters("import os; x = 1")
	p.sees(">>> ")
	p.enters("os.kill(os.getpid(), 9)")
	p.sees("killed by SIGKILL")
	p.sees("its state is lost")
	p.sees(">>> ")
	p.enters("for i in range(2):") // also judged by the new one
	p.sees("... ")
	p.enters("  print('n' + 'ew')")
	p.sees("... ")
	p.types("\r")
	p.sees("new\r\nnew\r\n")
	p.sees(">>> ")
	p.enters("x")
	p.sees("NameError")
}

func TestTerminal_ExitEndsWithItsStatus(t *testing.T) {
	t.Parallel()
	p := newHome(t).sitDown(t)
	p.enters("exit(3)")
	p.leaves(3)
}

func TestTerminal_SignalEndsItAndRestoresTheTerminal(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(sig.String()+" at the prompt", func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			p := h.sitDown(t)
			p.types("half")
			p.sees("half")
			if err := p.cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			p.leaves(128 + int(sig))
			h.leavesNothing(t)
		})
	}
	t.Run("Ctrl-\\ while code runs", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		p := h.sitDown(t)
		p.enters("print('o' + 'n', flush=True); import time; time.sleep(1000)")
		p.sees("\r\non\r\n")
		p.types("\x1c")
		p.leaves(128 + int(syscall.SIGQUIT))
		h.leavesNothing(t)
	})
}

func TestTerminal_WindowSizeIsTheSessions(t *testing.T) {
	t.Parallel()
	p := newHome(t).sitDown(t)
	p.enters("import os; os.get_terminal_size()")
	p.sees("columns=100, lines=24")
	p.sees(">>> ")
	// The code waits for the signal itself, so the test need not guess when it has come.
	p.enters("import signal; _ = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGWINCH}); print('o' + 'n', flush=True); _ = signal.sigwait({signal.SIGWINCH}); os.get_terminal_size()")
	p.sees("\r\non\r\n")
	if err := pty.Setsize(p.tty, &pty.Winsize{Rows: 30, Cols: 70}); err != nil {
		t.Fatal(err)
	}
	p.sees("columns=70, lines=30")
}

func TestTerminal_PictureIsKeptAsAFile(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	p := h.sitDown(t)
	p.types("\x1b[200~import base64\nclass P:\n  def _repr_png_(self): return base64.b64decode('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==')\nP()\x1b[201~\r")
	p.sees("[picture: ")
	path := p.sees(", until this session ends]")
	if data, err := os.ReadFile(strings.NewReplacer("\r", "", "\n", "").Replace(path)); err != nil || !bytes.HasPrefix(data, []byte("\x89PNG")) {
		t.Errorf("%q: %v, want the picture", path, err)
	}
	p.sees(">>> ")
	p.types(ctrlD)
	p.leaves(0)
	h.leavesNothing(t)
}

func TestTerminal_ProgramAsksThePersonAtIt(t *testing.T) {
	t.Parallel()
	p := newHome(t).start(t, "-e", "print('hello', input('who? '))")
	p.sees("who? ")
	p.types("Ann\r")
	p.sees("hello Ann\r\n")
	p.leaves(0)
}

func TestTerminal_EchoComesBackWhenAProgramDiesAskingForASecret(t *testing.T) {
	t.Parallel()
	p := newHome(t).start(t, "-e", "import getpass; getpass.getpass('Pass' + 'word: ')")
	p.sees("Password: ")
	eventually(t, "the echo is turned off", func() bool {
		now, err := term.GetState(int(p.slave.Fd()))
		return err == nil && *now != *p.normal
	})
	p.types(ctrlC)
	p.sees("KeyboardInterrupt")
	p.leaves(130)
}

func TestTerminal_RuntimeThatDoesNotStartEndsIt(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	p := h.start(t, "--python", h.badPython(t))
	p.sees("/python3 ended before it was ready: exit status 3")
	p.leaves(1)
}

func TestTerminal_StartUpMayAsk(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	startup := filepath.Join(h.dir, "startup.py")
	if err := os.WriteFile(startup, []byte("print('profile'); who = input('who? ')\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.env = append(h.env, "PYTHONSTARTUP="+startup)
	p := h.start(t)
	p.sees("profile")
	p.sees("who? ")
	p.types("Ann\r")
	p.sees(">>> ")
	p.enters("'I am ' + who")
	p.sees("I am Ann")
}

func TestTerminal_BlockIsRecalledWholeAlsoByTheNextProgram(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	p := h.sitDown(t)
	p.enters("def f(x):")
	p.sees("... ")
	p.types("return x * 2\r\r")
	p.sees(">>> ")
	p.types(ctrlD)
	p.leaves(0)
	p = h.sitDown(t)
	p.types(up)
	p.sees("def f(x):")
	p.sees("...     return x * 2")
	p.types(up + "\x1b[F # again") // into its first line, and from there it runs
	p.shows("def f(x): # again")
	p.sees("...     return x * 2")
	p.types("\r")
	p.sees(">>> ")
	p.enters("f(21)")
	p.sees("\r\n42\r\n")
}

func TestTerminal_PasteThatEndsInALineEndWaitsForEnter(t *testing.T) {
	t.Parallel()
	p := newHome(t).sitDown(t)
	p.types("\x1b[200~print('ru' + 'n')\n\x1b[201~")
	p.sees("print('ru' + 'n')")
	p.types(ctrlC)
	p.sees("^C")
	p.sees(">>> ")
	p.enters("'o' + 'k'")
	if before := p.sees("'ok'"); strings.Contains(before, "run") {
		t.Errorf("the paste has run: %q", before)
	}
}

// The editor's program has the keys, and we do not read them while it runs.
func TestTerminal_AnotherEditorChangesTheText(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	program := filepath.Join(h.dir, "editor")
	if err := programs.Write(program, []byte("#!/bin/sh\necho which\nread name\necho \"$name = '${1##*/}'\" >> \"$1\"\n")); err != nil {
		t.Fatal(err)
	}
	h.env = append(h.env, "VISUAL="+program)
	p := h.sitDown(t)
	p.types("x = 1\x18\x05")
	p.sees("which")
	p.types("typed\r")
	p.sees(">>> x = 1")
	p.sees("... typed = 'input.py'")
	p.types("\r")
	p.sees(">>> ")
	p.enters("x, typed")
	p.sees("(1, 'input.py')")
	p.sees(">>> ")
	p.types(ctrlD)
	p.leaves(0)
	h.leavesNothing(t)
}

func TestTerminal_HistoryCanBeThatOfTheProject(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	sub := filepath.Join(h.dir, "project", "sub")
	if err := os.MkdirAll(filepath.Join(h.dir, "project", ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(sub, 0o700); err != nil {
		t.Fatal(err)
	}
	p := h.sitDown(t)
	p.enters("everywhere = 1")
	p.sees(">>> ")
	p.types(ctrlD)
	p.leaves(0)
	p = h.sitDown(t, "--history", "project", "--dir", filepath.Dir(sub))
	p.enters("here = 1")
	p.sees(">>> ")
	p.types(ctrlD)
	p.leaves(0)
	p = h.sitDown(t, "--history", "project", "--dir", sub)
	p.types(up + up)
	p.sees("here = 1")
	p.types("0\r")
	p.sees(">>> ")
	p.enters("here")
	p.sees("\r\n10\r\n")
}

func TestTerminal_ViKeysComeFromInputrc(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	inputrc := filepath.Join(h.dir, "inputrc")
	if err := os.WriteFile(inputrc, []byte("$if Other\nset editing-mode emacs\n$endif\nset editing-mode vi\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.env = append(h.env, "INPUTRC="+inputrc)
	p := h.sitDown(t)
	p.types("x = 122")
	p.sees("x = 122")
	p.types("\x1b")
	p.draws("\x1b[11G") // on the last character, when the key is known to be alone
	p.types("0wwr4")    // "x = 422"
	p.types("$x\r")     // "x = 42"
	p.sees(">>> ")
	p.enters("i" + "x") // Enter began with the insert mode again, so this is a name
	p.sees("NameError")
}

func TestTerminal_AKilledProgramDoesNotKeepTheScreen(t *testing.T) {
	t.Parallel()
	p := newHome(t).sitDown(t)
	p.enters("import os, time; print('\\x1b[?1049h\\x1b[?25l\\x1b[31mo' + 'n', flush=True); time.sleep(1000)")
	p.sees("on\r\n")
	p.raw = ""
	p.types("\x1c")
	p.draws("\x1b[?1049l\x1b[?25h\x1b[0m")
	p.leaves(128 + int(syscall.SIGQUIT))
}

func TestTerminal_TabCompletesKeysParametersAndImports(t *testing.T) {
	t.Parallel()
	p := newHome(t).sitDown(t)
	p.types("\x1b[200~def function(one, distinctive=2):\n    'Adds both.'\n    return one + distinctive\n\ntable = {'distinctive key': 40}\x1b[201~\r")
	p.sees("... table")
	p.sees(">>> ")
	p.types("function(table['dis")
	p.completes("distinctive key")
	p.types("'], disti")
	p.completes("distinctive=")
	p.types("2)\r")
	p.sees("\r\n42\r\n")
	p.sees(">>> ")
	p.types("function(")
	p.completes("function(one, distinctive=2)")
	p.sees("Adds both.")
	p.types(ctrlC)
	p.sees(">>> ")
	p.types("from collections import OrderedD")
	p.completes("OrderedDict")
}

func TestTerminal_HabitsOfOtherPromptsWork(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.env = append(h.env, "PAGER=cat")
	p := h.sitDown(t, "-i", "-c", "x = 41")
	p.enters("x + 1")
	p.sees("\r\n42\r\n")
	p.sees(">>> ")
	p.enters("!echo o''n")
	p.sees("\r\non\r\n")
	p.sees(">>> ")
	p.enters("len?")
	p.sees("Return the number of items in a container")
	p.sees(">>> ")
	p.enters("%timeit x")
	p.sees("the plain way: import timeit")
	p.sees(">>> ")
	p.enters("exit")
	p.leaves(0)
}

func TestTerminal_CommandOfTheShellHasCtrlCUntilItEnds(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	script := "trap 'echo caught' INT\necho ready\nuntil [ -e over ]; do sleep 0.05; done\necho end of it\n"
	h.file(t, "catches", script)
	p := h.sitDown(t)
	p.enters("!sh catches")
	p.sees("ready")
	for range 2 {
		p.types(ctrlC)
		p.sees("caught")
	}
	h.file(t, "over", "")
	if seen := p.sees("end of it"); strings.Contains(seen, "KeyboardInterrupt") || strings.Contains(seen, ">>>") {
		t.Errorf("got %q, want nothing of the interrupt: it was the command's", seen)
	}
	p.sees(">>> ")
	p.types(ctrlD)
	p.leaves(0)
}

func TestTerminal_PromptsAreThoseOfTheRuntime(t *testing.T) {
	t.Parallel()
	p := newHome(t).sitDown(t)
	p.enters("import sys; sys.ps1, sys.ps2 = 'one> ', 'more> '")
	p.sees("one> ")
	p.enters("if True:")
	p.sees("more>     ")
	p.types("print(40 + 2)\r\r")
	p.sees("\r\n42\r\n")
	p.sees("one> ")
	p.types("\x1b[200~if True:\n    print(43)\n\x1b[201~")
	p.sees("more>     print(43)")
	p.types("\r")
	p.sees("\r\n43\r\n")
	p.sees("one> ")
	p.enters("sys.ps2 = '... '")
	p.sees("one> ")
	p.enters("if True:")
	p.sees("... ")
	p.types(ctrlC)
	p.sees("one> ")
	p.types(ctrlD)
	p.leaves(0)
}

// It would show them as text, as Emacs does in M-x shell.
func TestTerminal_DumbOneGetsNoControlSequences(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.env = append(h.env, "TERM=dumb")
	p := h.sitDown(t)
	p.enters("for i in [41]:")
	p.sees("... ")
	p.enters("    print(i + 1)")
	p.sees("... ")
	p.types("\r")
	p.sees("\r\n42\r\n")
	p.sees(">>> ")
	p.enters("input('Who' + '? ')")
	p.sees("Who? ")
	p.enters("Ann")
	p.sees("'Ann'")
	p.sees(">>> ")
	p.enters("1/0")
	p.sees("ZeroDivisionError")
	p.sees(">>> ")
	p.types(ctrlD)
	p.leaves(0)
	if strings.ContainsAny(p.raw, "\x1b\a") {
		t.Errorf("got %q", p.raw)
	}
}
