package supervisor

import (
	"fmt"
	"time"

	"github.com/turnstone-repl/turnstone/timeline"
)

// overtimeGrace is how long code may run on after the second interrupt of a turn that is over
// its limit. Then its worker is ended.
const overtimeGrace = 10 * time.Second

// clock keeps the time that the active turn may still run, before the phase is moved. It stands
// still while the turn waits for input.
func (m *machine) clock(to phase) {
	switch {
	case m.turnLimit == 0:
	case m.turn == nil || m.turn.id == 0:
		m.over = time.Time{}
	case to == phaseRunning:
		m.over = time.Now().Add(m.turn.left)
	case !m.over.IsZero():
		m.turn.left, m.over = time.Until(m.over), time.Time{}
	}
}

// overtime takes the next step against a turn that is over its limit: an interrupt, one that
// code cannot swallow, and the end of the worker.
func (m *machine) overtime() {
	t := m.turn
	t.overtime++
	switch t.overtime {
	case 1:
		m.record(m.turnOver())
		m.sendInterrupt(t, "")
		m.over = time.Now().Add(interruptWait)
	case 2:
		m.sendInterrupt(t, "")
		m.over = time.Now().Add(overtimeGrace)
	default:
		m.over = time.Time{}
		m.fail(fmt.Errorf("its turn withstood two interrupts (%s)", m.turnOver()))
	}
}

func (m *machine) turnOver() timeline.Limit {
	return timeline.Limit{Kind: timeline.LimitTurn, Max: int64(m.turnLimit), Step: timeline.LimitInterrupted}
}

// dueAt is when wake has something to do; zero for never.
func (m *machine) dueAt() time.Time {
	if m.due.IsZero() || !m.over.IsZero() && m.over.Before(m.due) {
		return m.over
	}
	return m.due
}
