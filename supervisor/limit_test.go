package supervisor

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// recordedLimits returns the limit events of a session as text.
func recordedLimits(s *Session) (limits []string) {
	for _, e := range s.Log().EventsSince(0) {
		if l, ok := e.Body.(timeline.Limit); ok {
			limits = append(limits, l.String())
		}
	}
	return limits
}

var tenMinuteSpec = workers.Spec{Limits: workers.Limits{Turn: 10 * time.Minute}}

func TestTurnLimit(t *testing.T) {
	t.Run("interrupts twice, then ends the worker", func(t *testing.T) {
		runWithFakeWorker(t, &Options{}, tenMinuteSpec, func(t *testing.T, s *Session, p *fakeProcess) {
			p.sendReady()
			turn := submitTurn(t, s, "loop")
			p.advanceTime(10*time.Minute - time.Millisecond)
			if interrupts, _ := receivedFrames[ipc.Interrupt](p.takeReceived()); len(interrupts) > 0 {
				t.Fatalf("interrupted too early: %+v", interrupts)
			}
			p.advanceTime(30 * time.Second)
			interrupts, at := receivedFrames[ipc.Interrupt](p.takeReceived())
			var levels []uint8
			for _, i := range interrupts {
				if len(levels) == 0 || levels[len(levels)-1] != i.Level {
					levels = append(levels, i.Level)
				}
			}
			if !slices.Equal(levels, []uint8{1, 2}) || at[0] != 10*time.Minute {
				t.Errorf("got levels %v from %s on", levels, at[0])
			}
			if got := recordedLimits(s); !slices.Equal(got, []string{"interrupted: this turn's limit of 10 min"}) {
				t.Errorf("got %q", got)
			}
			if r := pollReply(t, s, turn); r.Outcome != timeline.OutcomeEnded || !strings.Contains(lastWorkerExit(t, s).Reason, "survived two interrupts (interrupted: this turn's limit of 10 min)") {
				t.Errorf("got %q and %q", r.Outcome, lastWorkerExit(t, s).Reason)
			}
		})
	})

	t.Run("the next turn has its full time", func(t *testing.T) {
		runWithFakeWorker(t, &Options{}, tenMinuteSpec, func(t *testing.T, s *Session, p *fakeProcess) {
			p.sendReady()
			for range 2 {
				turn := submitTurn(t, s, "loop")
				p.advanceTime(9 * time.Minute)
				if r := pollReply(t, s, turn); r.Outcome != "" {
					t.Fatalf("got %q after nine minutes", r.Outcome)
				}
				p.advanceTime(time.Minute)
				p.sendFrames(ipc.InterruptAck{Turn: turn, Seq: 1, Result: ipc.InterruptRaised}, ipc.Idle{Turn: turn, Outcome: ipc.OutcomeInterrupted})
				if r := pollReply(t, s, turn); r.Outcome != timeline.OutcomeInterrupted {
					t.Errorf("got %q", r.Outcome)
				}
			}
			if got := recordedLimits(s); len(got) != 2 {
				t.Errorf("got %q", got)
			}
			p.takeReceived()
			p.advanceTime(24 * time.Hour)
			if all := p.takeReceived(); len(all) > 0 {
				t.Errorf("the idle worker received %+v", all)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if !s.alarmAt.IsZero() {
				t.Errorf("the alarm of an idle session is set, for %s", s.alarmAt)
			}
		})
	})

	t.Run("time spent waiting for input does not count", func(t *testing.T) {
		runWithFakeWorker(t, &Options{}, tenMinuteSpec, func(t *testing.T, s *Session, p *fakeProcess) {
			p.sendReady()
			turn := submitTurn(t, s, "input()")
			p.advanceTime(6 * time.Minute)
			p.sendFrames(ipc.StdinWait{Turn: turn, Wait: 1, Prompt: "? ", Kind: ipc.WaitLine, Want: ipc.WantLine})
			p.advanceTime(24 * time.Hour)
			r := pollReply(t, s, turn)
			if r.State != session.StateWaiting {
				t.Fatalf("got %s", r.State)
			}
			if _, err := s.Answer(t.Context(), r.InputRequest.ID, session.Input{Data: []byte("a\n")}); err != nil {
				t.Fatal(err)
			}
			p.advanceTime(4*time.Minute - time.Millisecond)
			if got := recordedLimits(s); len(got) > 0 {
				t.Errorf("got %q before its ten minutes", got)
			}
			p.advanceTime(time.Millisecond)
			if got := recordedLimits(s); len(got) != 1 {
				t.Errorf("got %q after its ten minutes", got)
			}
			p.sendFrames(ipc.Idle{Turn: turn, Outcome: ipc.OutcomeInterrupted})
		})
	})
}

const gigabyte = 1 << 30

var gigabyteSpec = workers.Spec{Limits: workers.Limits{Memory: gigabyte}, OutOfMemoryWords: []string{"MemoryError"}, NotOutOfMemoryWords: []string{"Parser"}}

// setMemory sets the memory usage that the worker reports.
func (p *fakeProcess) setMemory(bytes int64) { p.withLock(func() { p.usage.Memory = bytes }) }

func TestMemoryLimit(t *testing.T) {
	// The bound of a first turn must not depend on a timer, which may fire late on a busy machine.
	t.Run("applies before the first turn", func(t *testing.T) {
		for _, c := range []struct {
			o    Options
			spec workers.Spec
		}{{Options{}, gigabyteSpec}, {Options{Memory: gigabyte}, workers.Spec{}}} {
			runWithFakeWorker(t, &c.o, c.spec, func(t *testing.T, s *Session, p *fakeProcess) {
				p.setMemory(gigabyte / 4)
				p.sendReady()
				submitTurn(t, s, "fill")
				p.withLock(func() {
					if p.lastAllowance.RemainingBytes != gigabyte/4*3 || p.lastAllowance.MaxProcessBytes != gigabyte {
						t.Errorf("the turn was allowed %+v", p.lastAllowance)
					}
				})
			})
		}
	})

	// A measurement at the beginning of the start-up does not count as one of the started worker.
	t.Run("counts what the started worker uses", func(t *testing.T) {
		runWithFakeWorker(t, &Options{}, gigabyteSpec, func(t *testing.T, s *Session, p *fakeProcess) {
			p.setMemory(gigabyte / 100)
			p.advanceTime(firstMeasureDelay + time.Millisecond)
			p.withLock(func() {
				if p.usageCalls == 0 {
					t.Error("the start-up was not measured")
				}
			})
			p.setMemory(gigabyte / 4)
			p.sendReady()
			submitTurn(t, s, "fill")
			p.withLock(func() {
				if p.lastAllowance.RemainingBytes != gigabyte/4*3 {
					t.Errorf("the turn was allowed %+v", p.lastAllowance)
				}
			})
		})
	})

	t.Run("an idle session is not measured", func(t *testing.T) {
		runWithFakeWorker(t, &Options{}, gigabyteSpec, func(t *testing.T, s *Session, p *fakeProcess) {
			p.sendReady()
			for range 3 {
				turn := submitTurn(t, s, "1+1")
				p.sendFrames(ipc.Idle{Turn: turn, Outcome: ipc.OutcomeOK})
			}
			p.advanceTime(time.Second)
			p.withLock(func() {
				if p.usageCalls == 0 || p.usageCalls > 3 {
					t.Errorf("%d measurements of a start and three short turns", p.usageCalls)
				}
				p.usageCalls = 0
			})
			p.advanceTime(24 * time.Hour)
			p.withLock(func() {
				if p.usageCalls > 0 {
					t.Errorf("%d measurements of an idle session", p.usageCalls)
				}
			})
		})
	})

	t.Run("a steady turn is measured once a second", func(t *testing.T) {
		runWithFakeWorker(t, &Options{}, gigabyteSpec, func(t *testing.T, s *Session, p *fakeProcess) {
			p.sendReady()
			submitTurn(t, s, "sleep")
			p.advanceTime(time.Minute)
			p.withLock(func() { p.usageCalls = 0 })
			p.advanceTime(time.Hour)
			p.withLock(func() {
				if p.usageCalls < 3500 || p.usageCalls > 3601 {
					t.Errorf("%d measurements in an hour", p.usageCalls)
				}
			})
		})
	})

	t.Run("warns once, then kills a worker a tenth over the limit", func(t *testing.T) {
		runWithFakeWorker(t, &Options{}, gigabyteSpec, func(t *testing.T, s *Session, p *fakeProcess) {
			p.sendReady()
			turn := submitTurn(t, s, "grow")
			p.advanceTime(time.Second)
			p.setMemory(gigabyte / 100 * 92)
			p.advanceTime(2 * time.Second)
			p.setMemory(gigabyte)
			p.advanceTime(10 * time.Second)
			if got := recordedLimits(s); len(got) > 0 && got[0] != "memory: 942 of 1024 MiB used" || len(got) != 1 {
				t.Errorf("got %q", got)
			}
			p.withLock(func() {
				if p.lastAllowance.RemainingBytes != 0 || p.lastAllowance.MaxProcessBytes != gigabyte || p.lastAllowance.SpareBytes != 0 {
					t.Errorf("at its limit it was allowed %+v", p.lastAllowance)
				}
			})
			p.setMemory(gigabyte / 10 * 12)
			p.advanceTime(2 * time.Second)
			if r := pollReply(t, s, turn); r.Outcome != timeline.OutcomeEnded || !strings.Contains(lastWorkerExit(t, s).Reason, "1228 of 1024 MiB used; the worker was ended") {
				t.Errorf("got %q, %q", r.Outcome, lastWorkerExit(t, s).Reason)
			}
		})
	})

	t.Run("an out-of-memory reply names the limit and the peak", func(t *testing.T) {
		runWithFakeWorker(t, &Options{}, gigabyteSpec, func(t *testing.T, s *Session, p *fakeProcess) {
			p.sendReady()
			turn := submitTurn(t, s, "grow")
			p.setMemory(gigabyte / 2)
			p.sendFrames(ipc.Idle{Turn: turn, Outcome: ipc.OutcomeError, Error: &ipc.RuntimeError{Name: "ArrayMemoryError"}})
			for _, e := range []ipc.RuntimeError{{Name: "ZeroDivisionError"}, {Name: "MemoryError", Message: "Parser stack overflowed"}} {
				turn = submitTurn(t, s, "1/0")
				p.sendFrames(ipc.Idle{Turn: turn, Outcome: ipc.OutcomeError, Error: &e})
			}
			want := []string{"memory: the limit of this session is 1024 MiB; this turn used up to 512"}
			if got := recordedLimits(s); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	})

	t.Run("a limit for all sessions limits each", func(t *testing.T) {
		runWithFakeWorker(t, &Options{Memory: gigabyte}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
			p.sendReady()
			submitTurn(t, s, "grow")
			p.setMemory(gigabyte / 100 * 95)
			p.advanceTime(2 * time.Second)
			if got := recordedLimits(s); !slices.Equal(got, []string{"memory: 972 of 1024 MiB used by all sessions together"}) {
				t.Errorf("got %q", got)
			}
		})
	})
}
