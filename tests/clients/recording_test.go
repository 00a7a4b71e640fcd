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
)

// recordingEnv names the file that the story of the README is recorded in, as asciinema has it.
const recordingEnv = "TURNSTONE_RECORDING"

const (
	recordedRows    = 30
	recordedColumns = 124
)

// The story of the README: an agent runs code that asks a question, and the person attaches to the
// session and answers. With recordingEnv the keys come as slowly as a person's.
func TestStory_OfTheReadme(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.shared = append(p.shared, "REPL_SOCKET="+filepath.Join(p.home, "run", "daemon.sock"))
	if err := os.Mkdir(filepath.Join(p.home, "run"), 0o700); err != nil {
		t.Fatal(err)
	}
	person := p.shared
	if os.Getenv(recordingEnv) != "" { // its paths are looked at
		if p.project = "/tmp/people"; os.Mkdir(p.project, 0o700) != nil {
			t.Fatalf("cannot make %s: remove it", p.project)
		}
		t.Cleanup(func() { _ = os.RemoveAll(p.project) })
		person = append(slices.Clone(p.shared), "TMPDIR=/tmp")
	}
	var rows strings.Builder
	rows.WriteString("name,age,visits\n")
	for i := range 200 {
		fmt.Fprintf(&rows, "n%d,%d,%d\n", i, 20+(i*i)%53, i%7)
	}
	if err := os.WriteFile(filepath.Join(p.project, "people.csv"), []byte(rows.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	m := newModel(t, codex.dialect, codex.tool,
		run("import csv\nrows = list(csv.DictReader(open('people.csv')))\nprint(len(rows), 'rows of', *rows[0])"),
		run("import matplotlib.pyplot as plt\ncolumn = input('Which column shall I plot? ')\nvalues = [float(r[column]) for r in rows]\nplt.hist(values); plt.title(column); plt.show()\nprint(f'{column}: mean {sum(values) / len(values):.1f}')"))
	_, agent := codex.configure(t, p, m, options{server: []string{"--daemon=auto", "--name", "people"}})
	p.program(t, "codex", agent.Args, agent.Env)
	p.program(t, "repl", []string{os.Getenv(binaryEnv)}, person)

	s := record(t, p)
	s.sees("$")
	s.pause(time.Second)
	s.says("codex\r")
	s.sees("stub default")
	s.asks(m, "plot a column of people.csv; let the code ask me which", 2)
	s.sees("waiting for input")
	s.pause(4 * time.Second)
	s.tmux("split-window", "-h", "-l", "44%", "sh")
	s.sees("$")
	s.says("repl attach people\r")
	s.sees("Which column shall I plot?")
	s.pause(4 * time.Second)
	s.says("age\r")
	s.sees("age: mean")
	s.pause(3 * time.Second)
	s.tmux("select-pane", "-L")
	m.then(call{tool: "repl_output", arguments: map[string]any{"wait_ms": 1000}})
	s.asks(m, "I told it", 3)
	if got := m.seen()[2]; !strings.Contains(got.text, "age: mean") || len(got.images) != 1 {
		t.Errorf("the agent got %q and %d pictures, want the mean and the plot", got.text, len(got.images))
	}
	s.sees("age: mean")
	s.pause(6 * time.Second)
	s.tmux("kill-server")
}

// program puts a program with an environment on the PATH of the place.
func (p place) program(t testing.TB, name string, argv, env []string) {
	t.Helper()
	var b strings.Builder
	b.WriteString("#!/bin/sh\nexec env")
	for _, word := range append(env, argv...) {
		fmt.Fprintf(&b, " '%s'", strings.ReplaceAll(word, "'", `'\''`))
	}
	b.WriteString(` "$@"` + "\n")
	if err := os.Chmod(p.write(t, "bin/"+name, b.String()), 0o700); err != nil {
		t.Fatal(err)
	}
}

// A recorded terminal is tmux in one of a person, whose bytes are kept with their times.
type recorded struct {
	*terminal
	socket string
	place  place
	env    []string
	slowly bool
}

func record(t *testing.T, p place) *recorded {
	t.Helper()
	to := os.Getenv(recordingEnv)
	s := &recorded{socket: filepath.Join(p.home, "tmux"), place: p, slowly: to != "", env: []string{
		"PATH=" + filepath.Join(p.home, "bin") + ":/usr/bin:/bin", "PS1=$ ", "ENV=", "SHELL=/bin/sh",
	}}
	p.write(t, "tmux.conf", "set -g status off\nset -g focus-events on\nset -g default-terminal tmux-256color\nset -g pane-border-style fg=colour240\nset -g pane-active-border-style fg=colour240\n")
	cmd := p.command([]string{"tmux", "-S", s.socket, "-f", filepath.Join(p.home, "tmux.conf"), "new-session", "sh"}, s.env...)
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: recordedRows, Cols: recordedColumns})
	if err != nil {
		t.Fatal(err)
	}
	s.terminal = &terminal{t: t, cmd: cmd, tty: tty, done: make(chan struct{}), heard: castTo(t, to)}
	go s.read()
	t.Cleanup(func() {
		_ = exec.Command("tmux", "-S", s.socket, "kill-server").Run()
		_ = cmd.Wait()
		_ = tty.Close()
		if out, err := finish(t, p.command([]string{os.Getenv(binaryEnv), "ctl", "stop"})); err != nil {
			t.Logf("the daemon: %v: %s", err, out)
		}
	})
	return s
}

// castTo returns a function that keeps output in a file; without a file it keeps nothing.
func castTo(t *testing.T, name string) func([]byte) {
	if name == "" {
		return func([]byte) {}
	}
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	_ = json.NewEncoder(f).Encode(object{"version": 2, "width": recordedColumns, "height": recordedRows})
	begun := time.Now()
	return func(b []byte) {
		_ = json.NewEncoder(f).Encode([]any{time.Since(begun).Seconds(), "o", string(b)})
	}
}

// tmux gives an order to tmux.
func (s *recorded) tmux(args ...string) {
	s.t.Helper()
	if out, err := s.place.command(append([]string{"tmux", "-S", s.socket}, args...), s.env...).CombinedOutput(); err != nil {
		s.t.Fatalf("tmux %q: %v: %s", args, err, out)
	}
}

// says types text as a person does.
func (s *recorded) says(text string) {
	s.t.Helper()
	for _, key := range text {
		if key == '\r' {
			<-time.After(keyPause) // agents take what comes faster for a paste
			s.pause(600 * time.Millisecond)
		}
		s.types(string(key))
		s.pause(45 * time.Millisecond)
	}
}

// asks types a prompt, and waits until that many calls of the agent have been answered. An agent
// takes no return soon after text, and may ask before it has our tools.
func (s *recorded) asks(m *model, prompt string, calls int) {
	s.t.Helper()
	s.says(prompt)
	before := m.askings()
	for range 10 {
		<-time.After(keyPause)
		if s.types("\r"); holds(3*time.Second, func() bool { return m.askings() > before }) {
			break
		}
	}
	eventually(s.t, fmt.Sprintf("%d calls are answered", calls), func() bool { return len(m.seen()) == calls })
}

// pause gives who watches the recording time to read.
func (s *recorded) pause(d time.Duration) {
	if s.slowly {
		<-time.After(d)
	}
}
