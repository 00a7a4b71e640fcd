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

// A callRecorder is a proxy between the web UI and the daemon that records the calls of the web UI.
type callRecorder struct {
	socket string
	mu     sync.Mutex
	calls  []string
}

// recordCalls starts to listen in front of a daemon.
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

// copyLines forwards lines in both directions. It proves itself with the daemon's key, because the
// daemon's own proof is for another address.
func (r *callRecorder) copyLines(page net.Conn, s *testDaemon) {
	defer page.Close()
	if peer.AnswerQuestion(page, peer.CanonicalAddress(r.socket), daemonlock.UserKeys(s.envValue, os.Geteuid())) != nil {
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
		r.mu.Lock()
		r.calls = append(r.calls, line)
		r.mu.Unlock()
		if _, err := io.WriteString(daemon, line); err != nil {
			return
		}
		if err != nil {
			return
		}
	}
}

// countCalls returns the number of calls that contain all of the words.
func (r *callRecorder) countCalls(words ...string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, call := range r.calls {
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

// After a change of one session, the web UI requests only that session.
func TestPage_Polling(t *testing.T) {
	t.Parallel()
	s := newTestDaemon(t)
	b := openTab(t)
	s.openSession("busy")
	s.openSession("quiet")
	s.waitOver("busy")
	s.waitOver("quiet") // its start is a change
	w := recordCalls(t, s)
	s.startPage("--socket", w.socket)
	b.openAddress(s.lastLink())
	b.waitUntil("both sessions are idle", `document.querySelectorAll(".sessions .dot.idle").length === 2`)
	for n := 1; n <= 10; n++ {
		s.execCode("busy", "6 * 7")
		b.waitUntil("the list shows the turn", fmt.Sprintf(`[...document.querySelectorAll(".sessions li .turns")].some((e) => /^%d turns?$/.test(e.textContent))`, n))
	}
	if n := w.countCalls(`"session/get"`, `"busy"`); n < 3 {
		t.Errorf("the session that changed ten times was requested %d times", n)
	}
	if n := w.countCalls(`"session/get"`, `"quiet"`); n > 2 { // once for its start, and once for its first change
		t.Errorf("the unchanged session was requested %d times", n)
	}
}
