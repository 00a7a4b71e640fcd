package session

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/timeline/render"
)

// A Result is what became of code that [Run] has run.
type Result struct {
	Turn    uint64           // the number of its turn in the session
	Outcome timeline.Outcome // "" if the turn is not known to be over; then Run has returned an error

	// Text is what the code printed, on both streams in order, as bytes that are usually UTF-8.
	// Echoes of values are in it, except the last.
	Text string
	// Stderr is the part of Text that was printed on standard error.
	Stderr string
	// Value is the last value that the turn echoed, without its final newline: "42". It is "" if
	// there was none.
	Value string
	// Displays are the images, tables and charts, in order and with all their data. An update has
	// replaced the display that it updates.
	Displays []timeline.Display
	// Error is how the code failed. It is nil if the outcome is timeline.OutcomeOK.
	Error *CodeError

	TimedOut bool          // RunOptions.Timeout has interrupted the code
	Notices  []string      // messages of the session, one line each: its sandbox, denied access, limits, why the previous worker ended
	Elapsed  time.Duration // how long the turn ran; 0 if it did not
	LeftOut  LeftOut       // what the Result lacks
}

// LeftOut holds the sizes of the parts that a Result lacks. The zero value means that it is complete.
type LeftOut struct {
	TextBytes    int64 // bytes of text, of the value and of the traceback that were beyond RunOptions.MaxText, or that the session dropped
	Displays     int   // displays that lack data or are missing
	DisplayBytes int64 // bytes of data that they lack
	Notices      int   // notices beyond the first 1000
}

// A CodeError is how code failed: an exception, an interrupt, or the end of its worker.
type CodeError struct {
	Name      string // "ZeroDivisionError", as the language calls it; "Interrupted" if it has no name for an interrupt; "WorkerEnded"
	Message   string // "division by zero"; for WorkerEnded the reason: "exit status 3"
	Traceback string // the report as the language printed it, or what a worker printed that did not start; may be ""
	Ended     bool   // the worker has ended, and all variables are gone; the next input starts another
}

// Error returns the name and the message.
func (e *CodeError) Error() string {
	if e.Message == "" {
		return e.Name
	}
	return e.Name + ": " + e.Message
}

// Err returns Error as an error; nil if the code has succeeded.
func (r *Result) Err() error {
	if r == nil || r.Error == nil {
		return nil
	}
	return r.Error
}

// maxResultChars bounds Result.String, in characters.
const maxResultChars = 20_000

// String returns the result as a model reads it: what the code printed, its value, one line for each
// image, its error, and notices. It has at most 20,000 characters. A line says what was left out.
// See package timeline/render for what is folded.
func (r *Result) String() string {
	if r == nil {
		return ""
	}
	events := r.summaryEvents()
	for budget := maxResultChars; budget > 0; {
		shown := render.Events(events, &render.Options{MaxChars: budget, FoldFrames: true}).Text()
		over := utf8.RuneCountInString(shown) - maxResultChars
		if over <= 0 {
			return shown
		}
		budget -= max(over, maxResultChars/10) // labels come on top of the budget
	}
	return text.Shorten(r.Text, maxResultChars)
}

// summaryEvents returns events from which a reader can be shown the result.
func (r *Result) summaryEvents() []timeline.Event {
	var events []timeline.Event
	add := func(b timeline.Body) { events = append(events, timeline.Event{Turn: r.Turn, Body: b}) }
	for _, notice := range r.Notices {
		add(timeline.Notice{Message: notice})
	}
	add(timeline.Text{Data: []byte(r.Text)})
	if r.Value != "" {
		add(timeline.Text{Kind: timeline.TextResult, Data: []byte(endLine(r.Text) + r.Value + "\n")})
	}
	for _, d := range r.Displays {
		d.Update, d.ID = false, ""
		add(d)
	}
	if e := r.Error; e != nil && e.Traceback != "" {
		add(timeline.Text{Stream: timeline.Stderr, Kind: timeline.TextTraceback, Data: []byte(e.Traceback)})
	} else if e != nil {
		add(timeline.Notice{Message: e.Error()})
	}
	if r.TimedOut {
		add(timeline.Notice{Message: fmt.Sprintf("interrupted after %s: the time limit", text.Duration(r.Elapsed))})
	}
	if left := r.LeftOut.String(); left != "" {
		add(timeline.Notice{Message: "left out: " + left})
	}
	return events
}

// endLine returns the newline that text lacks at its end.
func endLine(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return ""
	}
	return "\n"
}

// String describes what was left out, in words; "" if nothing was.
func (l LeftOut) String() string {
	var parts []string
	if l.TextBytes > 0 {
		parts = append(parts, text.Bytes(l.TextBytes)+" of text")
	}
	if l.Displays > 0 {
		parts = append(parts, fmt.Sprintf("%s of data of %s", text.Bytes(l.DisplayBytes), text.Count(l.Displays, "display")))
	}
	if l.Notices > 0 {
		parts = append(parts, text.Count(l.Notices, "notice"))
	}
	return text.JoinNames(parts, "and", "")
}
