package reply

import (
	"slices"
	"testing"

	"github.com/turnstone-repl/turnstone/timeline"
)

func TestDropRepeatedStarts(t *testing.T) {
	t.Parallel()
	started := func(n uint64) timeline.Event {
		return timeline.Event{Generation: n, Body: timeline.WorkerStarted{}}
	}
	ended := func(n uint64, neverReady bool) timeline.Event {
		return timeline.Event{Generation: n, Body: timeline.WorkerExited{NeverReady: neverReady}}
	}
	for name, test := range map[string]struct {
		events []timeline.Event
		before bool
		want   []timeline.Event
	}{
		"both did not start":         {[]timeline.Event{started(1), ended(1, true), started(2), ended(2, true)}, false, []timeline.Event{ended(2, true)}},
		"the second one did":         {[]timeline.Event{started(1), ended(1, true), started(2)}, false, []timeline.Event{started(1), ended(1, true)}},
		"the one before did not":     {[]timeline.Event{started(2)}, true, nil},
		"the one before had worked":  {[]timeline.Event{started(2)}, false, []timeline.Event{started(2)}},
		"one that started and ended": {[]timeline.Event{ended(1, false), started(2)}, true, []timeline.Event{ended(1, false), started(2)}},
	} {
		if got := dropRepeatedStarts(test.events, test.before); !slices.EqualFunc(got, test.want, func(a, b timeline.Event) bool { return a == b }) {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}
