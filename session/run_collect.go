package session

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/timeline"
)

const (
	// maxRunNotices bounds Result.Notices.
	maxRunNotices = 1000

	// maxStartText bounds what a Result has of the text of a worker that did not start, in bytes.
	maxStartText = 16 << 10

	// displayCost counts toward the bound of the displays in addition to their data, in bytes. It
	// is what an empty display needs in memory.
	displayCost = 512
)

// A resultCollector makes a Result from the events of one turn.
type resultCollector struct {
	result     Result
	limit      int // RunOptions.MaxText
	text       boundedText
	stderr     boundedText
	value      boundedText // the last echo
	traceback  boundedText
	startText  boundedText // what the worker wrote while it started
	valueAt    int         // the length of text when the last echo began
	echoOpen   bool        // the last text was a part of that echo
	marked     bool        // the worker marks the beginning of each echo
	started    bool        // the turn has started
	awaitsExit bool        // the worker has ended; the next event says more about that
	exitReason string      // why the last worker before the turn ended

	displayBytes      int  // of the displays, with displayCost
	interruptRecorded bool // the session has recorded an interrupt of the turn
}

// A boundedText keeps the beginning of a text.
type boundedText struct {
	data    []byte
	full    bool
	dropped int64 // bytes that were not kept
}

// add adds text. It keeps at most limit bytes, and no part of a character at their end.
func (t *boundedText) add(b []byte, limit int) {
	if !t.full {
		n := min(len(b), limit-len(t.data))
		t.data = append(t.data, b[:n]...)
		if n == len(b) {
			return
		}
		t.full = true
		if !utf8.RuneStart(b[n]) {
			n -= t.cutPartialRune()
		}
		b = b[max(n, 0):]
		t.dropped -= int64(min(n, 0)) // characters that began before b
	}
	t.dropped += int64(len(b))
}

// cutPartialRune removes the beginning of a character from the end, and returns its length.
func (t *boundedText) cutPartialRune() int {
	for n := 1; n < utf8.UTFMax && n <= len(t.data); n++ {
		if c := t.data[len(t.data)-n]; utf8.RuneStart(c) {
			if c < utf8.RuneSelf {
				return 0 // what follows is not UTF-8
			}
			t.data = t.data[:len(t.data)-n]
			return n
		}
	}
	return 0
}

// addText adds output of the turn.
func (c *resultCollector) addText(b timeline.Text) {
	switch b.Kind {
	case timeline.TextResult:
		c.addEcho(b)
		return
	case timeline.TextTraceback:
		c.traceback.add(b.Data, c.limit)
	default:
		c.text.add(b.Data, c.limit)
		if b.Stream == timeline.Stderr {
			c.stderr.add(b.Data, c.limit)
		}
	}
	c.echoOpen = false
}

// addEcho adds a part of the echo of a value. If the worker does not mark where an echo begins, one
// begins behind other output.
func (c *resultCollector) addEcho(b timeline.Text) {
	c.marked = c.marked || b.Begins
	if b.Begins || !c.marked && !c.echoOpen {
		c.moveEchoToText()
		c.valueAt = len(c.text.data)
	}
	c.echoOpen = true
	c.value.add(b.Data, c.limit)
}

// moveEchoToText makes the last echo a part of the text, because another follows.
func (c *resultCollector) moveEchoToText() {
	kept := boundedText{dropped: c.value.dropped}
	kept.add(c.value.data, c.limit-len(c.text.data))
	c.text.data = slices.Insert(c.text.data, c.valueAt, kept.data...)
	c.text.dropped += kept.dropped
	c.value = boundedText{data: c.value.data[:0]}
}

// hasRoom reports whether all data of a display would be kept.
func (c *resultCollector) hasRoom(d timeline.Display) bool {
	return d.TotalBytes()+omittedBytes(d) <= int64(c.limit-c.displayBytes-displayCost)
}

func omittedBytes(d timeline.Display) (n int64) {
	for _, blob := range d.Omitted {
		n += blob.Bytes
	}
	return n
}

// addDisplay adds a display, or replaces the one that it updates. It keeps the types that fit.
func (c *resultCollector) addDisplay(d timeline.Display) {
	c.echoOpen = false
	at := -1
	if d.Update && d.ID != "" {
		at = slices.IndexFunc(c.result.Displays, func(old timeline.Display) bool { return old.ID == d.ID })
	}
	if at >= 0 {
		old := c.result.Displays[at]
		c.displayBytes -= displayCost + int(old.TotalBytes())
		c.countOmitted(old, -1)
	}
	room := c.limit - c.displayBytes - displayCost
	if room < 0 && at < 0 {
		c.result.LeftOut.Displays++
		c.result.LeftOut.DisplayBytes += d.TotalBytes() + omittedBytes(d)
		return
	}
	d = d.TruncateTo(int64(max(room, 0)))
	c.displayBytes += displayCost + int(d.TotalBytes())
	c.countOmitted(d, 1)
	if at >= 0 {
		c.result.Displays[at] = d
	} else {
		c.result.Displays = append(c.result.Displays, d)
	}
}

// countOmitted counts what a display lacks; sign is -1 for one that is replaced.
func (c *resultCollector) countOmitted(d timeline.Display, sign int) {
	if len(d.Omitted) > 0 {
		c.result.LeftOut.Displays += sign
		c.result.LeftOut.DisplayBytes += int64(sign) * omittedBytes(d)
	}
}

// addExit adds the end of a worker: of the one before, or of the one that ran the turn.
func (c *resultCollector) addExit(b timeline.WorkerExited) {
	if !c.awaitsExit {
		c.exitReason = b.FullReason()
		c.addNotice(b.Report("session restarted"))
	} else if b.PeakRSSBytes > 0 && !b.Clean {
		c.result.Error.Message += "; peak memory " + text.Bytes(b.PeakRSSBytes)
	}
}

// addOther adds any other event.
func (c *resultCollector) addOther(e timeline.Event) {
	switch b := e.Body.(type) {
	case timeline.Gap:
		c.text.dropped += b.Bytes
	case timeline.Notice:
		c.addNotice(b.Message)
	case timeline.AccessDenied:
		c.addNotice(b.NoticeText())
	case timeline.AccessGranted:
		c.addNotice(b.NoticeText())
	case timeline.Limit:
		c.addNotice(b.String())
	}
}

func (c *resultCollector) addNotice(message string) {
	if len(c.result.Notices) == maxRunNotices {
		c.result.LeftOut.Notices++
		return
	}
	c.result.Notices = append(c.result.Notices, message)
}

// endTurn notes how the turn ended.
func (c *resultCollector) endTurn(b timeline.TurnEnded) {
	c.result.Outcome, c.result.Elapsed = b.Outcome, b.Elapsed
	switch b.Outcome {
	case timeline.OutcomeOK:
	case timeline.OutcomeEnded:
		c.awaitsExit = c.started
		c.result.Error = &CodeError{Name: "WorkerEnded", Message: cmp.Or(b.Message, "its worker ended before it ran"), Ended: true}
	case timeline.OutcomeInterrupted:
		c.result.Error = &CodeError{Name: cmp.Or(b.Name, "Interrupted"), Message: b.Message}
	default:
		c.result.Error = &CodeError{Name: b.Name, Message: b.Message}
	}
}

// complete fills in what is known once no more events come.
func (c *resultCollector) complete(turn uint64, timedOut bool) {
	r := &c.result
	r.Turn, r.TimedOut = turn, timedOut
	r.Text, r.Stderr = string(c.text.data), string(c.stderr.data)
	r.Value = strings.TrimSuffix(string(c.value.data), "\n")
	if r.Error != nil {
		r.Error.Traceback = string(c.traceback.data)
		if !c.started {
			r.Error.Traceback = string(c.startText.data)
		}
	}
	r.LeftOut.TextBytes = c.text.dropped + c.value.dropped + c.traceback.dropped
}
