package supervisor

import (
	"fmt"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor/internal/pty"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// setReaders makes scans find these readers.
func (p *fakeProcess) setReaders(readers ...pty.TerminalReader) {
	p.withLock(func() { p.blockedReaders = readers })
}

// runWithTurn runs a test during a turn.
func runWithTurn(t *testing.T, test func(t *testing.T, s *Session, p *fakeProcess, turn uint64)) {
	runWithFakeWorker(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
		p.sendReady()
		test(t, s, p, submitTurn(t, s, "program"))
	})
}

func TestListener(t *testing.T) {
	polling := pty.TerminalReader{Key: "7/polls", Command: "bash", Polls: true}

	t.Run("waits once it was silent and idle for a while, and says that this is judged", func(t *testing.T) {
		runWithTurn(t, func(t *testing.T, s *Session, p *fakeProcess, turn uint64) {
			p.setReaders(polling)
			p.advanceTime(stillTime - 50*ms)
			r := pollReply(t, s, turn)
			if r.InputRequest != nil || r.Listener == nil || *r.Listener != (session.Listener{Program: "bash"}) {
				t.Errorf("got %+v, %+v too early, want only a listener", r.InputRequest, r.Listener)
			}
			p.advanceTime(100 * ms)
			r = pollReply(t, s, turn)
			if r.InputRequest == nil || !r.InputRequest.Polls || !r.InputRequest.Terminal || r.InputRequest.Raw || r.Listener != nil {
				t.Errorf("got %+v, %+v, want a request of a program that polls", r.InputRequest, r.Listener)
			}
		})
	})

	t.Run("does not wait while it writes", func(t *testing.T) {
		runWithTurn(t, func(t *testing.T, s *Session, p *fakeProcess, turn uint64) {
			p.setReaders(polling)
			for range 30 {
				p.advanceTime(100 * ms)
				p.sendFrames(ipc.Progress{Turn: turn, Message: "more"})
			}
			if r := pollReply(t, s, turn); r.InputRequest != nil {
				t.Errorf("got %+v", r.InputRequest)
			}
		})
	})

	t.Run("does not wait while its process works", func(t *testing.T) {
		runWithTurn(t, func(t *testing.T, s *Session, p *fakeProcess, turn uint64) {
			busy := polling
			for range 30 {
				busy.CPUTime += 30 * ms
				p.setReaders(busy)
				p.advanceTime(100 * ms)
			}
			if r := pollReply(t, s, turn); r.InputRequest != nil || r.Listener == nil {
				t.Errorf("got %+v, %+v, want only a listener", r.InputRequest, r.Listener)
			}
		})
	})

	t.Run("does not wait if it is seldom seen", func(t *testing.T) {
		runWithTurn(t, func(t *testing.T, s *Session, p *fakeProcess, turn uint64) {
			for i := range 100 {
				p.setReaders()
				if i%2 == 0 {
					p.setReaders(polling)
				}
				p.advanceTime(23 * ms)
			}
			if r := pollReply(t, s, turn); r.InputRequest != nil {
				t.Errorf("got %+v", r.InputRequest)
			}
		})
	})

	t.Run("stops waiting once it has stopped polling, without the end of the turn", func(t *testing.T) {
		runWithTurn(t, func(t *testing.T, s *Session, p *fakeProcess, turn uint64) {
			p.setReaders(polling)
			p.advanceTime(time.Second)
			request := pollReply(t, s, turn).InputRequest
			if request == nil {
				t.Fatal("got no request")
			}
			p.setReaders()
			p.advanceTime(time.Second)
			r := pollReply(t, s, turn)
			if r.InputRequest != nil || r.State != session.StateRunning {
				t.Errorf("got %+v, %v, want a running turn", r.InputRequest, r.State)
			}
			if _, err := s.Answer(t.Context(), request.ID, session.Input{Data: []byte("late\n")}); session.KindOf(err) != session.KindStale {
				t.Errorf("got %v for a late answer", err)
			}
			p.setReaders(polling)
			p.advanceTime(time.Second)
			if again := pollReply(t, s, turn).InputRequest; again == nil || again.ID == request.ID {
				t.Errorf("got %+v, want another request", again)
			}
		})
	})

	t.Run("stops waiting once its process works", func(t *testing.T) {
		runWithTurn(t, func(t *testing.T, s *Session, p *fakeProcess, turn uint64) {
			busy := polling
			p.setReaders(busy)
			p.advanceTime(time.Second)
			for range 20 {
				busy.CPUTime += 50 * ms
				p.setReaders(busy)
				p.advanceTime(100 * ms)
			}
			if r := pollReply(t, s, turn); r.InputRequest != nil {
				t.Errorf("got %+v", r.InputRequest)
			}
		})
	})

	t.Run("does not wait while something of its process is about to run", func(t *testing.T) {
		for name, unscheduled := range map[string]bool{"another thread": false, "the thread itself": true} {
			t.Run(name, func(t *testing.T) {
				runWithTurn(t, func(t *testing.T, s *Session, p *fakeProcess, turn uint64) {
					p.setReaders(polling)
					p.advanceTime(100 * ms)
					starved := polling
					starved.IsRunnable = true
					p.setReaders(starved)
					if unscheduled {
						p.withLock(func() { p.blockedReaders, p.pollState = nil, pty.PollRunning })
					}
					p.advanceTime(2 * time.Second)
					if r := pollReply(t, s, turn); r.InputRequest != nil || r.Listener == nil {
						t.Errorf("got %+v, %+v, want only a listener", r.InputRequest, r.Listener)
					}
					p.setReaders(polling)
					p.advanceTime(stillTime)
					if r := pollReply(t, s, turn); r.InputRequest == nil {
						t.Error("got no request of a program that is idle again")
					}
				})
			})
		}
	})

	t.Run("waits on while its thread only waits for a processor", func(t *testing.T) {
		runWithTurn(t, func(t *testing.T, s *Session, p *fakeProcess, turn uint64) {
			p.setReaders(polling)
			p.advanceTime(time.Second)
			request := pollReply(t, s, turn).InputRequest
			p.withLock(func() { p.blockedReaders, p.pollState = nil, pty.PollRunning })
			p.advanceTime(3 * time.Second)
			if r := pollReply(t, s, turn); r.InputRequest == nil || r.InputRequest.ID != request.ID {
				t.Errorf("got %+v, want the same request", r.InputRequest)
			}
			if _, err := s.Answer(t.Context(), request.ID, session.Input{Data: []byte("x\n")}); err != nil {
				t.Error(err)
			}
		})
	})

	t.Run("refuses an answer that comes after it has stopped", func(t *testing.T) {
		runWithTurn(t, func(t *testing.T, s *Session, p *fakeProcess, turn uint64) {
			p.setReaders(polling)
			p.advanceTime(time.Second)
			request := pollReply(t, s, turn).InputRequest
			p.setReaders() // no scan has noticed
			if _, err := s.Answer(t.Context(), request.ID, session.Input{Data: []byte("late\n")}); session.KindOf(err) != session.KindStale {
				t.Errorf("got %v, want a stale request", err)
			}
		})
	})

	t.Run("must be still again after an answer", func(t *testing.T) {
		runWithTurn(t, func(t *testing.T, s *Session, p *fakeProcess, turn uint64) {
			p.setReaders(polling)
			p.advanceTime(time.Second)
			request := pollReply(t, s, turn).InputRequest
			if _, err := s.Answer(t.Context(), request.ID, session.Input{Data: []byte("yes\n")}); err != nil {
				t.Fatal(err)
			}
			p.advanceTime(stillTime - 50*ms)
			if r := pollReply(t, s, turn); r.InputRequest != nil {
				t.Errorf("got %+v too early", r.InputRequest)
			}
			p.advanceTime(200 * ms)
			if r := pollReply(t, s, turn); r.InputRequest == nil || r.InputRequest.ID == request.ID {
				t.Errorf("got %+v, want another request", r.InputRequest)
			}
		})
	})

	t.Run("of an earlier turn does not wait in this one", func(t *testing.T) {
		runWithFakeWorker(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
			p.sendReady()
			p.withLock(func() { p.hasOtherReaders = true })
			p.setReaders(polling)
			turn := submitTurn(t, s, "1+1")
			p.advanceTime(3 * time.Second)
			if r := pollReply(t, s, turn); r.InputRequest != nil || r.Listener != nil {
				t.Errorf("got %+v, %+v", r.InputRequest, r.Listener)
			}
		})
	})

	t.Run("is one of many", func(t *testing.T) {
		runWithTurn(t, func(t *testing.T, s *Session, p *fakeProcess, turn uint64) {
			var all []pty.TerminalReader
			for i := range 2 * maxListeners {
				all = append(all, pty.TerminalReader{Key: fmt.Sprint(i), Command: fmt.Sprint("p", i), Polls: true})
			}
			p.setReaders(all...)
			p.advanceTime(time.Second)
			if r := pollReply(t, s, turn).InputRequest; r == nil || r.Reader != "p0" {
				t.Errorf("got %+v, want the first", r)
			}
			p.setReaders(all[1:]...)
			p.advanceTime(2 * time.Second)
			if r := pollReply(t, s, turn).InputRequest; r == nil || r.Reader == "p0" {
				t.Errorf("got %+v, want another", r)
			}
		})
	})

	t.Run("that reads single keys waits when it has drawn", func(t *testing.T) {
		for threads, after := range map[int]time.Duration{1: drawTime, 8: threadDrawTime} {
			runWithTurn(t, func(t *testing.T, s *Session, p *fakeProcess, turn uint64) {
				p.setReaders(pty.TerminalReader{Key: "1", Command: "fzf", Raw: true, Threads: threads})
				p.advanceTime(after - 10*ms)
				if r := pollReply(t, s, turn).InputRequest; r != nil {
					t.Errorf("%d threads: got %+v too early", threads, r)
				}
				p.advanceTime(20 * ms)
				if r := pollReply(t, s, turn).InputRequest; r == nil || !r.Raw || r.Polls {
					t.Errorf("%d threads: got %+v, want a request for keys", threads, r)
				}
			})
		}
	})

	t.Run("that draws while its read is blocked does not wait", func(t *testing.T) {
		runWithTurn(t, func(t *testing.T, s *Session, p *fakeProcess, turn uint64) {
			p.setReaders(pty.TerminalReader{Key: "1", Command: "spinner", Raw: true, Threads: 8})
			for i := range 30 {
				p.sendFrames(ipc.Progress{Turn: turn, Message: "drawn"})
				p.advanceTime(time.Duration(90+10*min(i, 20)) * ms) // becomes slower
				if r := pollReply(t, s, turn).InputRequest; r != nil {
					t.Fatalf("frame %d: got %+v", i, r)
				}
			}
			p.advanceTime(stillTime)
			if r := pollReply(t, s, turn).InputRequest; r == nil {
				t.Error("got no request after it has stopped drawing")
			}
		})
	})
}

func TestIsSecretPrompt(t *testing.T) {
	t.Parallel()
	for prompt, want := range map[string]bool{
		"? What's your password?": true, "Enter passphrase for key: ": true, "PIN:": true, "API key: ": true, "请输入密码：": true, "Contraseña: ": true,
		"name? ": false, "spinning: ": false, "root@host:~/secret$ ": false, "~/token-service# ": false, "": false, ">>> ": false,
	} {
		if got := isSecretPrompt(prompt); got != want {
			t.Errorf("%q: got %t, want %t", prompt, got, want)
		}
	}
}

func TestType(t *testing.T) {
	t.Run("types for the active turn, and records who typed", func(t *testing.T) {
		runWithTurn(t, func(t *testing.T, s *Session, p *fakeProcess, turn uint64) {
			p.takeReceived()
			got, err := s.As("ann").Type(t.Context(), session.Keys{Text: "hi<Enter>"})
			if err != nil || got != turn {
				t.Fatalf("got turn %d, %v, want %d", got, err, turn)
			}
			p.advanceTime(time.Second)
			text := ""
			for _, r := range p.takeReceived() {
				if s, ok := r.what.(string); ok {
					text += s
				}
			}
			if text != "hi\r" {
				t.Errorf("the terminal got %q", text)
			}
			if line := lastInputLine(t, s, turn); line != (timeline.InputLine{Text: "hi<Enter>", Author: "ann", Keys: true}) {
				t.Errorf("recorded %+v", line)
			}
		})
	})

	t.Run("does not record a secret", func(t *testing.T) {
		runWithTurn(t, func(t *testing.T, s *Session, p *fakeProcess, turn uint64) {
			if _, err := s.Type(t.Context(), session.Keys{Text: "hunter2<Enter>", Secret: true}); err != nil {
				t.Fatal(err)
			}
			if line := lastInputLine(t, s, turn); line.Text != "" || !line.Secret {
				t.Errorf("recorded %+v", line)
			}
		})
	})

	t.Run("redacts a secret that a user types key by key", func(t *testing.T) {
		runWithTurn(t, func(t *testing.T, s *Session, p *fakeProcess, turn uint64) {
			p.withLock(func() { p.echoOff, p.readsKeys = true, true })
			for _, k := range []string{"h", "u", "n", "x", "\x7f", "t", "e", "r", "2", "\r"} {
				if _, err := s.Type(t.Context(), session.Keys{Bytes: []byte(k), Live: true}); err != nil {
					t.Fatal(err)
				}
			}
			if got := lastNotice(t, s, turn); got != "" {
				t.Errorf("got notice %q", got)
			}
			if got := s.log.Redact("it is hunter2"); got != "it is [secret]" {
				t.Errorf("got %q", got)
			}
		})
	})

	t.Run("ends the request of the program", func(t *testing.T) {
		runWithTurn(t, func(t *testing.T, s *Session, p *fakeProcess, turn uint64) {
			p.setReaders(pty.TerminalReader{Key: "1", Command: "vim", Raw: true})
			p.advanceTime(time.Second)
			p.setReaders()
			if _, err := s.Type(t.Context(), session.Keys{Bytes: []byte("\x1b")}); err != nil {
				t.Fatal(err)
			}
			if r := pollReply(t, s, turn); r.InputRequest != nil || r.State != session.StateRunning {
				t.Errorf("got %+v, %v", r.InputRequest, r.State)
			}
		})
	})

	t.Run("refuses keys that nothing could read", func(t *testing.T) {
		runWithFakeWorker(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
			keys := session.Keys{Text: "x"}
			refused := func(when string, k session.Keys, want session.Kind) {
				t.Helper()
				if _, err := s.Type(t.Context(), k); session.KindOf(err) != want {
					t.Errorf("%s: got %v, want %s", when, err, want)
				}
			}
			refused("during the start", keys, session.KindStale)
			p.sendReady()
			refused("between turns", keys, session.KindStale)
			turn := submitTurn(t, s, "input()")
			refused("live, without a listener", session.Keys{Live: true, Text: "x"}, session.KindStale)
			refused("an unknown key", session.Keys{Text: "<Nope>"}, session.KindInvalid)
			refused("text and bytes", session.Keys{Text: "x", Bytes: []byte("y")}, session.KindInvalid)
			refused("nothing", session.Keys{}, session.KindInvalid)
			refused("too much", session.Keys{Bytes: make([]byte, session.MaxKeysBytes+1)}, session.KindTooLarge)
			p.sendFrames(ipc.StdinWait{Turn: turn, Wait: 1, Prompt: "? ", Kind: ipc.WaitLine, Want: ipc.WantLine})
			refused("while the runtime asks", keys, session.KindWaiting)
			if err := s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			refused("after the end", keys, session.KindClosed)
		})
	})

	t.Run("types live keys for a program that listens", func(t *testing.T) {
		runWithTurn(t, func(t *testing.T, s *Session, p *fakeProcess, turn uint64) {
			p.setReaders(pty.TerminalReader{Key: "7/polls", Command: "bash", Polls: true})
			for _, k := range []session.Keys{{Live: true}, {Live: true, Text: "x<Enter>"}} {
				if got, err := s.Type(t.Context(), k); err != nil || got != turn {
					t.Errorf("%+v: got turn %d, %v", k, got, err)
				}
			}
		})
	})

	t.Run("refuses more than can wait to be typed", func(t *testing.T) {
		runWithTurn(t, func(t *testing.T, s *Session, p *fakeProcess, turn uint64) {
			many := session.Keys{Text: fmt.Sprintf("%0*d<Enter>x", session.MaxKeysBytes-10, 0)}
			accepted := 0
			for range 10 {
				_, err := s.Type(t.Context(), many)
				if session.KindOf(err) == session.KindBusy {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				accepted++
			}
			if accepted < 4 || accepted == 10 {
				t.Errorf("accepted %d times", accepted)
			}
		})
	})

	t.Run("stops at an interrupt, and says so", func(t *testing.T) {
		runWithTurn(t, func(t *testing.T, s *Session, p *fakeProcess, turn uint64) {
			p.withLock(func() { p.readsKeys = true })
			if _, err := s.Type(t.Context(), session.Keys{Text: "a<Down><Down><Enter>"}); err != nil {
				t.Fatal(err)
			}
			p.advanceTime(10 * ms)
			go func() { _, _ = s.Interrupt(t.Context(), turn) }()
			p.advanceTime(time.Second)
			if got := lastNotice(t, s, turn); got != "3 keys were not typed" {
				t.Errorf("got notice %q", got)
			}
		})
	})
}

// lastInputLine returns the last input line of a turn.
func lastInputLine(t *testing.T, s *Session, turn uint64) (last timeline.InputLine) {
	t.Helper()
	for _, e := range pollReply(t, s, turn).Events {
		if b, ok := e.Body.(timeline.InputLine); ok {
			last = b
		}
	}
	return last
}

// lastNotice returns the last notice of a turn.
func lastNotice(t *testing.T, s *Session, turn uint64) (last string) {
	t.Helper()
	for _, e := range pollReply(t, s, turn).Events {
		if b, ok := e.Body.(timeline.Notice); ok {
			last = b.Message
		}
	}
	return last
}
