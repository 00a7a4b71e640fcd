package sessions

import (
	"testing"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/timeline"
)

func TestSanitizeEvent_QuotedNames(t *testing.T) {
	t.Parallel()
	for want, body := range map[string]timeline.Body{
		`write "/x\u202ey"`:       timeline.AccessDenied{Op: "write", Path: "/x\u202ey"},
		`call a.b("\x1b[8m")`:     timeline.AccessDenied{Op: "call", Call: "a.b", Detail: "\"\x1b[8m\""},
		`call "a.\x1b[8m"`:        timeline.AccessGranted{Call: "a.\x1b[8m"},
		`write "/x\u2800\x1b[2K"`: timeline.AccessGranted{Write: "/x\u2800\x1b[2K"},
	} {
		e := sanitizeEvent(new(cmdkit.TerminalSanitizer), timeline.Event{Body: body})
		if got := e.Body.(interface{ String() string }).String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
