package sessionkit

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/timeline"
)

// A TurnResult holds the visible part of a turn.
type TurnResult struct {
	Events        []timeline.Event
	Outcome       string // "" if it did not end in time
	Failure       string // the language's name of its error
	InputRequests int
	WorkerExit    *timeline.WorkerExited
}

// OutputText returns the text of some streams, or of all without an argument.
func (res TurnResult) OutputText(of ...timeline.Stream) string {
	var b strings.Builder
	for _, e := range res.Events {
		if x, ok := e.Body.(timeline.Text); ok && (len(of) == 0 || slices.Contains(of, x.Stream)) {
			b.Write(x.Data)
		}
	}
	return b.String()
}

// Transcript returns the turn as text: output verbatim, <err> around standard error, and in
// brackets images, input requests and lines of input. A request names the program if it reads the
// terminal; every Python is called python.
func (res TurnResult) Transcript() string {
	var b strings.Builder
	stream := timeline.Stdout
	turnTo := func(s timeline.Stream) {
		if s != stream {
			stream = s
			b.WriteString(map[timeline.Stream]string{timeline.Stderr: "<err>", timeline.Stdout: "</err>"}[s])
		}
	}
	for _, e := range res.Events {
		switch x := e.Body.(type) {
		case timeline.Text:
			turnTo(x.Stream)
			b.Write(x.Data)
			continue
		case timeline.Display:
			if _, _, ok := x.ImageData(); ok {
				turnTo(timeline.Stdout)
				b.WriteString("[image]")
			} else if text := x.Text(); text != "" {
				turnTo(timeline.Stdout)
				b.WriteString(text + "\n")
			}
			continue
		case timeline.InputRequested:
			turnTo(timeline.Stdout)
			b.WriteString("[")
			if strings.HasPrefix(x.Reader, "python") {
				x.Reader = "python"
			}
			if x.Terminal {
				b.WriteString(x.Reader + " ")
			}
			if x.Kind != timeline.InputKindLine {
				b.WriteString(string(x.Kind) + " ")
			}
			fmt.Fprintf(&b, "wait %q]", x.Prompt)
		case timeline.InputLine:
			turnTo(timeline.Stdout)
			switch {
			case x.Keys && x.Secret:
				b.WriteString("[secret keys]")
			case x.Keys:
				fmt.Fprintf(&b, "[keys %q]", x.Text)
			case x.Secret:
				b.WriteString("[secret line]")
			default:
				fmt.Fprintf(&b, "[line %q]", x.Text)
			}
		case timeline.Call:
			x.Elapsed = 0 // differs between runs
			fmt.Fprintf(&b, "[%v]", x)
		case timeline.Gap:
			fmt.Fprintf(&b, "[gap of %d bytes]", x.Bytes)
		case timeline.Notice:
			fmt.Fprintf(&b, "[notice %q]", x.Message)
		case timeline.Limit:
			fmt.Fprintf(&b, "[limit %s]", x)
		case timeline.AccessDenied:
			fmt.Fprintf(&b, "[denied %s]", x)
		case timeline.AccessGranted:
			fmt.Fprintf(&b, "[granted %s]", x)
		}
	}
	return b.String()
}

// WantTranscript fails the test unless the turn succeeded with this transcript.
func (res TurnResult) WantTranscript(t *testing.T, want string) {
	t.Helper()
	if got := res.Transcript(); got != want || res.Outcome != "ok" {
		t.Errorf("got %.2000q, outcome %q %s; want %.2000q and ok", got, res.Outcome, res.Failure, want)
	}
}
