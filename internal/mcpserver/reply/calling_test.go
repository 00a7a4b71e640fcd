package reply

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstone-repl/turnstone/session"
)

func TestOpenCallsText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
		for want, list := range map[string][]session.PendingCall{
			"":                           {{Name: "quick", Running: 1, Since: ago(time.Millisecond)}},
			", calling search for 3.1 s": {{Name: "search", Running: 1, Since: ago(3100 * time.Millisecond)}},
			", calling a × 40 for 2.0 s, b for 1.0 s, c for 1.0 s and 1 more": {
				{Name: "a", Running: 40, Since: ago(2 * time.Second)}, {Name: "b", Running: 1, Since: ago(time.Second)},
				{Name: "c", Running: 1, Since: ago(time.Second)}, {Name: "d", Running: 1, Since: ago(time.Second)},
			},
		} {
			if got := openCallsText(list); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	})
}
