package timeline

import (
	"fmt"
	"time"

	"github.com/turnstone-repl/turnstone/internal/text"
)

// LimitKind is the resource that a Limit bounds.
type LimitKind string

const (
	LimitMemory    LimitKind = "memory"
	LimitProcesses LimitKind = "processes"
	LimitTurn      LimitKind = "turn"
)

// LimitStep is what the supervisor did when a session reached its limit.
type LimitStep string

const (
	LimitWarned      LimitStep = "warned"      // a warning: the limit is close
	LimitRefused     LimitStep = "refused"     // the session gets no more
	LimitInterrupted LimitStep = "interrupted" // its turn was interrupted
	LimitEnded       LimitStep = "ended"       // one of its programs was ended
)

// String describes the limit in one line.
func (l Limit) String() string {
	whose, limit := "", "the limit of this session"
	if l.AllSessions {
		whose, limit = " by all sessions together", "the limit of all sessions together"
	}
	switch {
	case l.Kind == LimitTurn:
		return "interrupted: this turn's limit of " + text.Duration(time.Duration(l.Max))
	case l.Kind == LimitMemory && l.Step == LimitEnded:
		return fmt.Sprintf("memory: %d of %d MiB used%s; %s was ended", l.Used>>20, l.Max>>20, whose, l.Program)
	case l.Kind == LimitMemory && l.Step == LimitRefused:
		return fmt.Sprintf("memory: %s is %d MiB; this turn used up to %d", limit, l.Max>>20, l.Used>>20)
	case l.Kind == LimitMemory:
		return fmt.Sprintf("memory: %d of %d MiB used%s", l.Used>>20, l.Max>>20, whose)
	case l.Step == LimitEnded:
		return fmt.Sprintf("%s: %d of %d%s; the newest were ended", l.Kind, l.Used, l.Max, whose)
	}
	return fmt.Sprintf("%s: %d of %d%s; no more can be started", l.Kind, l.Used, l.Max, whose)
}
