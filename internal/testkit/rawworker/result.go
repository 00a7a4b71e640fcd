//go:build linux || darwin

package rawworker

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/ipc"
)

// A RawResult holds the events of one turn, in order.
type RawResult struct {
	Events []any
	Idle   *ipc.Idle
	End    *ipc.SessionEnd
}

// OutputText returns all text of the turn.
func (r RawResult) OutputText() string { return r.streamText(ipc.Stdout, ipc.Stderr) }

// ErrText returns the text of standard error.
func (r RawResult) ErrText() string { return r.streamText(ipc.Stderr) }

func (r RawResult) streamText(of ...ipc.Stream) string {
	var b strings.Builder
	for _, e := range r.Events {
		if t, ok := e.(MergedText); ok && (t.Stream == of[0] || t.Stream == of[len(of)-1]) {
			b.WriteString(t.Data)
		}
	}
	return b.String()
}

// Transcript returns the turn as text: output verbatim, <err> around standard error, and [image],
// [wait …], [line …] for these events.
func (r RawResult) Transcript() string {
	var b strings.Builder
	stream := ipc.Stdout
	turnTo := func(s ipc.Stream) {
		if s != stream {
			stream = s
			b.WriteString(map[ipc.Stream]string{ipc.Stderr: "<err>", ipc.Stdout: "</err>"}[s])
		}
	}
	for _, e := range r.Events {
		if t, ok := e.(MergedText); ok {
			turnTo(t.Stream)
			b.WriteString(t.Data)
			continue
		}
		turnTo(ipc.Stdout)
		switch e := e.(type) {
		case ipc.Image:
			fmt.Fprintf(&b, "[image %s]", e.MIME)
		case ipc.Display:
			b.WriteString(describeDisplay(e))
		case ipc.Clear:
			b.WriteString("[clear]")
		case ipc.StdinWait:
			fmt.Fprintf(&b, "[wait %s %s %q]", e.Kind, e.Want, e.Prompt)
		case ipc.InputLine:
			switch {
			case e.Secret:
				b.WriteString("[line secret]")
			case e.Line > 0:
				fmt.Fprintf(&b, "[line %d %q]", e.Line, e.Text)
			default:
				fmt.Fprintf(&b, "[line %q]", e.Text)
			}
		}
	}
	return b.String()
}

// WantOutput fails the test unless the turn succeeded and printed want.
func (r RawResult) WantOutput(t *testing.T, want string) {
	t.Helper()
	if got := r.OutputText(); got != want || r.Idle == nil || r.Idle.Outcome != ipc.OutcomeOK {
		t.Fatalf("got %q, idle %+v; want %q and ok", r.Transcript(), r.Idle, want)
	}
}

// describeDisplay describes a display: an image, or its kind, its ID and its types.
func describeDisplay(d ipc.Display) string {
	types := slices.Sorted(maps.Keys(d.Data))
	if len(types) == 1 && strings.HasPrefix(types[0], "image/") {
		return "[image " + types[0] + "]"
	}
	what := string(d.Kind)
	if d.Update {
		what = "update"
	}
	if d.ID != "" {
		what += " " + d.ID
	}
	text := d.Data["text/plain"]
	if d.Kind == ipc.DisplayResult {
		text = nil // the echo has the text
	}
	return strings.TrimSpace(fmt.Sprintf("[%s: %s] %s", what, strings.Join(types, " "), text)) + "\n"
}
