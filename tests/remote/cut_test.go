//go:build linux

package remote

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// cutCountEnv sets the total number of cuts for each engine, which four tests divide.
const cutCountEnv = "TURNSTONE_TEST_CUTS"

// cutCount is the number of cuts of one engine in one test.
func cutCount(t *testing.T) int {
	t.Helper()
	text := os.Getenv(cutCountEnv)
	if text == "" {
		text = "40"
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 4 {
		t.Fatalf("%s=%s: use a number from 4", cutCountEnv, text)
	}
	return n / 4
}

// openSession opens a session in the engine's daemon, and closes it after the test.
func (r *testRemote) openSession(t testing.TB, l *client.Client) *client.Session {
	t.Helper()
	name := "s" + strings.ToLower(r.mark[:8])
	s, _, _, err := l.OpenSession(t.Context(), protocol.CreateParams{Name: name, Language: "python"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c, err := client.Dial(context.Background(), directDialer(r.engine.socketPath()))
		if err != nil {
			return
		}
		defer c.Close()
		_ = c.CloseSession(context.Background(), name)
	})
	return s
}

// A prefixKiller kills the prefix commands of a remote, within some time after a request.
type prefixKiller struct {
	remote *testRemote
	kills  atomic.Int64
}

// killWithin kills all prefixes after a random time.
func (k *prefixKiller) killWithin(longest time.Duration) {
	<-time.After(rand.N(longest))
	k.kills.Add(int64(k.remote.signalPrefixes(syscall.SIGKILL)))
}

func TestLostConnection(t *testing.T) {
	t.Run("loses and repeats no output", func(t *testing.T) {
		onEachEngine(t, func(t *testing.T, e *testEngine) {
			w, n := e.newRemote(t), cutCount(t)
			s := w.openSession(t, w.newLink(t))
			turn, err := s.Submit(t.Context(), fmt.Sprintf("import time, os\nn = 0\nwhile not os.path.exists(%q):\n    print(f'{n:08d} ' + 'x' * 190)\n    n += 1\n    time.sleep(0.001)\nprint('all', n)", w.home+"/enough"))
			if err != nil {
				t.Fatal(err)
			}
			c := &prefixKiller{remote: w}
			read := &eventReader{t: t, s: s, turn: turn}
			for c.kills.Load() < int64(n) {
				read.readUntil(func() bool { return true }) // there was a connection
				c.killWithin(60 * time.Millisecond)
				if t.Failed() {
					return
				}
			}
			if err := os.WriteFile(w.home+"/enough", nil, 0o600); err != nil {
				t.Fatal(err)
			}
			read.readUntil(func() bool { return read.ended })
			read.checkText()
			t.Logf("%d cuts, %d events, %d bytes of text", c.kills.Load(), read.events, read.text.Len())
		})
	})

	t.Run("runs code once when its reply was lost", func(t *testing.T) {
		onEachEngine(t, func(t *testing.T, e *testEngine) {
			w := e.newRemote(t)
			s := w.openSession(t, w.newLink(t))
			c := &prefixKiller{remote: w}
			n := countEffects(t, w, c, func(i int) error {
				return runCode(t, s, fmt.Sprintf("effects.write('%d\\n')", i))
			}, func() {
				wantNoError(t, runCode(t, s, fmt.Sprintf("effects = open(%q, 'a', buffering=1)", w.home+"/effects")))
			})
			t.Logf("%d calls, %d cuts, each has run once", n, c.kills.Load())
		})
	})

	t.Run("delivers an input once when its reply was lost", func(t *testing.T) {
		onEachEngine(t, func(t *testing.T, e *testEngine) {
			w := e.newRemote(t)
			s := w.openSession(t, w.newLink(t))
			c := &prefixKiller{remote: w}
			n := countEffects(t, w, c, func(i int) error {
				reply, err := s.Wait(t.Context(), 0, &session.WaitOptions{Timeout: testTimeout})
				if err != nil {
					return fmt.Errorf("wait: %w", err)
				}
				if reply.InputRequest == nil {
					return fmt.Errorf("the turn requests no input: %+v", reply)
				}
				_, err = s.Answer(t.Context(), reply.InputRequest.ID, session.Input{Data: fmt.Appendln(nil, i)})
				return err
			}, func() {
				_, err := s.Submit(t.Context(), fmt.Sprintf("effects = open(%q, 'a', buffering=1)\nwhile (line := input()) != 'end':\n    effects.write(line + '\\n')", w.home+"/effects"))
				wantNoError(t, err)
			})
			t.Logf("%d inputs, %d cuts, each was read once", n, c.kills.Load())
		})
	})

	t.Run("runs code once and whole when its upload was cut", func(t *testing.T) {
		onEachEngine(t, func(t *testing.T, e *testEngine) {
			w := e.newRemote(t)
			s := w.openSession(t, w.newLink(t))
			c := &prefixKiller{remote: w}
			large := strings.Repeat("0123456789abcdef", 40_000) // 640 KB
			n := countEffects(t, w, c, func(i int) error {
				return runCode(t, s, fmt.Sprintf("text = '%s'\neffects.write(f'{%d if len(text) == %d else text[-20:]}\\n')", large, i, len(large)))
			}, func() {
				wantNoError(t, runCode(t, s, fmt.Sprintf("effects = open(%q, 'a', buffering=1)", w.home+"/effects")))
			})
			t.Logf("%d uploads, %d cuts, each has run once and whole", n, c.kills.Load())
		})
	})
}

// An eventReader reads the events of a session over any number of connections.
type eventReader struct {
	t      testing.TB
	s      *client.Session
	turn   uint64
	after  timeline.Seq
	events int
	text   strings.Builder
	ended  bool
}

// readUntil reads from where it stopped, until a new event has come and enough returns true.
func (r *eventReader) readUntil(enough func() bool) {
	r.t.Helper()
	for began := time.Now(); time.Since(began) < testTimeout; {
		for event, err := range r.s.Events(r.t.Context(), r.after) {
			if err != nil {
				break // the connection was cut: the next one continues
			}
			if event.Seq != r.after+1 && r.after != 0 {
				r.t.Errorf("event %d comes after %d", event.Seq, r.after)
				return
			}
			r.addEvent(event)
			if enough() {
				return
			}
		}
	}
	r.t.Error("timeout: no more events")
}

// addEvent records one event.
func (r *eventReader) addEvent(event timeline.Event) {
	r.after = event.Seq
	r.events++
	if event.Turn != r.turn {
		return
	}
	switch body := event.Body.(type) {
	case timeline.Text:
		r.text.Write(body.Data)
	case timeline.Gap:
		r.t.Errorf("a gap: %+v", body)
	case timeline.TurnEnded:
		r.ended = true
	}
}

// checkText checks every byte of the turn.
func (r *eventReader) checkText() {
	r.t.Helper()
	lines := strings.Split(strings.TrimSuffix(r.text.String(), "\n"), "\n")
	for i, line := range lines[:len(lines)-1] {
		if line != fmt.Sprintf("%08d %s", i, strings.Repeat("x", 190)) {
			r.t.Fatalf("line %d of %d is %q", i, len(lines), line)
		}
	}
	if last := lines[len(lines)-1]; last != fmt.Sprintf("all %d", len(lines)-1) {
		r.t.Errorf("the last of %d lines is %q", len(lines), last)
	}
}

// countEffects makes calls and kills the prefix around each, until there were enough cuts. Each
// call writes its number to the file of effects. The file must contain each number once.
func countEffects(t *testing.T, w *testRemote, c *prefixKiller, call func(i int) error, prepare func()) int {
	t.Helper()
	prepare()
	n := 0
	for enough := int64(cutCount(t)); c.kills.Load() < enough; n++ {
		cut := make(chan struct{})
		go func() { defer close(cut); c.killWithin(8 * time.Millisecond) }()
		if err := call(n); err != nil {
			t.Fatalf("call %d: %v", n, err)
		}
		<-cut
	}
	var wanted strings.Builder
	for i := range n {
		fmt.Fprintln(&wanted, i)
	}
	var got []byte
	wait.Until(t, "the last effect is in the file", func() bool {
		got, _ = os.ReadFile(w.home + "/effects")
		return strings.HasSuffix(string(got), fmt.Sprintf("%d\n", n-1))
	})
	if string(got) != wanted.String() {
		t.Errorf("of %d calls, these had an effect: %q", n, got)
	}
	return n
}

// runCode runs code to its end.
func runCode(t *testing.T, s *client.Session, code string) error {
	t.Helper()
	turn, err := s.Submit(t.Context(), code)
	if err != nil {
		return fmt.Errorf("submit: %w", err)
	}
	reply, err := s.Wait(t.Context(), turn, &session.WaitOptions{Timeout: testTimeout})
	if err != nil {
		return fmt.Errorf("wait: %w", err)
	}
	if reply.Outcome != timeline.OutcomeOK {
		return fmt.Errorf("the turn ended with %+v", reply)
	}
	return nil
}

func wantNoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
