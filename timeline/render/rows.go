package render

import (
	"fmt"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/timeline/internal/screen"
)

// A renderRow is a line of a rendering and the number of identical lines that directly follow
// it.
type renderRow struct {
	kind        rowKind
	displayID   string // of the display that it shows; an update removes it
	stream      timeline.Stream
	noNewline   bool // its newline was not printed by the runtime
	markStderr  bool // to be marked as standard error
	from, to    int  // its text in renderer.Out
	repeats     int  // number of equal lines
	lineNumber  int  // in the output file; 0 when unknown
	image       *timeline.Image
	omitted     omission // for an omittedRow or a noteRow: the lines that it replaces
	replacement string   // the shortened text of a very long line, or the text of a noteRow
	isLossy     bool     // for a noteRow: it does not show everything that it replaces
}

type rowKind uint8

const (
	textRow rowKind = iota
	labelRow
	imageRow
	omittedRow
	noteRow // a line added by the renderer, without brackets
)

// A renderer collects rows, chooses which of them are shown, and writes them.
type renderer struct {
	screen.LinePrinter
	opts       Options
	generation uint64 // of the last event
	rows       []renderRow

	takenBytes int             // bytes of Out that are already in rows
	lineStream timeline.Stream // stream written last; a line belongs to the stream that finishes it
	lineNumber int             // of the unfinished line in the output file; 0 when unknown
	turnRows   int             // index of the first row of this turn

	hasOutput      bool            // there was output after the last turn's label and before the next turn
	betweenLabeled bool            // output between turns has its label
	displayID      string          // ID of the display whose rows are being added
	displayIDs     map[string]bool // of displays in rows
	inRedraw       bool            // the remainder of a redrawn line comes next
	exitShown      bool            // the exit of a worker has been shown
}

func (r *renderer) rowText(w *renderRow) []byte { return r.Out[w.from:w.to] }

const stderrPrefix = "[stderr] "

// minRepeatedLines is the number of equal lines that are folded. Fewer lines are quickly read,
// and a reader may want to copy them.
const minRepeatedLines = 10

// lineText returns the text of a row without its newline.
func (r *renderer) lineText(w *renderRow) string {
	s := w.replacement
	if s == "" {
		s = string(r.rowText(w))
	}
	if w.markStderr {
		s = stderrPrefix + s
	}
	return s
}

// charCount returns the number of characters in a row.
func (r *renderer) charCount(w *renderRow) int {
	switch w.kind {
	case noteRow:
		return utf8.RuneCountInString(w.replacement) + 1
	case imageRow, omittedRow:
		return 0
	case textRow, labelRow:
	}
	n := utf8.RuneCountInString(w.replacement)
	if w.replacement == "" {
		n = utf8.RuneCount(r.rowText(w))
	}
	if w.markStderr {
		n += len(stderrPrefix)
	}
	n++ // the newline
	if w.repeats < minRepeatedLines {
		return n * w.repeats
	}
	return n + utf8.RuneCountInString(repeatLine(w.repeats))
}

func repeatLine(times int) string { return fmt.Sprintf("… %d times in all\n", times) }

// asOmission returns a row as an omission.
func (r *renderRow) asOmission() omission {
	e := omission{bytes: int64((r.to - r.from + 1) * r.repeats)}
	if r.lineNumber == 0 {
		e.unnumberedLines = r.repeats
	} else {
		e.firstLine, e.lastLine = r.lineNumber, r.lineNumber+r.repeats-1
	}
	return e
}
