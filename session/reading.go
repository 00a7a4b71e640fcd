package session

import (
	"context"
	"io"

	"github.com/turnstone-repl/turnstone/timeline"
)

// A ReadQuery selects a window of a session's events: those after the cursor After, before the
// event Before, and of the turn Turn; zero fields do not restrict it. A page has the oldest of
// these, or with Backward, or with Before and no After, the newest.
type ReadQuery struct {
	After       timeline.Seq `json:"after,omitempty"`
	Before      timeline.Seq `json:"before,omitempty"`
	Turn        uint64       `json:"turn,omitempty"`
	Backward    bool         `json:"backward,omitempty"`
	Limit       int          `json:"limit,omitempty"`        // events, at most MaxReadEvents; 0 means DefaultReadEvents
	Bytes       int64        `json:"bytes,omitempty"`        // approximate maximum of text and data, at most MaxReadBytes; 0 means MaxReadBytes
	InlineBytes int          `json:"inline_bytes,omitempty"` // data with more bytes is left out and named by its digest; from DefaultInlineBytes to MaxInlineBytes
}

// The bounds and defaults of the fields of a ReadQuery.
const (
	DefaultReadEvents, MaxReadEvents   = 200, 2000
	MaxReadBytes                       = 2 << 20
	DefaultInlineBytes, MaxInlineBytes = 4 << 10, 1 << 20
)

// An EventPage is a window of a session's events, in order. Lost events are a timeline.Gap. The
// next page is after Last, and the previous one before First.
type EventPage struct {
	Events     []timeline.Event `json:"events"`
	First      timeline.Seq     `json:"first"`                 // of the events, including those of a gap; 0 if there are none
	Last       timeline.Seq     `json:"last"`                  //
	HasEarlier bool             `json:"has_earlier,omitempty"` // the query matches events before First
	HasLater   bool             `json:"has_later,omitempty"`   // the query matches events after Last
	End        timeline.Seq     `json:"end"`                   // the newest event of the session
}

// A BlobPart is a part of data that a page left out and named by its digest.
type BlobPart struct {
	Data   []byte `json:"data"` // at most MaxPartBytes
	Offset int64  `json:"offset"`
	Bytes  int64  `json:"bytes"` // of the whole data
}

// MaxPartBytes bounds a BlobPart or FilePart, in bytes.
const MaxPartBytes = 1 << 20

// ReadBlob reads all data of a blob that was left out of an event, in parts.
func ReadBlob(ctx context.Context, s Session, b timeline.Blob) ([]byte, error) {
	whole := make([]byte, 0, b.Bytes)
	for int64(len(whole)) < b.Bytes {
		p, err := s.Blob(ctx, b.Digest, int64(len(whole)), 0)
		if err != nil {
			return nil, err
		}
		if len(p.Data) == 0 {
			return nil, io.ErrUnexpectedEOF
		}
		whole = append(whole, p.Data...)
	}
	return whole, nil
}

// A TurnSummariesQuery selects summaries of turns: those with events after the cursor After and
// before the event Before, and with the number From or a higher one; zero fields do not
// restrict it. The answer has the oldest of these, or with Backward, or with Before and no
// After, the newest.
type TurnSummariesQuery struct {
	After    timeline.Seq `json:"after,omitempty"`
	Before   timeline.Seq `json:"before,omitempty"`
	From     uint64       `json:"from,omitempty"`
	Backward bool         `json:"backward,omitempty"`
	Limit    int          `json:"limit,omitempty"` // at most MaxSummaries; 0 means DefaultSummaries
}

// DefaultSummaries and MaxSummaries bound TurnSummariesQuery.Limit.
const DefaultSummaries, MaxSummaries = 500, 5000

// A TurnSummaries lists turns, and the start-ups of workers, in order. To learn what is new,
// ask for the summaries after the cursor End: a turn that was running then is in the answer
// again.
type TurnSummaries struct {
	Turns      []timeline.TurnSummary `json:"turns"`
	HasEarlier bool                   `json:"has_earlier,omitempty"` // the query matches turns before the first
	HasLater   bool                   `json:"has_later,omitempty"`   // the query matches turns after the last
	End        timeline.Seq           `json:"end"`                   // the newest event of the session
}

// A SearchQuery selects lines of the rendered output, of inputs and of answers, except those of
// silent turns. One of Text and Regexp is set.
type SearchQuery struct {
	Text   string `json:"text,omitempty"`   // case is ignored
	Regexp string `json:"regexp,omitempty"` // in the syntax of package regexp
	From   string `json:"from,omitempty"`   // Next of the previous search; "" is the beginning
	Limit  int    `json:"limit,omitempty"`  // matches, at most MaxSearchMatches; 0 means DefaultSearchMatches
}

// DefaultSearchMatches and MaxSearchMatches bound SearchQuery.Limit.
const DefaultSearchMatches, MaxSearchMatches = 100, 1000

// SearchResult has the matches of one search, which covers about 8 MiB or takes up to 0.2 s.
type SearchResult struct {
	Matches []timeline.Match `json:"matches"`
	Next    string           `json:"next,omitempty"` // where to continue; "" when everything was searched
}

// A Tick is a short summary of the current state of a session. It notifies a front end that there
// is something new to read.
type Tick struct {
	Session      string        `json:"session"`
	LastSeq      timeline.Seq  `json:"last_seq"`
	State        State         `json:"state"`
	Generation   uint64        `json:"generation"`
	Turn         uint64        `json:"turn"`                    // the active turn, or the last one
	InputRequest *InputRequest `json:"input_request,omitempty"` // set when State is StateWaiting
	Listener     *Listener     `json:"listener,omitempty"`      // a program that would read keys now; nil if none is seen
	Closed       bool          `json:"closed,omitempty"`        // for good; it is the last tick of the session
}

// Equal reports whether two ticks have the same content.
func (t Tick) Equal(u Tick) bool {
	asks := func(t Tick) timeline.Seq {
		if t.InputRequest == nil {
			return 0
		}
		return t.InputRequest.ID
	}
	listens := func(t Tick) Listener {
		if t.Listener == nil {
			return Listener{}
		}
		return *t.Listener
	}
	if asks(t) != asks(u) || listens(t) != listens(u) {
		return false
	}
	t.InputRequest, u.InputRequest, t.Listener, u.Listener = nil, nil, nil, nil
	return t == u
}
