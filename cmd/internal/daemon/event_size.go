package daemon

import (
	"encoding/json"
	"slices"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// maxDisplayBytes bounds the data of a display in an answer, in bytes. Larger types are only
// named.
const maxDisplayBytes = 8 << 20

// trimReply limits the events of a reply to what fits on one line.
func trimReply(r session.Reply) session.Reply {
	r.Events = fitEvents(r.Events)
	return r
}

// fitEvents returns the events as a reply has them. It replaces the oldest ones by one Omitted
// event if they would not fit on one line.
func fitEvents(events []timeline.Event) []timeline.Event {
	wire := make([]timeline.Event, 0, len(events))
	raw := 0
	for _, e := range events {
		e = eventToSend(e)
		wire = append(wire, e)
		raw += estimateEventSize(e)
	}
	if raw <= maxReplyBytes/maxEscapeFactor {
		return wire
	}
	room := maxReplyBytes
	for i, e := range slices.Backward(wire) {
		b, err := json.Marshal(e)
		if shown, ok := e.Body.(timeline.Display); ok && err == nil && len(b) > room {
			wire[i].Body = shown.TruncateTo(0)
			b, err = json.Marshal(wire[i])
		}
		if room -= len(b); err != nil || room < 0 {
			left := timeline.Omitted{From: wire[0].Seq, To: e.Seq}
			for _, gone := range wire[:i+1] {
				left.Bytes += int64(dataSize(gone))
			}
			return append([]timeline.Event{{Seq: e.Seq, Turn: e.Turn, Body: left}}, wire[i+1:]...)
		}
	}
	return wire
}

const (
	// maxReplyBytes bounds the encoded events of an answer, in bytes, so that the answer fits on
	// one line.
	maxReplyBytes = 14 << 20

	// maxEscapeFactor is the largest factor by which JSON can lengthen a text.
	maxEscapeFactor = 6
)

// dataSize returns the size of the text or the display of an event, in bytes.
func dataSize(e timeline.Event) int {
	switch b := e.Body.(type) {
	case timeline.Text:
		return len(b.Data)
	case timeline.Display:
		return int(b.TotalBytes())
	case timeline.InputLine:
		return len(b.Text)
	}
	return 0
}

// estimateEventSize estimates the encoded size of an event, in bytes.
func estimateEventSize(e timeline.Event) int {
	const rest = 200
	switch b := e.Body.(type) {
	case timeline.TurnStarted:
		return len(b.Input) + rest
	case timeline.Notice:
		return len(b.Message) + rest
	case timeline.TurnEnded:
		return len(b.Message) + len(b.Prompt) + rest
	case timeline.InputRequested:
		return len(b.Prompt) + len(b.Denied.Path) + len(b.Denied.Host) + rest
	case timeline.AccessDenied:
		return len(b.Path) + len(b.Host) + rest
	case timeline.AccessGranted:
		return len(b.Write) + len(b.Host) + rest
	}
	return dataSize(e)*4/3 + rest
}

// eventToSend returns an event as clients get it: types of a display that would not fit on one line
// are only named.
func eventToSend(e timeline.Event) timeline.Event {
	if shown, ok := e.Body.(timeline.Display); ok {
		e.Body = fitDisplay(shown)
	}
	return e
}

// fitDisplay drops the data of the largest types of a display, until the rest fits on one line.
func fitDisplay(d timeline.Display) timeline.Display {
	for most := int64(maxDisplayBytes); ; most /= 2 {
		d = d.TruncateTo(most)
		if d.TotalBytes() <= maxDisplayBytes/maxEscapeFactor {
			return d
		}
		if b, err := json.Marshal(timeline.Event{Body: d}); err == nil && len(b) <= maxReplyBytes {
			return d
		}
	}
}
