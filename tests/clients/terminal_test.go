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
)

// Keys.
const (
	ctrlC  = "\x03"
	escape = "\x1b"
)

// A terminal is where an agent runs as a person runs it.
type terminal struct {
	t    *testing.T
	cmd  *exec.Cmd
	tty  *os.File
	done chan struct{} // closed when the agent has ended

	heard func(shown []byte) // may be nil

	mu    sync.Mutex
	shown string // since the last key
}

// open starts an agent in a terminal. It ends with the test.
func open(t *testing.T, cmd *exec.Cmd) *terminal {
	t.Helper()
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: 140})
	if err != nil {
		t.Fatal(err)
	}
	s := &terminal{t: t, cmd: cmd, tty: tty, done: make(chan struct{})}
	go s.read()
	t.Cleanup(func() {
		for range 20 { // agents want a second one soon after the first
			if s.types(ctrlC); holds(3*keyPause, s.ended) {
				break
			}
		}
		if !s.ended() {
			t.Errorf("the agent does not end: its terminal shows %.6000q", s.screen())
			_ = cmd.Process.Kill()
		}
		_ = cmd.Wait()
		_ = tty.Close()
	})
	return s
}

func (s *terminal) read() {
	defer close(s.done)
	buf := make([]byte, 64<<10)
	for {
		n, err := s.tty.Read(buf)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.shown += string(buf[:n])
		s.mu.Unlock()
		if s.heard != nil {
			s.heard(buf[:n])
		}
		s.reply(string(buf[:n]))
	}
}

// reply answers what an agent asks of its terminal before it starts.
func (s *terminal) reply(shown string) {
	if strings.Contains(shown, "\x1b[6n") { // where is the cursor?
		_, _ = s.tty.WriteString("\x1b[1;1R")
	}
	if strings.Contains(shown, "\x1b[c") { // what are you?
		_, _ = s.tty.WriteString("\x1b[?62;c")
	}
}

func (s *terminal) ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

var (
	commands = regexp.MustCompile(`\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\x1b[P_^][^\x1b]*\x1b\\|\x1b\[[0-9;?<>=:]*[ -/]*[@-~]|\x1b[=>78()][0AB]?`)
	blanks   = regexp.MustCompile(`\s+`)
)

// screen is the text shown since the last key, without blanks: agents draw them
// by moving the cursor.
func (s *terminal) screen() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return blanks.ReplaceAllString(commands.ReplaceAllString(s.shown, " "), "")
}

// sees waits until the terminal shows text, blanks aside.
func (s *terminal) sees(text string) {
	s.t.Helper()
	text = blanks.ReplaceAllString(text, "")
	if !holds(deadline, func() bool { return s.ended() || strings.Contains(s.screen(), text) }) || !strings.Contains(s.screen(), text) {
		s.t.Fatalf("the terminal shows %.6000q, want %q", s.screen(), text)
	}
}

// types presses keys.
func (s *terminal) types(keys string) {
	s.t.Helper()
	s.mu.Lock()
	s.shown = ""
	s.mu.Unlock()
	if _, err := s.tty.WriteString(keys); err != nil && !s.ended() {
		s.t.Error(err)
	}
}

// keyPause is between keys of a person. Agents take for pasted text what comes
// faster, and a return in it for the start of a line.
const keyPause = 100 * time.Millisecond

// says types a prompt until the agent asks the model with our tools. An agent may ask before
// it has them.
func (s *terminal) says(m *model, prompt string) {
	s.t.Helper()
	before := m.askings()
	for range 5 {
		s.types(prompt)
		<-time.After(keyPause)
		s.types("\r")
		if holds(3*time.Second, func() bool { return m.askings() > before }) {
			return
		}
	}
	s.t.Fatalf("the agent did not ask the model with our tools; it shows %.6000q", s.screen())
}
