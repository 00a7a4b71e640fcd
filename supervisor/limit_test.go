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

// limitsMet returns the limits that a session has met, as its readers see them.
func limitsMet(s *Session) (met []string) {
	for _, e := range s.Log().EventsSince(0) {
		if l, ok := e.Body.(timeline.Limit); ok {
			met = append(met, l.String())
		}
	}
	return met
}

var tenMinutes = workers.Spec{Limits: workers.Limits{Turn: 10 * time.Minute}}

func TestTurnLimit_InterruptsThenInsistsThenEndsTheWorker(t *testing.T) {
	inBubble(t, &Options{}, tenMinutes, func(t *testing.T, s *Session, p *fakeProcess) {
		p.ready()
		turn := submit(t, s, "loop")
		p.later(10*time.Minute - time.Millisecond)
		if interrupts, _ := frames[ipc.Interrupt](p.take()); len(interrupts) > 0 {
			t.Fatalf("it was interrupted before its time: %+v", interrupts)
		}
		p.later(30 * time.Second)
		interrupts, at := frames[ipc.Interrupt](p.take())
		var levels []uint8
		for _, i := range interrupts {
			if len(levels) == 0 || levels[len(levels)-1] != i.Level {
				levels = append(levels, i.Level)
			}
		}
		if !slices.Equal(levels, []uint8{1, 2}) || at[0] != 10*time.Minute {
			t.Errorf("got levels %v from %s on", levels, at[0])
		}
		if got := limitsMet(s); !slices.Equal(got, []string{"interrupted: this turn's limit of 10 min"}) {
			t.Errorf("got %q", got)
		}
		if r := now(t, s, turn); r.Outcome != timeline.OutcomeEnded || !strings.Contains(report(t, s).Reason, "withstood two interrupts (interrupted: this turn's limit of 10 min)") {
			t.Errorf("got %q and %q", r.Outcome, report(t, s).Reason)
		}
	})
}

func TestTurnLimit_ATurnThatObeysLeavesTheNextItsWholeTime(t *testing.T) {
	inBubble(t, &Options{}, tenMinutes, func(t *testing.T, s *Session, p *fakeProcess) {
		p.ready()
		for range 2 {
			turn := submit(t, s, "loop")
			p.later(9 * time.Minute)
			if r := now(t, s, turn); r.Outcome != "" {
				t.Fatalf("got %q after nine minutes", r.Outcome)
			}
			p.later(time.Minute)
			p.say(ipc.InterruptAck{Turn: turn, Seq: 1, Result: ipc.InterruptRaised}, ipc.Idle{Turn: turn, Outcome: ipc.OutcomeInterrupted})
			if r := now(t, s, turn); r.Outcome != timeline.OutcomeInterrupted {
				t.Errorf("got %q", r.Outcome)
			}
		}
		if got := limitsMet(s); len(got) != 2 {
			t.Errorf("got %q", got)
		}
		p.take()
		p.later(24 * time.Hour)
		if all := p.take(); len(all) > 0 {
			t.Errorf("the idle session heard %+v", all)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.alarmAt.IsZero() {
			t.Errorf("the alarm of an idle session is set, for %s", s.alarmAt)
		}
	})
}

func TestTurnLimit_TheTimeOfAWaitDoesNotCount(t *testing.T) {
	inBubble(t, &Options{}, tenMinutes, func(t *testing.T, s *Session, p *fakeProcess) {
		p.ready()
		turn := submit(t, s, "input()")
		p.later(6 * time.Minute)
		p.say(ipc.StdinWait{Turn: turn, Wait: 1, Prompt: "? ", Kind: ipc.WaitLine, Want: ipc.WantLine})
		p.later(24 * time.Hour)
		r := now(t, s, turn)
		if r.State != session.StateWaiting {
			t.Fatalf("got %s", r.State)
		}
		if _, err := s.Answer(t.Context(), r.InputRequest.ID, session.Input{Data: []byte("a\n")}); err != nil {
			t.Fatal(err)
		}
		p.later(4*time.Minute - time.Millisecond)
		if got := limitsMet(s); len(got) > 0 {
			t.Errorf("got %q before its ten minutes", got)
		}
		p.later(time.Millisecond)
		if got := limitsMet(s); len(got) != 1 {
			t.Errorf("got %q after its ten minutes", got)
		}
		p.say(ipc.Idle{Turn: turn, Outcome: ipc.OutcomeInterrupted})
	})
}

const gigabyte = 1 << 30

var oneGigabyte = workers.Spec{Limits: workers.Limits{Memory: gigabyte}, OutOfMemoryWords: []string{"MemoryError"}, NotOutOfMemoryWords: []string{"Parser"}}

// uses sets the memory that the worker uses.
func (p *fakeProcess) uses(bytes int64) { p.change(func() { p.usage.Memory = bytes }) }

// No timer decides whether a first turn finds its bound: on a busy machine one comes late.
func TestMemoryLimit_HoldsBeforeTheFirstTurn(t *testing.T) {
	for _, c := range []struct {
		o    Options
		spec workers.Spec
	}{{Options{}, oneGigabyte}, {Options{Memory: gigabyte}, workers.Spec{}}} {
		inBubble(t, &c.o, c.spec, func(t *testing.T, s *Session, p *fakeProcess) {
			p.uses(gigabyte / 4)
			p.ready()
			submit(t, s, "fill")
			p.change(func() {
				if p.allowed.Left != gigabyte/4*3 || p.allowed.Most != gigabyte {
					t.Errorf("got a turn that was allowed %+v", p.allowed)
				}
			})
		})
	}
}

// A look at the beginning of the start-up is no look at what has started.
func TestMemoryLimit_TheFirstTurnHasTheBoundOfWhatHasStarted(t *testing.T) {
	inBubble(t, &Options{}, oneGigabyte, func(t *testing.T, s *Session, p *fakeProcess) {
		p.uses(gigabyte / 100)
		p.later(firstLook + time.Millisecond)
		p.change(func() {
			if p.measured == 0 {
				t.Error("nobody looked at the start-up")
			}
		})
		p.uses(gigabyte / 4)
		p.ready()
		submit(t, s, "fill")
		p.change(func() {
			if p.allowed.Left != gigabyte/4*3 {
				t.Errorf("got a turn that was allowed %+v", p.allowed)
			}
		})
	})
}

func TestMemoryLimit_NobodyLooksAtAnIdleSession(t *testing.T) {
	inBubble(t, &Options{}, oneGigabyte, func(t *testing.T, s *Session, p *fakeProcess) {
		p.ready()
		for range 3 {
			turn := submit(t, s, "1+1")
			p.say(ipc.Idle{Turn: turn, Outcome: ipc.OutcomeOK})
		}
		p.later(time.Second)
		p.change(func() {
			if p.measured == 0 || p.measured > 3 {
				t.Errorf("%d looks at a start and three short turns", p.measured)
			}
			p.measured = 0
		})
		p.later(24 * time.Hour)
		p.change(func() {
			if p.measured > 0 {
				t.Errorf("%d looks at an idle session", p.measured)
			}
		})
	})
}

func TestMemoryLimit_ACalmTurnIsLookedAtOnceASecond(t *testing.T) {
	inBubble(t, &Options{}, oneGigabyte, func(t *testing.T, s *Session, p *fakeProcess) {
		p.ready()
		submit(t, s, "sleep")
		p.later(time.Minute)
		p.change(func() { p.measured = 0 })
		p.later(time.Hour)
		p.change(func() {
			if p.measured < 3500 || p.measured > 3601 {
				t.Errorf("%d looks in an hour", p.measured)
			}
		})
	})
}

func TestMemoryLimit_WarnsOnceThenEndsTheWorkerBeyondATenth(t *testing.T) {
	inBubble(t, &Options{}, oneGigabyte, func(t *testing.T, s *Session, p *fakeProcess) {
		p.ready()
		turn := submit(t, s, "grow")
		p.later(time.Second)
		p.uses(gigabyte / 100 * 92)
		p.later(2 * time.Second)
		p.uses(gigabyte)
		p.later(10 * time.Second)
		if got := limitsMet(s); len(got) > 0 && got[0] != "memory: 942 of 1024 MiB used" || len(got) != 1 {
			t.Errorf("got %q", got)
		}
		p.change(func() {
			if p.allowed.Left != 0 || p.allowed.Most != gigabyte || p.allowed.Spare != 0 {
				t.Errorf("at its limit it was allowed %+v", p.allowed)
			}
		})
		p.uses(gigabyte / 10 * 12)
		p.later(2 * time.Second)
		if r := now(t, s, turn); r.Outcome != timeline.OutcomeEnded || !strings.Contains(report(t, s).Reason, "1228 of 1024 MiB used; the worker was ended") {
			t.Errorf("got %q, %q", r.Outcome, report(t, s).Reason)
		}
	})
}

func TestMemoryLimit_TheReplyToALackOfMemoryNamesItWithThePeak(t *testing.T) {
	inBubble(t, &Options{}, oneGigabyte, func(t *testing.T, s *Session, p *fakeProcess) {
		p.ready()
		turn := submit(t, s, "grow")
		p.uses(gigabyte / 2)
		p.say(ipc.Idle{Turn: turn, Outcome: ipc.OutcomeError, Error: &ipc.RuntimeError{Name: "ArrayMemoryError"}})
		for _, e := range []ipc.RuntimeError{{Name: "ZeroDivisionError"}, {Name: "MemoryError", Message: "Parser stack overflowed"}} {
			turn = submit(t, s, "1/0")
			p.say(ipc.Idle{Turn: turn, Outcome: ipc.OutcomeError, Error: &e})
		}
		want := []string{"memory: the limit of this session is 1024 MiB; this turn used up to 512"}
		if got := limitsMet(s); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestMemoryLimit_OfAllSessionsTogetherBoundsEach(t *testing.T) {
	inBubble(t, &Options{Memory: gigabyte}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
		p.ready()
		submit(t, s, "grow")
		p.uses(gigabyte / 100 * 95)
		p.later(2 * time.Second)
		if got := limitsMet(s); !slices.Equal(got, []string{"memory: 972 of 1024 MiB used by all sessions together"}) {
			t.Errorf("got %q", got)
		}
	})
}
