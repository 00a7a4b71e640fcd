//go:build linux

package clients

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/turnstone-repl/turnstone/internal/testkit/replbin"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
)

// recordingEnv names the file for the recording of the README, in the format of asciinema.
const recordingEnv = "TURNSTONE_RECORDING"

const (
	recordedRows    = 30
	recordedColumns = 124
)

// The story of the README: an agent runs code that requests input, and the user attaches to the
// session and answers. With recordingEnv the keys come at a user's speed.
func TestReadmeRecording(t *testing.T) {
	t.Parallel()
	p := newTestHome(t)
	p.sharedEnv = append(p.sharedEnv, "TURNSTONE_SOCKET="+filepath.Join(p.home, "run", "daemon.sock"))
	if err := os.Mkdir(filepath.Join(p.home, "run"), 0o700); err != nil {
		t.Fatal(err)
	}
	user := p.sharedEnv
	if os.Getenv(recordingEnv) != "" { // its paths appear in the recording
		if p.project = "/tmp/people"; os.Mkdir(p.project, 0o700) != nil {
			t.Fatalf("cannot create %s; remove it", p.project)
		}
		t.Cleanup(func() { _ = os.RemoveAll(p.project) })
		user = append(slices.Clone(p.sharedEnv), "TMPDIR=/tmp")
	}
	var rows strings.Builder
	rows.WriteString("name,age,visits\n")
	for i := range 200 {
		fmt.Fprintf(&rows, "n%d,%d,%d\n", i, 20+(i*i)%53, i%7)
	}
	if err := os.WriteFile(filepath.Join(p.project, "people.csv"), []byte(rows.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	m := newFakeModel(t, codexCLI.dialect, codexCLI.toolName,
		replCall("import csv\nrows = list(csv.DictReader(open('people.csv')))\nprint(len(rows), 'rows of', *rows[0])"),
		replCall("import matplotlib.pyplot as plt\ncolumn = input('Which column shall I plot? ')\nvalues = [float(r[column]) for r in rows]\nplt.hist(values); plt.title(column); plt.show()\nprint(f'{column}: mean {sum(values) / len(values):.1f}')"))
	_, agent := codexCLI.configure(t, p, m, agentOptions{server: []string{"--daemon=auto", "--name", "people"}})
	p.addProgram(t, "codex", agent.Args, agent.Env)
	p.addProgram(t, "repl", []string{replbin.Path()}, user)

	s := startRecording(t, p)
	s.waitText("$")
	s.pauseFor(time.Second)
	s.typeLine("codex\r")
	s.waitText("stub default")
	s.typePrompt(m, "plot a column of people.csv; let the code ask me which", 2)
	s.waitText("waiting for input")
	s.pauseFor(4 * time.Second)
	s.runTmux("split-window", "-h", "-l", "44%", "sh")
	s.waitText("$")
	s.typeLine("repl attach people\r")
	s.waitText("Which column shall I plot?")
	s.pauseFor(4 * time.Second)
	s.typeLine("age\r")
	s.waitText("age: mean")
	s.pauseFor(3 * time.Second)
	s.runTmux("select-pane", "-L")
	m.addCall(toolCall{tool: "repl_output", arguments: map[string]any{"wait_ms": 1000}})
	s.typePrompt(m, "I told it", 3)
	if got := m.seenResults()[2]; !strings.Contains(got.text, "age: mean") || len(got.images) != 1 {
		t.Errorf("the agent got %q and %d images, want the mean and the plot", got.text, len(got.images))
	}
	s.waitText("age: mean")
	s.pauseFor(6 * time.Second)
	s.runTmux("kill-server")
}

// addProgram puts a program with an environment on the PATH of the home.
func (h testHome) addProgram(t testing.TB, name string, argv, env []string) {
	t.Helper()
	var b strings.Builder
	b.WriteString("#!/bin/sh\nexec env")
	for _, word := range append(env, argv...) {
		fmt.Fprintf(&b, " '%s'", strings.ReplaceAll(word, "'", `'\''`))
	}
	b.WriteString(` "$@"` + "\n")
	if err := os.Chmod(h.writeFile(t, "bin/"+name, b.String()), 0o700); err != nil {
		t.Fatal(err)
	}
}

// A recordedShell is tmux in a user's terminal, whose output is recorded with its times.
type recordedShell struct {
	*agentTerminal
	socket string
	home   testHome
	env    []string
	slow   bool
}

func startRecording(t *testing.T, p testHome) *recordedShell {
	t.Helper()
	to := os.Getenv(recordingEnv)
	s := &recordedShell{socket: filepath.Join(p.home, "tmux"), home: p, slow: to != "", env: []string{
		"PATH=" + filepath.Join(p.home, "bin") + ":/usr/bin:/bin", "PS1=$ ", "ENV=", "SHELL=/bin/sh",
	}}
	p.writeFile(t, "tmux.conf", "set -g status off\nset -g focus-events on\nset -g default-terminal tmux-256color\nset -g pane-border-style fg=colour240\nset -g pane-active-border-style fg=colour240\n")
	cmd := p.newCommand([]string{"tmux", "-S", s.socket, "-f", filepath.Join(p.home, "tmux.conf"), "new-session", "sh"}, s.env...)
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: recordedRows, Cols: recordedColumns})
	if err != nil {
		t.Fatal(err)
	}
	s.agentTerminal = &agentTerminal{t: t, cmd: cmd, tty: tty, done: make(chan struct{}), onOutput: newCast(t, to)}
	go s.readOutput()
	t.Cleanup(func() {
		_ = exec.Command("tmux", "-S", s.socket, "kill-server").Run()
		_ = cmd.Wait()
		_ = tty.Close()
		if out, err := runToEnd(t, p.newCommand([]string{replbin.Path(), "daemon", "stop"})); err != nil {
			t.Logf("the daemon: %v: %s", err, out)
		}
	})
	return s
}

// newCast returns a function that appends output to a file; without a file it does nothing.
func newCast(t *testing.T, name string) func([]byte) {
	if name == "" {
		return func([]byte) {}
	}
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	_ = json.NewEncoder(f).Encode(jsonObject{"version": 2, "width": recordedColumns, "height": recordedRows})
	start := time.Now()
	return func(b []byte) {
		_ = json.NewEncoder(f).Encode([]any{time.Since(start).Seconds(), "o", string(b)})
	}
}

// runTmux runs a tmux command.
func (s *recordedShell) runTmux(args ...string) {
	s.t.Helper()
	if out, err := s.home.newCommand(append([]string{"tmux", "-S", s.socket}, args...), s.env...).CombinedOutput(); err != nil {
		s.t.Fatalf("tmux %q: %v: %s", args, err, out)
	}
}

// typeLine types text at a user's speed.
func (s *recordedShell) typeLine(text string) {
	s.t.Helper()
	for _, key := range text {
		if key == '\r' {
			<-time.After(keyDelay) // agents treat faster input as a paste
			s.pauseFor(600 * time.Millisecond)
		}
		s.typeKeys(string(key))
		s.pauseFor(45 * time.Millisecond)
	}
}

// typePrompt types a prompt, and waits until the given number of calls of the agent are answered.
// An agent ignores a return soon after text, and may ask the model before it has the tools of repl
// mcp.
func (s *recordedShell) typePrompt(m *fakeModel, prompt string, calls int) {
	s.t.Helper()
	s.typeLine(prompt)
	before := m.countAsks()
	for range 10 {
		<-time.After(keyDelay)
		if s.typeKeys("\r"); wait.Within(3*time.Second, func() bool { return m.countAsks() > before }) {
			break
		}
	}
	wait.Until(s.t, fmt.Sprintf("%d calls are answered", calls), func() bool { return len(m.seenResults()) == calls })
}

// pauseFor gives the viewers of the recording time to read.
func (s *recordedShell) pauseFor(d time.Duration) {
	if s.slow {
		<-time.After(d)
	}
}
