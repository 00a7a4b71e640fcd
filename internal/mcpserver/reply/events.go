package reply

import (
	"slices"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// dropRepeatedStarts removes the events of a worker that did not start if the next one did not
// start either, because they say the same. It also removes the start of that next worker: nothing
// was restarted, and no state is lost. before is true if the last worker before events did not
// start.
func dropRepeatedStarts(events []timeline.Event, before bool) []timeline.Event {
	neverReady := make(map[uint64]bool)
	for _, e := range events {
		switch b := e.Body.(type) {
		case timeline.WorkerStarted:
			if _, known := neverReady[e.Generation-1]; !known && before {
				neverReady[e.Generation-1] = true
			}
		case timeline.WorkerExited:
			neverReady[e.Generation] = b.NeverReady
		}
	}
	if len(neverReady) == 0 {
		return events
	}
	return slices.DeleteFunc(slices.Clone(events), func(e timeline.Event) bool {
		if _, started := e.Body.(timeline.WorkerStarted); started && neverReady[e.Generation-1] {
			return true
		}
		return neverReady[e.Generation] && neverReady[e.Generation+1]
	})
}

// HasFailedStart reports whether the last worker in r ended before it was ready.
func HasFailedStart(r session.Reply) bool {
	for _, e := range slices.Backward(r.Events) {
		if end, ok := e.Body.(timeline.WorkerExited); ok {
			return end.NeverReady
		}
	}
	return false
}

// HasEvent reports whether a reply has an event of this kind.
func HasEvent[B timeline.Body](r session.Reply) bool {
	return slices.ContainsFunc(r.Events, func(e timeline.Event) bool {
		_, ok := e.Body.(B)
		return ok
	})
}
