package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
	"github.com/turnstone-repl/turnstone/supervisor/internal/pty"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

const ms = time.Millisecond

// interruptRunningTurn starts a turn and an interrupt of it.
func interruptRunningTurn(t *testing.T, s *Session, p *fakeProcess) (turn uint64, result <-chan session.InterruptResult) {
	t.Helper()
	p.sendReady()
	turn = submitTurn(t, s, "loop")
	p.takeReceived()
	p.withLock(func() { p.launchedAt = time.Now() })
	return turn, interruptInBackground(t, s, turn)
}

// interruptInBackground interrupts a turn in a goroutine and returns a channel with the result.
func interruptInBackground(t *testing.T, s *Session, turn uint64) <-chan session.InterruptResult {
	result := make(chan session.InterruptResult, 1)
	go func() {
		r, err := s.Interrupt(t.Context(), turn)
		if err != nil {
			t.Error(err)
		}
		result <- r
	}()
	synctest.Wait()
	return result
}

func TestInterruptRetry(t *testing.T) {
	t.Run("repeats the interrupt until it is acknowledged", func(t *testing.T) {
		for acked, want := range map[time.Duration][]time.Duration{
			10 * ms:     {0},
			100 * ms:    {0, 30 * ms, 90 * ms},
			time.Minute: {0, 30 * ms, 90 * ms, 210 * ms, 450 * ms, 930 * ms, 1890 * ms}, // no more than six times
		} {
			t.Run(acked.String(), func(t *testing.T) {
				runWithFakeWorker(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
					turn, _ := interruptRunningTurn(t, s, p)
					p.advanceTime(acked)
					p.sendFrames(ipc.InterruptAck{Turn: turn, Seq: 1, Result: ipc.InterruptPending})
					p.advanceTime(time.Hour)
					all := p.takeReceived()
					got, at := receivedFrames[ipc.Interrupt](all)
					if !slices.Equal(at, want) {
						t.Errorf("got frames at %v, want %v", at, want)
					}
					for _, m := range got {
						if m != (ipc.Interrupt{Turn: turn, Seq: 1, Level: 1}) {
							t.Errorf("got %+v: a retry must be the same frame", m)
						}
					}
					var signals []sentSignal
					for _, h := range all {
						if sig, ok := h.what.(sentSignal); ok {
							signals = append(signals, sig)
						}
					}
					first := []sentSignal{{monitorproto.Interrupt, monitorproto.Foreground}, {monitorproto.Interrupt, monitorproto.Group}}
					again := slices.Repeat([]sentSignal{{monitorproto.Interrupt, monitorproto.Worker}}, len(want)-1)
					if wanted := slices.Concat(first, again); !slices.Equal(signals, wanted) {
						t.Errorf("got signals %v, want %v", signals, wanted)
					}
				})
			})
		}
	})

	t.Run("waits until the last signal was sent", func(t *testing.T) {
		runWithFakeWorker(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
			interruptRunningTurn(t, s, p)
			p.withLock(func() { p.pendingSignals = make(chan struct{}) })
			p.advanceTime(300 * ms)
			p.withLock(func() { close(p.pendingSignals); p.pendingSignals = nil })
			p.advanceTime(time.Hour)
			if _, at := receivedFrames[ipc.Interrupt](p.takeReceived()); !slices.Equal(at, []time.Duration{0, 450 * ms, 930 * ms, 1890 * ms}) {
				t.Errorf("got frames at %v", at)
			}
		})
	})

	t.Run("stops when the turn is over", func(t *testing.T) {
		runWithFakeWorker(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
			turn, result := interruptRunningTurn(t, s, p)
			p.advanceTime(50 * ms)
			p.sendFrames(ipc.Idle{Turn: turn, Outcome: ipc.OutcomeInterrupted})
			if got := <-result; got != session.InterruptIdle {
				t.Errorf("got %q", got)
			}
			p.advanceTime(time.Hour)
			if _, at := receivedFrames[ipc.Interrupt](p.takeReceived()); !slices.Equal(at, []time.Duration{0, 30 * ms}) {
				t.Errorf("got frames at %v", at)
			}
		})
	})
}

func TestInterruptLevel(t *testing.T) {
	t.Run("is two for a later one, unless something was answered", func(t *testing.T) {
		const asks = 7 // the worker's number for its input request
		for name, test := range map[string]struct {
			between func(*testing.T, *Session, *fakeProcess, uint64)
			want    uint8
		}{
			"a moment later": {func(*testing.T, *Session, *fakeProcess, uint64) {}, 1},
			"a second later": {func(_ *testing.T, _ *Session, p *fakeProcess, _ uint64) { p.advanceTime(interruptTimeout) }, 2},
			"it led to a question": {func(t *testing.T, s *Session, p *fakeProcess, turn uint64) {
				p.sendFrames(ipc.StdinWait{Turn: turn, Wait: asks, Prompt: "(db) ", Kind: ipc.WaitDebugger, Want: ipc.WantLine})
			}, 2},
			"it led to a question, which was answered": {func(t *testing.T, s *Session, p *fakeProcess, turn uint64) {
				p.sendFrames(ipc.StdinWait{Turn: turn, Wait: asks, Prompt: "(db) ", Kind: ipc.WaitDebugger, Want: ipc.WantLine})
				p.advanceTime(time.Minute)
				if _, err := s.Answer(t.Context(), pollReply(t, s, turn).InputRequest.ID, session.Input{Data: []byte("n\n")}); err != nil {
					t.Error(err)
				}
			}, 1},
		} {
			t.Run(name, func(t *testing.T) {
				runWithFakeWorker(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
					turn, _ := interruptRunningTurn(t, s, p)
					p.sendFrames(ipc.InterruptAck{Turn: turn, Seq: 1, Result: ipc.InterruptPending})
					test.between(t, s, p, turn)
					p.takeReceived()
					interruptInBackground(t, s, turn)
					got, _ := receivedFrames[ipc.Interrupt](p.takeReceived())
					if want := (ipc.Interrupt{Turn: turn, Seq: 2, Level: test.want}); len(got) != 1 || got[0] != want {
						t.Errorf("got %+v, want %+v", got, want)
					}
					p.advanceTime(time.Minute)
				})
			})
		}
	})

	// A user who presses Ctrl-C repeatedly succeeds, however fast.
	t.Run("is two a second after the first of many", func(t *testing.T) {
		runWithFakeWorker(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
			turn, _ := interruptRunningTurn(t, s, p)
			for range 5 {
				p.advanceTime(300 * ms)
				interruptInBackground(t, s, turn)
			}
			var levels []int
			for _, e := range s.Log().EventsSince(0) {
				if x, ok := e.Body.(timeline.Interrupt); ok {
					levels = append(levels, x.Level)
				}
			}
			if want := []int{1, 1, 1, 1, 2, 1}; !slices.Equal(levels, want) {
				t.Errorf("got levels %v, want %v", levels, want)
			}
			p.advanceTime(time.Minute)
		})
	})
}

func TestInterruptedInputRequest(t *testing.T) {
	t.Run("is void before the acknowledgement", func(t *testing.T) {
		runWithFakeWorker(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
			turn, result := interruptRunningTurn(t, s, p)
			ask := ipc.StdinWait{Turn: turn, Wait: 1, Prompt: "old? ", Kind: ipc.WaitLine, Want: ipc.WantLine}
			p.sendFrames(ask)
			if r := pollReply(t, s, turn); r.InputRequest != nil {
				t.Errorf("got input request %+v before the acknowledgement", r.InputRequest)
			}
			ask.Prompt = "new? "
			p.sendFrames(ipc.InterruptAck{Turn: turn, Seq: 1, Result: ipc.InterruptPending}, ask)
			if got := <-result; got != session.InterruptWaiting {
				t.Errorf("got %q", got)
			}
			if r := pollReply(t, s, turn); r.InputRequest == nil || r.InputRequest.Prompt != "new? " {
				t.Errorf("got input request %+v", r.InputRequest)
			}
		})
	})

	// A child may still read the terminal when the worker has acknowledged the signal that ends
	// both.
	t.Run("is not shown while its reader is ending", func(t *testing.T) {
		runWithFakeWorker(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
			p.sendReady()
			turn := submitTurn(t, s, "cat")
			p.withLock(func() { p.blockedReaders = []pty.TerminalReader{{Key: "cat", Command: "cat"}} })
			p.advanceTime(time.Second)
			if r := pollReply(t, s, turn); r.InputRequest == nil || r.InputRequest.Reader != "cat" {
				t.Fatalf("got input request %+v", r.InputRequest)
			}
			go func() { _, _ = s.Interrupt(t.Context(), turn) }()
			p.advanceTime(ms)
			p.sendFrames(ipc.InterruptAck{Turn: turn, Seq: 1, Result: ipc.InterruptPending})
			p.advanceTime(90 * ms)
			if r := pollReply(t, s, turn); r.InputRequest != nil {
				t.Errorf("got input request %+v of a reader that may still end", r.InputRequest)
			}
			p.advanceTime(time.Second)
			if r := pollReply(t, s, turn); r.InputRequest == nil || r.InputRequest.Reader != "cat" {
				t.Errorf("got input request %+v of a reader that continues", r.InputRequest)
			}
			p.sendFrames(ipc.Idle{Turn: turn, Outcome: ipc.OutcomeInterrupted, Prompt: "> "})
		})
	})

	// On a busy machine, the worker may acknowledge the frame long before its signal is sent.
	t.Run("is not shown before the signal is sent", func(t *testing.T) {
		runWithFakeWorker(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
			p.sendReady()
			turn := submitTurn(t, s, "cat")
			p.withLock(func() { p.blockedReaders = []pty.TerminalReader{{Key: "cat", Command: "cat"}} })
			p.advanceTime(time.Second)
			p.withLock(func() { p.pendingSignals = make(chan struct{}) })
			go func() { _, _ = s.Interrupt(t.Context(), turn) }()
			p.advanceTime(ms)
			p.sendFrames(ipc.InterruptAck{Turn: turn, Seq: 1, Result: ipc.InterruptPending})
			p.advanceTime(5 * time.Second)
			if r := pollReply(t, s, turn); r.InputRequest != nil {
				t.Errorf("got input request %+v of a reader that no signal has reached", r.InputRequest)
			}
			p.advanceTime(2 * signalTimeout)
			if r := pollReply(t, s, turn); r.InputRequest == nil || r.InputRequest.Reader != "cat" {
				t.Errorf("got input request %+v although the signal never comes", r.InputRequest)
			}
			p.withLock(func() { close(p.pendingSignals); p.pendingSignals = nil })
			p.sendFrames(ipc.Idle{Turn: turn, Outcome: ipc.OutcomeInterrupted, Prompt: "> "})
		})
	})

	t.Run("is shown again after the last retry", func(t *testing.T) {
		runWithFakeWorker(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
			turn, _ := interruptRunningTurn(t, s, p)
			ask := ipc.StdinWait{Turn: turn, Wait: 1, Prompt: "still? ", Kind: ipc.WaitLine, Want: ipc.WantLine}
			p.advanceTime(1890*ms - ms)
			p.sendFrames(ask)
			if r := pollReply(t, s, turn); r.InputRequest != nil {
				t.Errorf("got input request %+v before the last retry", r.InputRequest)
			}
			p.advanceTime(ms)
			p.sendFrames(ask)
			if r := pollReply(t, s, turn); r.InputRequest == nil || r.InputRequest.Prompt != "still? " {
				t.Errorf("got input request %+v after the last retry", r.InputRequest)
			}
		})
	})
}

func TestTerminalReader(t *testing.T) {
	// The frame of a line that the code has read may still be in flight when a child reads the
	// terminal.
	t.Run("is reported after the frames that precede it", func(t *testing.T) {
		runWithFakeWorker(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
			p.sendReady()
			turn := submitTurn(t, s, "input(); cat")
			p.readBehindMarker()
			p.advanceTime(500 * ms)
			if r := pollReply(t, s, turn); r.InputRequest != nil {
				t.Errorf("got input request %+v before the line", r.InputRequest)
			}
			p.sendFrames(ipc.InputLine{Turn: turn, Text: "one", Mark: 1})
			p.advanceTime(500 * ms)
			r := pollReply(t, s, turn)
			if r.InputRequest == nil || r.InputRequest.Reader != "cat" {
				t.Fatalf("got input request %+v", r.InputRequest)
			}
			var kinds []string
			for _, e := range r.Events {
				kinds = append(kinds, fmt.Sprintf("%T", e.Body))
			}
			if want := []string{"event.TurnStarted", "event.InputLine", "event.Text", "event.InputRequested"}; !slices.Equal(kinds, want) {
				t.Errorf("got %q, want %q", kinds, want)
			}
		})
	})

	// The machine does not wait forever for a missing frame.
	t.Run("is reported even if a frame never comes", func(t *testing.T) {
		runWithFakeWorker(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
			p.sendReady()
			turn := submitTurn(t, s, "cat")
			p.readBehindMarker()
			p.advanceTime(2 * time.Second)
			if r := pollReply(t, s, turn); r.InputRequest == nil || r.InputRequest.Reader != "cat" {
				t.Errorf("got input request %+v", r.InputRequest)
			}
		})
	})
}

func TestTurnBehindSignals(t *testing.T) {
	t.Run("is never sent if it is interrupted", func(t *testing.T) {
		runWithFakeWorker(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
			p.sendReady()
			p.withLock(func() { p.pendingSignals = make(chan struct{}) })
			turn := submitTurn(t, s, "1+1")
			if got, err := s.Interrupt(t.Context(), turn); got != session.InterruptIdle || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
			p.withLock(func() { close(p.pendingSignals); p.pendingSignals = nil })
			all := p.takeReceived()
			starts, _ := receivedFrames[ipc.TurnStart](all)
			interrupts, _ := receivedFrames[ipc.Interrupt](all)
			if len(starts)+len(interrupts) > 0 {
				t.Errorf("the worker received: %+v, %+v", starts, interrupts)
			}
			if r := pollReply(t, s, turn); r.Outcome != timeline.OutcomeInterrupted || r.State != session.StateIdle {
				t.Errorf("got %q, %v", r.Outcome, r.State)
			}
		})
	})

	t.Run("is skipped after ten seconds", func(t *testing.T) {
		for sent, want := range map[time.Duration]int{signalTimeout - ms: 1, signalTimeout + ms: 0} {
			t.Run(sent.String(), func(t *testing.T) {
				runWithFakeWorker(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
					p.sendReady()
					p.withLock(func() { p.pendingSignals = make(chan struct{}) })
					turn := submitTurn(t, s, "1+1")
					if got := pollReply(t, s, turn).State; got != session.StateRunning {
						t.Errorf("got %v", got)
					}
					p.advanceTime(sent)
					p.withLock(func() { close(p.pendingSignals); p.pendingSignals = nil })
					if got, _ := receivedFrames[ipc.TurnStart](p.takeReceived()); len(got) != want {
						t.Errorf("the turn was sent %d times, want %d", len(got), want)
					}
					if got := pollReply(t, s, turn).Outcome; want == 0 && got != timeline.OutcomeInterrupted {
						t.Errorf("got %q", got)
					}
				})
			})
		}
	})
}

func TestStartTimeout(t *testing.T) {
	t.Run("kills a worker that is not ready in time", func(t *testing.T) {
		runWithFakeWorker(t, &Options{StartTimeout: 7 * time.Second}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
			turn := submitTurn(t, s, "never")
			p.advanceTime(7*time.Second - ms)
			if got := pollReply(t, s, turn).State; got != session.StateStarting {
				t.Errorf("got %v too early", got)
			}
			p.advanceTime(ms)
			if r := pollReply(t, s, turn); r.Outcome != timeline.OutcomeEnded || r.State != session.StateEnded {
				t.Errorf("got %q, %v", r.Outcome, r.State)
			}
			if got := lastWorkerExit(t, s); got.Reason != "worker failed: it was not ready after 7s" || !got.NeverReady {
				t.Errorf("got %+v", got)
			}
		})
	})

	t.Run("does not limit the start-up of a ready worker", func(t *testing.T) {
		runWithFakeWorker(t, &Options{StartTimeout: time.Second}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
			p.sendFrames(p.readyFrame())
			p.advanceTime(time.Hour)
			if got := pollReply(t, s, 0).State; got != session.StateStarting {
				t.Errorf("got %v", got)
			}
		})
	})

	t.Run("gives a worker that reads too early two seconds", func(t *testing.T) {
		for ready, ended := range map[time.Duration]bool{earlyInputTimeout - 100*ms: false, time.Minute: true} {
			t.Run(ready.String(), func(t *testing.T) {
				runWithFakeWorker(t, &Options{}, workers.Spec{EarlyInputError: "it was kept out"}, func(t *testing.T, s *Session, p *fakeProcess) {
					p.withLock(func() { p.blockedReaders = []pty.TerminalReader{{Key: "main", Command: "fake"}} })
					p.advanceTime(ready)
					if r := pollReply(t, s, 0); r.InputRequest != nil || (r.State == session.StateEnded) != ended {
						t.Fatalf("got %v, input request %v", r.State, r.InputRequest)
					}
					if ended {
						if got := lastWorkerExit(t, s).Reason; got != "worker failed: it was kept out" {
							t.Errorf("got %q", got)
						}
						return
					}
					p.sendFrames(p.readyFrame())
					p.advanceTime(time.Second)
					if r := pollReply(t, s, 0); r.InputRequest == nil || !r.InputRequest.Terminal {
						t.Errorf("got %v, input request %v, want one after worker_ready", r.State, r.InputRequest)
					}
				})
			})
		}
	})
}

func TestQueuedInput(t *testing.T) {
	t.Run("runs once, and a second one is refused", func(t *testing.T) {
		runWithFakeWorker(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
			turn := submitTurn(t, s, "queued")
			if _, err := s.Submit(t.Context(), "second"); !errors.Is(err, session.ErrBusy) {
				t.Errorf("got %v", err)
			}
			p.sendReady()
			got, _ := receivedFrames[ipc.TurnStart](p.takeReceived())
			if len(got) != 1 || got[0].Turn != turn || string(got[0].Input) != "queued" {
				t.Errorf("got %+v", got)
			}
			p.sendFrames(ipc.Idle{Turn: turn, Outcome: ipc.OutcomeOK})
			if r := pollReply(t, s, turn); r.Outcome != timeline.OutcomeOK || r.State != session.StateIdle {
				t.Errorf("got %q, %v", r.Outcome, r.State)
			}
		})
	})

	t.Run("answers a start-up that asks, and ends with it", func(t *testing.T) {
		runWithFakeWorker(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
			turn := submitTurn(t, s, "yes")
			p.sendFrames(p.readyFrame(), ipc.StdinWait{Wait: 1, Prompt: "sure? ", Kind: ipc.WaitLine, Want: ipc.WantLine})
			got, _ := receivedFrames[ipc.TurnInput](p.takeReceived())
			if len(got) != 1 || string(got[0].Input) != "yes\n" {
				t.Errorf("got %+v", got)
			}
			if _, err := s.Submit(t.Context(), "second"); !errors.Is(err, session.ErrBusy) {
				t.Errorf("got %v: want busy: the start-up has its input", err)
			}
			p.sendFrames(ipc.Idle{Outcome: ipc.OutcomeOK})
			if r := pollReply(t, s, turn); r.Outcome != timeline.OutcomeOK {
				t.Errorf("got %q", r.Outcome)
			}
			if got, _ := receivedFrames[ipc.TurnStart](p.takeReceived()); len(got) != 0 {
				t.Errorf("the answer ran as code: %+v", got)
			}
			submitTurn(t, s, "next")
		})
	})

	t.Run("never runs if it is interrupted", func(t *testing.T) {
		runWithFakeWorker(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
			turn := submitTurn(t, s, "queued")
			if got, err := s.Interrupt(t.Context(), 0); got != session.InterruptIdle || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
			if got := pollReply(t, s, turn).Outcome; got != timeline.OutcomeInterrupted {
				t.Errorf("got %q", got)
			}
			p.sendReady()
			if got, _ := receivedFrames[ipc.TurnStart](p.takeReceived()); len(got) != 0 {
				t.Errorf("the input ran: %+v", got)
			}
		})
	})
}

func TestExit_GracePeriod(t *testing.T) {
	runWithFakeWorker(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
		p.sendReady()
		turn := submitTurn(t, s, "exit")
		p.sendFrames(ipc.SessionEnd{Reason: ipc.EndExit})
		p.advanceTime(endGrace - ms)
		if got := pollReply(t, s, turn); got.State != session.StateStopping || got.Outcome != "" {
			t.Errorf("got %v, %q too early", got.State, got.Outcome)
		}
		p.advanceTime(ms)
		if got := lastWorkerExit(t, s).Reason; got != "worker failed: it did not exit after session_end" {
			t.Errorf("got %q", got)
		}
	})
}

func TestExit_TurnMayExit(t *testing.T) {
	leave := func(t *testing.T, s *Session, p *fakeProcess) (turn uint64) {
		p.sendReady()
		turn, err := s.SubmitMayExit(t.Context(), "exit")
		if err != nil {
			t.Fatal(err)
		}
		p.sendFrames(ipc.SessionEnd{Reason: ipc.EndExit})
		p.takeReceived()
		return turn
	}
	t.Run("has no time limit", func(t *testing.T) {
		runWithFakeWorker(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
			turn := leave(t, s, p)
			p.advanceTime(time.Hour)
			if got := pollReply(t, s, turn); got.State != session.StateStopping || got.Outcome != "" {
				t.Errorf("got %v, %q", got.State, got.Outcome)
			}
		})
	})
	t.Run("is interrupted by a signal without a frame, then killed", func(t *testing.T) {
		runWithFakeWorker(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
			turn := leave(t, s, p)
			for _, want := range []monitorproto.Signal{monitorproto.Interrupt, monitorproto.Kill} {
				result := interruptInBackground(t, s, turn)
				all := p.takeReceived()
				if !slices.ContainsFunc(all, func(h receivedItem) bool { s, ok := h.what.(sentSignal); return ok && s.sig == want }) {
					t.Errorf("got %v, want only the signal %v", all, want)
				}
				if got, _ := receivedFrames[ipc.Interrupt](all); len(got) > 0 {
					t.Errorf("got frame %v for a worker that no longer reads", got)
				}
				p.advanceTime(interruptTimeout)
				if got := <-result; want == monitorproto.Interrupt && got != session.InterruptPending {
					t.Errorf("got %q", got)
				}
			}
		})
	})
	t.Run("ends with the session", func(t *testing.T) {
		runWithFakeWorker(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
			leave(t, s, p)
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	})
}

func TestStop_Escalation(t *testing.T) {
	for step, test := range map[string]struct {
		dies   monitorproto.Signal
		took   time.Duration
		events string
	}{
		"SIGHUP":  {monitorproto.Hangup, 6 * time.Second, "0s SIGINT, 0s shutdown, 5s closed, 6s SIGHUP"},
		"SIGTERM": {monitorproto.Terminate, 7 * time.Second, "0s SIGINT, 0s shutdown, 5s closed, 6s SIGHUP, 7s SIGKILL, 7s SIGTERM"},
		"SIGKILL": {monitorproto.Kill, 8 * time.Second, "0s SIGINT, 0s shutdown, 5s closed, 6s SIGHUP, 7s SIGTERM, 8s SIGKILL"},
	} {
		t.Run(step, func(t *testing.T) {
			runWithFakeWorker(t, &Options{StopGrace: 10 * time.Second}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
				p.sendReady()
				turn := submitTurn(t, s, "ignores everything")
				p.takeReceived()
				p.withLock(func() { p.launchedAt, p.fatalSignal = time.Now(), test.dies })
				if err := s.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(p.launchedAt); took != test.took || s.StoppedBy() != step {
					t.Errorf("got %s after %s, want %s after %s", s.StoppedBy(), took, step, test.took)
				}
				var events []string
				for _, h := range p.takeReceived() {
					switch what := h.what.(type) {
					case sentSignal:
						events = append(events, fmt.Sprintf("%s %s", h.at, what.sig))
					case ipc.Message:
						events = append(events, fmt.Sprintf("%s %s", h.at, what.Type()))
					default:
						events = append(events, fmt.Sprintf("%s closed", h.at))
					}
				}
				slices.Sort(events)
				if got := strings.Join(slices.Compact(events), ", "); !strings.HasPrefix(got, test.events) {
					t.Errorf("got the steps %q, want %q", got, test.events)
				}
				if r, err := s.Wait(context.Background(), turn, nil); err != nil || r.Outcome != timeline.OutcomeEnded {
					t.Errorf("got %q, %v", r.Outcome, err)
				}
				if _, err := s.Submit(t.Context(), "1"); !errors.Is(err, session.ErrClosed) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

func TestIdleSession_SetsNoTimer(t *testing.T) {
	runWithFakeWorker(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
		p.sendReady()
		turn := submitTurn(t, s, "1+1")
		p.sendFrames(ipc.Idle{Turn: turn, Outcome: ipc.OutcomeOK})
		p.advanceTime(time.Second)
		p.withLock(func() { p.scanCount = 0 })
		p.advanceTime(24 * time.Hour)
		p.withLock(func() {
			if p.scanCount > 0 {
				t.Errorf("%d scans for readers in an idle day", p.scanCount)
			}
		})
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.alarmAt.IsZero() || s.m.nextDeadline() != s.alarmAt {
			t.Errorf("the alarm is set, for %s", s.alarmAt)
		}
		if s.worker.readerTimerSet {
			t.Error("a scan for readers is scheduled")
		}
	})
}
