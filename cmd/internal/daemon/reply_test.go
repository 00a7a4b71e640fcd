//go:build !race

// The race detector would need a minute for this test, which uses only one goroutine.

package daemon

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/turnstone-repl/turnstone/cmd/internal/rpcserver"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

func TestFitEvents(t *testing.T) {
	var pictures, lines []timeline.Event
	for i := range 4 {
		pictures = append(pictures, timeline.Event{Seq: timeline.Seq(i + 1), Body: timeline.NewImageDisplay("image/png", bytes.Repeat([]byte{0xff}, 6<<20), "", "")})
	}
	pictures = append(pictures, timeline.Event{Seq: 5, Body: timeline.TurnEnded{Outcome: "ok"}})
	for i := range 200_000 {
		lines = append(lines, timeline.Event{Seq: timeline.Seq(i + 1), Body: timeline.InputLine{Prompt: "\x00\x00", Text: "line"}})
	}
	for name, events := range map[string][]timeline.Event{"pictures": pictures, "lines": lines} {
		wire := fitEvents(events)
		b, err := json.Marshal(session.Reply{Events: wire})
		if err != nil || len(b) > rpcserver.MaxLine-1<<20 {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
		if last := wire[len(wire)-1]; last.Seq != events[len(events)-1].Seq {
			t.Errorf("%s: the last event is %d", name, last.Seq)
		}
		shown := func(i int) timeline.Display { d, _ := wire[i].Body.(timeline.Display); return d }
		if name == "pictures" && (len(wire) != 5 || len(shown(3).Data) == 0 || len(shown(0).Data) != 0 || shown(0).Omitted["image/png"].Bytes != 6<<20) {
			t.Errorf("of the pictures %d events are left, and not the newest as it was", len(wire))
		}
		if left, ok := wire[0].Body.(timeline.Omitted); name == "lines" && (!ok || left.From != 1 || left.To+1 != wire[1].Seq) {
			t.Errorf("got %+v, then %+v", wire[0], wire[1])
		}
	}
}
