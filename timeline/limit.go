package timeline

import (
	"fmt"
	"strings"
	"time"
)

// LimitKind is the kind of a Limit.
type LimitKind string

const (
	LimitMemory    LimitKind = "memory"
	LimitProcesses LimitKind = "processes"
	LimitTurn      LimitKind = "turn"
)

// LimitStep is what was done about a session at its limit.
type LimitStep string

const (
	LimitWarned      LimitStep = "warned"      // nothing yet: it is close
	LimitRefused     LimitStep = "refused"     // it gets no more
	LimitInterrupted LimitStep = "interrupted" // its turn was
	LimitEnded       LimitStep = "ended"       // a program of it was
)

// String describes the limit in one line.
func (l Limit) String() string {
	whose, limit := "", "the limit of this session"
	if l.All {
		whose, limit = " by all sessions together", "the limit of all sessions together"
	}
	switch {
	case l.What == LimitTurn:
		return "interrupted: this turn's limit of " + spoken(time.Duration(l.Max))
	case l.What == LimitMemory && l.Did == LimitEnded:
		return fmt.Sprintf("memory: %d of %d MiB used%s; %s was ended", l.Used>>20, l.Max>>20, whose, l.Program)
	case l.What == LimitMemory && l.Did == LimitRefused:
		return fmt.Sprintf("memory: %s is %d MiB; this turn used up to %d", limit, l.Max>>20, l.Used>>20)
	case l.What == LimitMemory:
		return fmt.Sprintf("memory: %d of %d MiB used%s", l.Used>>20, l.Max>>20, whose)
	case l.Did == LimitEnded:
		return fmt.Sprintf("%s: %d of %d%s; the newest were ended", l.What, l.Used, l.Max, whose)
	}
	return fmt.Sprintf("%s: %d of %d%s; no more can be started", l.What, l.Used, l.Max, whose)
}

// spoken writes a time as people do: "10 min", "1.5 s".
func spoken(d time.Duration) string {
	switch {
	case d >= time.Hour && d%time.Hour == 0:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d >= time.Minute && d%time.Minute == 0:
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", d.Seconds()), ".0") + " s"
}
