package supervisor

import (
	"fmt"
	"time"

	"github.com/turnstone-repl/turnstone/timeline"
)

// overtimeGrace is how long code may continue after the second interrupt of a turn that has
// exceeded its limit. After that, the worker is killed.
const overtimeGrace = 10 * time.Second

// enforceTurnLimit takes the next step against a turn that has exceeded its limit. The steps are an
// interrupt, a stronger interrupt, and the end of the worker.
func (m *sessionMachine) enforceTurnLimit() {
	t := m.turn
	t.overtimeSteps++
	switch t.overtimeSteps {
	case 1:
		m.recordEvent(m.turnLimitEvent())
		m.sendInterrupt(t, "")
		m.overtimeAt = time.Now().Add(interruptTimeout)
	case 2:
		m.sendInterrupt(t, "")
		m.overtimeAt = time.Now().Add(overtimeGrace)
	default:
		m.overtimeAt = time.Time{}
		m.failWorker(fmt.Errorf("its turn survived two interrupts (%s)", m.turnLimitEvent()))
	}
}

func (m *sessionMachine) turnLimitEvent() timeline.Limit {
	return timeline.Limit{Kind: timeline.LimitTurn, Max: int64(m.turnLimit), Step: timeline.LimitInterrupted}
}
