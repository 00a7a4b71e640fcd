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
	"github.com/turnstone-repl/turnstone/supervisor/internal/host"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

const ms = time.Millisecond

// interrupted has a turn run, and an interrupt of it under way.
func interrupted(t *testing.T, s *Session, p *fakeProcess) (turn uint64, result <-chan session.InterruptResult) {
	t.Helper()
	p.ready()
	turn = submit(t, s, "loop")
	p.take()
	p.change(func() { p.born = time.Now() })
	return turn, interruptAside(t, s, turn)
}

// interruptAside interrupts a turn in a goroutine, and returns where the result comes.
func interruptAside(t *testing.T, s *Session, turn uint64) <-chan session.InterruptResult {
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

func TestInterrupt_IsRepeatedUntilItIsAcknowledged(t *testing.T) {
	for acked, want := range map[time.Duration][]time.Duration{
		10 * ms:     {0},
		100 * ms:    {0, 30 * ms, 90 * ms},
		time.Minute: {0, 30 * ms, 90 * ms, 210 * ms, 450 * ms, 930 * ms, 1890 * ms}, // no more than six times
	} {
		t.Run(acked.String(), func(t *testing.T) {
			inBubble(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
				turn, _ := interrupted(t, s, p)
				p.later(acked)
				p.say(ipc.InterruptAck{Turn: turn, Seq: 1, Result: ipc.InterruptPending})
				p.later(time.Hour)
				all := p.take()
				got, at := frames[ipc.Interrupt](all)
				if !slices.Equal(at, want) {
					t.Errorf("got frames at %v, want %v", at, want)
				}
				for _, m := range got {
					if m != (ipc.Interrupt{Turn: turn, Seq: 1, Level: 1}) {
						t.Errorf("got %+v: a repetition must be the same frame", m)
					}
				}
				var signals []sent
				for _, h := range all {
					if sig, ok := h.what.(sent); ok {
						signals = append(signals, sig)
					}
				}
				first := []sent{{host.Interrupt, host.Foreground}, {host.Interrupt, host.Group}}
				again := slices.Repeat([]sent{{host.Interrupt, host.Worker}}, len(want)-1)
				if wanted := slices.Concat(first, again); !slices.Equal(signals, wanted) {
					t.Errorf("got signals %v, want %v", signals, wanted)
				}
			})
		})
	}
}

func TestInterrupt_IsNotRepeatedBeforeTheSignalBeforeIsSent(t *testing.T) {
	inBubble(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
		interrupted(t, s, p)
		p.change(func() { p.unsent = make(chan struct{}) })
		p.later(300 * ms)
		p.change(func() { close(p.unsent); p.unsent = nil })
		p.later(time.Hour)
		if _, at := frames[ipc.Interrupt](p.take()); !slices.Equal(at, []time.Duration{0, 450 * ms, 930 * ms, 1890 * ms}) {
			t.Errorf("got frames at %v", at)
		}
	})
}

func TestInterrupt_IsNotRepeatedOnceItsTurnIsOver(t *testing.T) {
	inBubble(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
		turn, result := interrupted(t, s, p)
		p.later(50 * ms)
		p.say(ipc.Idle{Turn: turn, Outcome: ipc.OutcomeInterrupted})
		if got := <-result; got != session.InterruptIdle {
			t.Errorf("got %q", got)
		}
		p.later(time.Hour)
		if _, at := frames[ipc.Interrupt](p.take()); !slices.Equal(at, []time.Duration{0, 30 * ms}) {
			t.Errorf("got frames at %v", at)
		}
	})
}

func TestInterrupt_SecondOneIsOfLevelTwoUnlessSomethingWasAnswered(t *testing.T) {
	const asks = 7 // the worker's number for its wait
	for name, test := range map[string]struct {
		between func(*testing.T, *Session, *fakeProcess, uint64)
		want    uint8
	}{
		"a moment later": {func(*testing.T, *Session, *fakeProcess, uint64) {}, 1},
		"a second later": {func(_ *testing.T, _ *Session, p *fakeProcess, _ uint64) { p.later(interruptWait) }, 2},
		"it led to a question": {func(t *testing.T, s *Session, p *fakeProcess, turn uint64) {
			p.say(ipc.StdinWait{Turn: turn, Wait: asks, Prompt: "(db) ", Kind: ipc.WaitDebugger, Want: ipc.WantLine})
		}, 2},
		"it led to a question, which was answered": {func(t *testing.T, s *Session, p *fakeProcess, turn uint64) {
			p.say(ipc.StdinWait{Turn: turn, Wait: asks, Prompt: "(db) ", Kind: ipc.WaitDebugger, Want: ipc.WantLine})
			p.later(time.Minute)
			if _, err := s.Answer(t.Context(), now(t, s, turn).InputRequest.ID, session.Input{Data: []byte("n\n")}); err != nil {
				t.Error(err)
			}
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
				turn, _ := interrupted(t, s, p)
				p.say(ipc.InterruptAck{Turn: turn, Seq: 1, Result: ipc.InterruptPending})
				test.between(t, s, p, turn)
				p.take()
				interruptAside(t, s, turn)
				got, _ := frames[ipc.Interrupt](p.take())
				if want := (ipc.Interrupt{Turn: turn, Seq: 2, Level: test.want}); len(got) != 1 || got[0] != want {
					t.Errorf("got %+v, want %+v", got, want)
				}
				p.later(time.Minute)
			})
		})
	}
}

// The one who presses again and again is heard, however fast.
func TestInterrupt_ImpatienceReachesLevelTwoAfterASecond(t *testing.T) {
	inBubble(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
		turn, _ := interrupted(t, s, p)
		for range 5 {
			p.later(300 * ms)
			interruptAside(t, s, turn)
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
		p.later(time.Minute)
	})
}

func TestInterrupt_WhatWasAskedBeforeItsAcknowledgementIsVoid(t *testing.T) {
	inBubble(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
		turn, result := interrupted(t, s, p)
		ask := ipc.StdinWait{Turn: turn, Wait: 1, Prompt: "old? ", Kind: ipc.WaitLine, Want: ipc.WantLine}
		p.say(ask)
		if r := now(t, s, turn); r.InputRequest != nil {
			t.Errorf("got wait %+v, asked before the acknowledgement", r.InputRequest)
		}
		ask.Prompt = "new? "
		p.say(ipc.InterruptAck{Turn: turn, Seq: 1, Result: ipc.InterruptPending}, ask)
		if got := <-result; got != session.InterruptWaiting {
			t.Errorf("got %q", got)
		}
		if r := now(t, s, turn); r.InputRequest == nil || r.InputRequest.Prompt != "new? " {
			t.Errorf("got wait %+v", r.InputRequest)
		}
	})
}

// A child may still read the terminal when the worker has acknowledged the signal that ends
// both.
func TestInterrupt_AReaderThatItStruckIsNotAskedForWhileItEnds(t *testing.T) {
	inBubble(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
		p.ready()
		turn := submit(t, s, "cat")
		p.change(func() { p.reading = []host.Reader{{Key: "cat", Command: "cat"}} })
		p.later(time.Second)
		if r := now(t, s, turn); r.InputRequest == nil || r.InputRequest.Reader != "cat" {
			t.Fatalf("got wait %+v", r.InputRequest)
		}
		go func() { _, _ = s.Interrupt(t.Context(), turn) }()
		p.later(ms)
		p.say(ipc.InterruptAck{Turn: turn, Seq: 1, Result: ipc.InterruptPending})
		p.later(90 * ms)
		if r := now(t, s, turn); r.InputRequest != nil {
			t.Errorf("got wait %+v of a reader that may end", r.InputRequest)
		}
		p.later(time.Second)
		if r := now(t, s, turn); r.InputRequest == nil || r.InputRequest.Reader != "cat" {
			t.Errorf("got wait %+v of a reader that goes on", r.InputRequest)
		}
		p.say(ipc.Idle{Turn: turn, Outcome: ipc.OutcomeInterrupted, Prompt: "> "})
	})
}

// The worker may acknowledge the frame long before its signal is sent, on a busy machine.
func TestInterrupt_AReaderIsNotAskedForBeforeTheSignalIsSent(t *testing.T) {
	inBubble(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
		p.ready()
		turn := submit(t, s, "cat")
		p.change(func() { p.reading = []host.Reader{{Key: "cat", Command: "cat"}} })
		p.later(time.Second)
		p.change(func() { p.unsent = make(chan struct{}) })
		go func() { _, _ = s.Interrupt(t.Context(), turn) }()
		p.later(ms)
		p.say(ipc.InterruptAck{Turn: turn, Seq: 1, Result: ipc.InterruptPending})
		p.later(5 * time.Second)
		if r := now(t, s, turn); r.InputRequest != nil {
			t.Errorf("got wait %+v of a reader that no signal has reached", r.InputRequest)
		}
		p.later(2 * sendLimit)
		if r := now(t, s, turn); r.InputRequest == nil || r.InputRequest.Reader != "cat" {
			t.Errorf("got wait %+v though the signal does not come", r.InputRequest)
		}
		p.change(func() { close(p.unsent); p.unsent = nil })
		p.say(ipc.Idle{Turn: turn, Outcome: ipc.OutcomeInterrupted, Prompt: "> "})
	})
}

// The line that the code has read may be on its way when a child of it reads the terminal.
func TestStdin_AReaderIsSeenBehindTheFramesThatCameBeforeIt(t *testing.T) {
	inBubble(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
		p.ready()
		turn := submit(t, s, "input(); cat")
		p.readsBehindAMark()
		p.later(500 * ms)
		if r := now(t, s, turn); r.InputRequest != nil {
			t.Errorf("got wait %+v before the line", r.InputRequest)
		}
		p.say(ipc.InputLine{Turn: turn, Text: "one", Mark: 1})
		p.later(500 * ms)
		r := now(t, s, turn)
		if r.InputRequest == nil || r.InputRequest.Reader != "cat" {
			t.Fatalf("got wait %+v", r.InputRequest)
		}
		var kinds []string
		for _, e := range r.Events {
			kinds = append(kinds, fmt.Sprintf("%T", e.Body))
		}
		if want := []string{"timeline.TurnStarted", "timeline.InputLine", "timeline.Text", "timeline.Wait"}; !slices.Equal(kinds, want) {
			t.Errorf("got %q, want %q", kinds, want)
		}
	})
}

// A frame that never arrives is not awaited for ever.
func TestStdin_AReaderIsSeenWithoutAFrameThatDoesNotCome(t *testing.T) {
	inBubble(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
		p.ready()
		turn := submit(t, s, "cat")
		p.readsBehindAMark()
		p.later(2 * time.Second)
		if r := now(t, s, turn); r.InputRequest == nil || r.InputRequest.Reader != "cat" {
			t.Errorf("got wait %+v", r.InputRequest)
		}
	})
}

func TestInterrupt_OneThatIsNeverAcknowledgedVoidsNothingForEver(t *testing.T) {
	inBubble(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
		turn, _ := interrupted(t, s, p)
		ask := ipc.StdinWait{Turn: turn, Wait: 1, Prompt: "still? ", Kind: ipc.WaitLine, Want: ipc.WantLine}
		p.later(1890*ms - ms)
		p.say(ask)
		if r := now(t, s, turn); r.InputRequest != nil {
			t.Errorf("got wait %+v while the interrupt is repeated", r.InputRequest)
		}
		p.later(ms)
		p.say(ask)
		if r := now(t, s, turn); r.InputRequest == nil || r.InputRequest.Prompt != "still? " {
			t.Errorf("got wait %+v behind the last repetition", r.InputRequest)
		}
	})
}

func TestInterrupt_ATurnThatWaitsForSignalsIsNeverSent(t *testing.T) {
	inBubble(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
		p.ready()
		p.change(func() { p.unsent = make(chan struct{}) })
		turn := submit(t, s, "1+1")
		if got, err := s.Interrupt(t.Context(), turn); got != session.InterruptIdle || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
		p.change(func() { close(p.unsent); p.unsent = nil })
		all := p.take()
		starts, _ := frames[ipc.TurnStart](all)
		interrupts, _ := frames[ipc.Interrupt](all)
		if len(starts)+len(interrupts) > 0 {
			t.Errorf("the worker was told of it: %+v, %+v", starts, interrupts)
		}
		if r := now(t, s, turn); r.Outcome != timeline.OutcomeInterrupted || r.State != session.StateIdle {
			t.Errorf("got %q, %v", r.Outcome, r.State)
		}
	})
}

func TestInterrupt_ATurnThatWaitsForSignalsIsNotRunAfterTenSeconds(t *testing.T) {
	for sent, want := range map[time.Duration]int{sendLimit - ms: 1, sendLimit + ms: 0} {
		t.Run(sent.String(), func(t *testing.T) {
			inBubble(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
				p.ready()
				p.change(func() { p.unsent = make(chan struct{}) })
				turn := submit(t, s, "1+1")
				if got := now(t, s, turn).State; got != session.StateRunning {
					t.Errorf("got %v", got)
				}
				p.later(sent)
				p.change(func() { close(p.unsent); p.unsent = nil })
				if got, _ := frames[ipc.TurnStart](p.take()); len(got) != want {
					t.Errorf("the turn was sent %d times, want %d", len(got), want)
				}
				if got := now(t, s, turn).Outcome; want == 0 && got != timeline.OutcomeInterrupted {
					t.Errorf("got %q", got)
				}
			})
		})
	}
}

func TestStart_WorkerThatIsNotReadyInTimeIsEnded(t *testing.T) {
	inBubble(t, &Options{StartTimeout: 7 * time.Second}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
		turn := submit(t, s, "never")
		p.later(7*time.Second - ms)
		if got := now(t, s, turn).State; got != session.StateStarting {
			t.Errorf("got %v before its time", got)
		}
		p.later(ms)
		if r := now(t, s, turn); r.Outcome != timeline.OutcomeEnded || r.State != session.StateEnded {
			t.Errorf("got %q, %v", r.Outcome, r.State)
		}
		if got := report(t, s); got.Reason != "worker failed: it was not ready after 7s" || !got.NeverReady {
			t.Errorf("got %+v", got)
		}
	})
}

func TestStart_OneThatIsReadyMayTakeAsLongAsItLikes(t *testing.T) {
	inBubble(t, &Options{StartTimeout: time.Second}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
		p.say(p.hello())
		p.later(time.Hour)
		if got := now(t, s, 0).State; got != session.StateStarting {
			t.Errorf("got %v", got)
		}
	})
}

func TestStart_WorkerThatMayNotAskEarlyIsGivenTwoSeconds(t *testing.T) {
	for ready, ended := range map[time.Duration]bool{earlyInput - 100*ms: false, time.Minute: true} {
		t.Run(ready.String(), func(t *testing.T) {
			inBubble(t, &Options{}, workers.Spec{EarlyInputError: "it was kept out"}, func(t *testing.T, s *Session, p *fakeProcess) {
				p.change(func() { p.reading = []host.Reader{{Key: "main", Command: "fake"}} })
				p.later(ready)
				if r := now(t, s, 0); r.InputRequest != nil || (r.State == session.StateEnded) != ended {
					t.Fatalf("got %v, wait %v", r.State, r.InputRequest)
				}
				if ended {
					if got := report(t, s).Reason; got != "worker failed: it was kept out" {
						t.Errorf("got %q", got)
					}
					return
				}
				p.say(p.hello())
				p.later(time.Second)
				if r := now(t, s, 0); r.InputRequest == nil || !r.InputRequest.Terminal {
					t.Errorf("got %v, wait %v: behind worker_ready a reader is a wait", r.State, r.InputRequest)
				}
			})
		})
	}
}

func TestStart_HeldInputRunsOnceAndASecondIsRefused(t *testing.T) {
	inBubble(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
		turn := submit(t, s, "held")
		if _, err := s.Submit(t.Context(), "second"); !errors.Is(err, session.ErrBusy) {
			t.Errorf("got %v", err)
		}
		p.ready()
		got, _ := frames[ipc.TurnStart](p.take())
		if len(got) != 1 || got[0].Turn != turn || string(got[0].Input) != "held" {
			t.Errorf("got %+v", got)
		}
		p.say(ipc.Idle{Turn: turn, Outcome: ipc.OutcomeOK})
		if r := now(t, s, turn); r.Outcome != timeline.OutcomeOK || r.State != session.StateIdle {
			t.Errorf("got %q, %v", r.Outcome, r.State)
		}
	})
}

func TestStart_HeldInputAnswersAStartUpThatAsksAndEndsWithIt(t *testing.T) {
	inBubble(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
		turn := submit(t, s, "yes")
		p.say(p.hello(), ipc.StdinWait{Wait: 1, Prompt: "sure? ", Kind: ipc.WaitLine, Want: ipc.WantLine})
		got, _ := frames[ipc.TurnInput](p.take())
		if len(got) != 1 || string(got[0].Input) != "yes\n" {
			t.Errorf("got %+v", got)
		}
		if _, err := s.Submit(t.Context(), "second"); !errors.Is(err, session.ErrBusy) {
			t.Errorf("got %v: the start-up has its input", err)
		}
		p.say(ipc.Idle{Outcome: ipc.OutcomeOK})
		if r := now(t, s, turn); r.Outcome != timeline.OutcomeOK {
			t.Errorf("got %q", r.Outcome)
		}
		if got, _ := frames[ipc.TurnStart](p.take()); len(got) != 0 {
			t.Errorf("the answer ran as code: %+v", got)
		}
		submit(t, s, "next")
	})
}

func TestStart_HeldInputThatIsInterruptedNeverRuns(t *testing.T) {
	inBubble(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
		turn := submit(t, s, "held")
		if got, err := s.Interrupt(t.Context(), 0); got != session.InterruptIdle || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
		if got := now(t, s, turn).Outcome; got != timeline.OutcomeInterrupted {
			t.Errorf("got %q", got)
		}
		p.ready()
		if got, _ := frames[ipc.TurnStart](p.take()); len(got) != 0 {
			t.Errorf("it ran: %+v", got)
		}
	})
}

func TestEnd_WorkerThatLivesOnAfterItsLastFrameIsGivenTenSeconds(t *testing.T) {
	inBubble(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
		p.ready()
		turn := submit(t, s, "exit")
		p.say(ipc.SessionEnd{Reason: ipc.EndExit})
		p.later(endGrace - ms)
		if got := now(t, s, turn); got.State != session.StateStopping || got.Outcome != "" {
			t.Errorf("got %v, %q before its time", got.State, got.Outcome)
		}
		p.later(ms)
		if got := report(t, s).Reason; got != "worker failed: it lives on after session_end" {
			t.Errorf("got %q", got)
		}
	})
}

func TestEnd_OfATurnThatMayExit(t *testing.T) {
	leave := func(t *testing.T, s *Session, p *fakeProcess) (turn uint64) {
		p.ready()
		turn, err := s.SubmitMayExit(t.Context(), "exit")
		if err != nil {
			t.Fatal(err)
		}
		p.say(ipc.SessionEnd{Reason: ipc.EndExit})
		p.take()
		return turn
	}
	t.Run("is waited for", func(t *testing.T) {
		inBubble(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
			turn := leave(t, s, p)
			p.later(time.Hour)
			if got := now(t, s, turn); got.State != session.StateStopping || got.Outcome != "" {
				t.Errorf("got %v, %q", got.State, got.Outcome)
			}
		})
	})
	t.Run("is interrupted by the signal alone, and then killed", func(t *testing.T) {
		inBubble(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
			turn := leave(t, s, p)
			for _, want := range []host.Signal{host.Interrupt, host.Kill} {
				result := interruptAside(t, s, turn)
				all := p.take()
				if !slices.ContainsFunc(all, func(h heard) bool { s, ok := h.what.(sent); return ok && s.sig == want }) {
					t.Errorf("got %v, want the signal %v", all, want)
				}
				if got, _ := frames[ipc.Interrupt](all); len(got) > 0 {
					t.Errorf("got %v for a worker that reads no more", got)
				}
				p.later(interruptWait)
				if got := <-result; want == host.Interrupt && got != session.InterruptPending {
					t.Errorf("got %q", got)
				}
			}
		})
	})
	t.Run("ends with the session all the same", func(t *testing.T) {
		inBubble(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
			leave(t, s, p)
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	})
}

func TestStop_EachRungHasItsShareOfTheGrace(t *testing.T) {
	for rung, test := range map[string]struct {
		dies  host.Signal
		took  time.Duration
		climb string
	}{
		"SIGHUP":  {host.Hangup, 6 * time.Second, "0s SIGINT, 0s shutdown, 5s closed, 6s SIGHUP"},
		"SIGTERM": {host.Terminate, 7 * time.Second, "0s SIGINT, 0s shutdown, 5s closed, 6s SIGHUP, 7s SIGKILL, 7s SIGTERM"},
		"SIGKILL": {host.Kill, 8 * time.Second, "0s SIGINT, 0s shutdown, 5s closed, 6s SIGHUP, 7s SIGTERM, 8s SIGKILL"},
	} {
		t.Run(rung, func(t *testing.T) {
			inBubble(t, &Options{StopGrace: 10 * time.Second}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
				p.ready()
				turn := submit(t, s, "ignores everything")
				p.take()
				p.change(func() { p.born, p.dies = time.Now(), test.dies })
				if err := s.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(p.born); took != test.took || s.StoppedBy() != rung {
					t.Errorf("got %s after %s, want %s after %s", s.StoppedBy(), took, rung, test.took)
				}
				var climb []string
				for _, h := range p.take() {
					switch what := h.what.(type) {
					case sent:
						climb = append(climb, fmt.Sprintf("%s %s", h.at, what.sig))
					case ipc.Message:
						climb = append(climb, fmt.Sprintf("%s %s", h.at, what.Type()))
					default:
						climb = append(climb, fmt.Sprintf("%s closed", h.at))
					}
				}
				slices.Sort(climb)
				if got := strings.Join(slices.Compact(climb), ", "); !strings.HasPrefix(got, test.climb) {
					t.Errorf("got the climb %q, want %q", got, test.climb)
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

func TestSession_IdleOneLooksForNothingAndIsNotWoken(t *testing.T) {
	inBubble(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
		p.ready()
		turn := submit(t, s, "1+1")
		p.say(ipc.Idle{Turn: turn, Outcome: ipc.OutcomeOK})
		p.later(time.Second)
		p.change(func() { p.looks = 0 })
		p.later(24 * time.Hour)
		p.change(func() {
			if p.looks > 0 {
				t.Errorf("%d looks for readers in an idle day", p.looks)
			}
		})
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.alarmAt.IsZero() || s.m.dueAt() != s.alarmAt {
			t.Errorf("the alarm is set, for %s", s.alarmAt)
		}
		if s.worker.armed {
			t.Error("it will look for readers")
		}
	})
}
