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
	for _, e := range s.Log().Since(0) {
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
		if _, err := s.Answer(t.Context(), r.Wait.ID, session.Input{Data: []byte("a\n")}); err != nil {
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
