//go:build unix

package webui

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/daemonlock"
	"github.com/turnstone-repl/turnstone/internal/peer"
)

// A callRecorder stands between the page and the daemon, and notes the calls of the page.
type callRecorder struct {
	socket string
	mu     sync.Mutex
	calls  []string
}

// recordCalls begins to listen in front of a daemon.
func recordCalls(t *testing.T, s *testDaemon) *callRecorder {
	t.Helper()
	w := &callRecorder{socket: filepath.Join(s.dir, "t")}
	l, err := net.Listen("unix", w.socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go w.copyLines(c, s)
		}
	}()
	return w
}

// copyLines hands lines on, in both directions. It has the key of the daemon, whose proof would not do here.
func (w *callRecorder) copyLines(page net.Conn, s *testDaemon) {
	defer page.Close()
	if peer.AnswerQuestion(page, peer.CanonicalAddress(w.socket), daemonlock.UserKeys(s.envValue, os.Geteuid())) != nil {
		return
	}
	daemon, err := net.Dial("unix", s.socket)
	if err != nil {
		return
	}
	defer daemon.Close()
	go func() { _, _ = io.Copy(page, daemon); _ = page.Close() }()
	for lines := bufio.NewReader(page); ; {
		line, err := lines.ReadString('\n')
		w.mu.Lock()
		w.calls = append(w.calls, line)
		w.mu.Unlock()
		if _, err := io.WriteString(daemon, line); err != nil {
			return
		}
		if err != nil {
			return
		}
	}
}

// countCalls says how many calls have all of the words.
func (w *callRecorder) countCalls(words ...string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, call := range w.calls {
		all := true
		for _, word := range words {
			all = all && strings.Contains(call, word)
		}
		if all {
			n++
		}
	}
	return n
}

// A change of one session has the daemon asked for that one.
func TestPage_Polling(t *testing.T) {
	t.Parallel()
	s := newTestDaemon(t)
	b := openTab(t)
	s.openSession("busy")
	s.openSession("quiet")
	s.waitOver("busy")
	s.waitOver("quiet") // a start is a change
	w := recordCalls(t, s)
	s.startPage("--socket", w.socket)
	b.openAddress(s.lastLink())
	b.waitUntil("both sessions are idle", `document.querySelectorAll(".sessions .dot.idle").length === 2`)
	for n := 1; n <= 10; n++ {
		s.execCode("busy", "6 * 7")
		b.waitUntil("the list shows the turn", fmt.Sprintf(`[...document.querySelectorAll(".sessions li .turns")].some((e) => /^%d turns?$/.test(e.textContent))`, n))
	}
	if n := w.countCalls(`"session/get"`, `"busy"`); n < 3 {
		t.Errorf("the session that has changed ten times was asked for %d times", n)
	}
	if n := w.countCalls(`"session/get"`, `"quiet"`); n > 2 { // its first tick, and that of its start
		t.Errorf("the session that has not changed was asked for %d times", n)
	}
}
