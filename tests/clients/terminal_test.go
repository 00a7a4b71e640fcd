//go:build linux

package clients

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
)

// Keys and their control characters.
const (
	ctrlC  = "\x03"
	escape = "\x1b"
)

// An agentTerminal runs an agent interactively, as a user does.
type agentTerminal struct {
	t    *testing.T
	cmd  *exec.Cmd
	tty  *os.File
	done chan struct{} // closed when the agent has ended

	onOutput func(shown []byte) // may be nil

	mu    sync.Mutex
	shown string // since the last key
}

// openTerminal starts an agent in a terminal. It ends with the test.
func openTerminal(t *testing.T, cmd *exec.Cmd) *agentTerminal {
	t.Helper()
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: 140})
	if err != nil {
		t.Fatal(err)
	}
	s := &agentTerminal{t: t, cmd: cmd, tty: tty, done: make(chan struct{})}
	go s.readOutput()
	t.Cleanup(func() {
		for range 20 { // agents want a second one soon after the first
			if s.typeKeys(ctrlC); wait.Within(3*keyDelay, s.hasEnded) {
				break
			}
		}
		if !s.hasEnded() {
			t.Errorf("the agent does not exit; its terminal shows %.6000q", s.screenText())
			_ = cmd.Process.Kill()
		}
		_ = cmd.Wait()
		_ = tty.Close()
	})
	return s
}

func (t *agentTerminal) readOutput() {
	defer close(t.done)
	buf := make([]byte, 64<<10)
	for {
		n, err := t.tty.Read(buf)
		if err != nil {
			return
		}
		t.mu.Lock()
		t.shown += string(buf[:n])
		t.mu.Unlock()
		if t.onOutput != nil {
			t.onOutput(buf[:n])
		}
		t.answerQueries(string(buf[:n]))
	}
}

// answerQueries answers the queries that an agent sends to its terminal before it starts.
func (t *agentTerminal) answerQueries(shown string) {
	if strings.Contains(shown, "\x1b[6n") { // cursor position
		_, _ = t.tty.WriteString("\x1b[1;1R")
	}
	if strings.Contains(shown, "\x1b[c") { // device attributes
		_, _ = t.tty.WriteString("\x1b[?62;c")
	}
}

func (t *agentTerminal) hasEnded() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

var (
	controlSequences = regexp.MustCompile(`\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\x1b[P_^][^\x1b]*\x1b\\|\x1b\[[0-9;?<>=:]*[ -/]*[@-~]|\x1b[=>78()][0AB]?`)
	blanks           = regexp.MustCompile(`\s+`)
)

// screenText returns the text shown since the last key, without blanks, because agents draw these
// by moving the cursor.
func (t *agentTerminal) screenText() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return blanks.ReplaceAllString(controlSequences.ReplaceAllString(t.shown, " "), "")
}

// waitText waits until the terminal shows text, ignoring blanks.
func (t *agentTerminal) waitText(text string) {
	t.t.Helper()
	text = blanks.ReplaceAllString(text, "")
	if !wait.Within(testTimeout, func() bool { return t.hasEnded() || strings.Contains(t.screenText(), text) }) || !strings.Contains(t.screenText(), text) {
		t.t.Fatalf("the terminal shows %.6000q, want %q", t.screenText(), text)
	}
}

func (t *agentTerminal) typeKeys(keys string) {
	t.t.Helper()
	t.mu.Lock()
	t.shown = ""
	t.mu.Unlock()
	if _, err := t.tty.WriteString(keys); err != nil && !t.hasEnded() {
		t.t.Error(err)
	}
}

// keyDelay is the pause between a user's keys. Agents treat faster input as a paste, and a return
// in it as a new line.
const keyDelay = 100 * time.Millisecond

// typePrompt types a prompt until the agent asks the model with the tools of repl mcp. An agent may
// ask before it has them.
func (t *agentTerminal) typePrompt(m *fakeModel, prompt string) {
	t.t.Helper()
	before := m.countAsks()
	for range 5 {
		t.typeKeys(prompt)
		<-time.After(keyDelay)
		t.typeKeys("\r")
		if wait.Within(3*time.Second, func() bool { return m.countAsks() > before }) {
			return
		}
	}
	t.t.Fatalf("the agent did not ask the model with our tools; it shows %.6000q", t.screenText())
}
