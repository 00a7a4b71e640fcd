package render

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/timeline/internal/screen"
)

// Options bound a rendering and adapt it to its reader.
type Options struct {
	// MaxChars bounds the text, in characters. 0 means 20,000. The newest 20 labels of omitted
	// text are kept in addition.
	MaxChars int
	// OutputPath is the file named where text is omitted. "" names none.
	OutputPath string
	// Self is the author who reads the rendering. The actions of other authors get a label.
	Self string
	// FoldFrames leaves out library frames in Python tracebacks, except the first of each run
	// and the last of all, and the worker's frames in the stacks of faults.
	FoldFrames bool
}

// A Rendering is the text and the images that a model reads.
type Rendering struct {
	// Parts are text and images in order; adjacent text is one part. Text ends with a newline
	// only if the runtime's last line did, or if it is a label; a front end may strip it.
	Parts   []Part
	Omitted bool // text was left out; a file has or had it
	Chars   int  // of text
}

// A Part is text or an image: exactly one is set.
type Part struct {
	Text  string
	Image *timeline.Image
}

// Text returns all text joined, with images as "[image: title, W x H, bytes]".
func (r Rendering) Text() string {
	var b strings.Builder
	for _, p := range r.Parts {
		if p.Image == nil {
			b.WriteString(p.Text)
			continue
		}
		if s := b.String(); s != "" && !strings.HasSuffix(s, "\n") {
			b.WriteByte('\n')
		}
		b.WriteString(screen.LabelLine(p.Image.Label()) + "\n")
	}
	return b.String()
}

// Events renders events for a model. nil means all defaults.
//
// Text is shown as a terminal would finally show it: \r and \b are applied, colours and other
// escape sequences are dropped, and bytes that are not text are shown as \xNN. Ten or more
// identical lines become the line and "… N times in all". So do four or more identical groups
// of two to four lines. Where the streams of a turn alternate, lines of standard error are
// marked, except at the turn's end, where an error needs no mark. Input is not shown, except
// one line of each input by an author other than Self.
//
// When the text exceeds the budget, a third of the budget goes to its beginning and two thirds
// to its end. One line between them says what is missing and where it is. Every other notable
// event is one bracketed line.
//
// A display is shown as its image or as text; see timeline.Display.Text. An update replaces all
// earlier displays with its ID. Unseen events are left out.
func Events(events []timeline.Event, opts *Options) Rendering {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.MaxChars <= 0 {
		o.MaxChars = 20000
	}
	r := renderer{opts: o}
	if len(events) > 0 {
		r.generation = events[len(events)-1].Generation
	}
	for i, e := range events {
		if b, ok := e.Body.(timeline.Omitted); ok && r.isRedrawn(b, events[i+1:]) {
			r.Write(int(r.lineStream), []byte(eraseLine))
			r.inRedraw = true
			continue
		}
		r.addEvent(e)
	}
	r.finishRows()
	r.fitBudget()
	return r.composeParts()
}

// addEvent adds the rows of an event, unless it is unseen.
func (r *renderer) addEvent(e timeline.Event) {
	if e.IsUnseen() {
		return
	}
	switch b := e.Body.(type) {
	case timeline.Text:
		r.addText(e, b)
	case timeline.Display:
		r.addDisplay(e, b)
	case timeline.TurnStarted:
		r.startTurn(e, b)
	case timeline.TurnEnded:
		r.EndTurn()
		r.closeLine()
		r.closeTurn()
	case timeline.Notice:
		r.addLabel(b.Message, e.Line)
	case timeline.Limit:
		r.addLabel(b.String(), e.Line)
	case timeline.AccessDenied:
		r.addLabel(b.NoticeText(), e.Line)
	case timeline.AccessGranted:
		r.addLabel(b.NoticeText(), e.Line)
	case timeline.Call:
		r.addLabel(b.String(), e.Line)
	case timeline.Interrupt:
		if b.Author != "" && b.Author != r.opts.Self {
			r.addLabel("interrupted by "+b.Author, 0)
		}
	case timeline.WorkerStarted:
		if e.Generation > 1 && !r.exitShown {
			r.addLabel("session restarted: state lost", 0)
		}
	case timeline.WorkerExited:
		r.addExit(e, b)
	case timeline.Gap:
		r.Flush()
		r.addLabel(b.NoticeText(), 0)
		r.lineNumber = 0
	case timeline.Omitted:
		if b.Bytes == 0 {
			return // only old structural events follow
		}
		r.Flush()
		r.breakRow()
		r.lineNumber = 0
		r.rows = append(r.rows, renderRow{kind: omittedRow, omitted: omission{b.FirstLine, b.LastLine, 0, b.Bytes}})
	case timeline.InputLine:
		r.addInputLine(b)
	case timeline.InputRequested:
		r.AwaitsInput = b.Kind.WantsLine()
	case timeline.Preparation, timeline.Progress, timeline.InputRequestEnded, timeline.OutputCleared, timeline.FullScreenChanged: // relevant only while they last
	}
}

// addText adds output. The remainder of a redrawn line is dropped.
func (r *renderer) addText(e timeline.Event, b timeline.Text) {
	if r.inRedraw {
		_, rest, found := bytes.Cut(b.Data, carriageReturn)
		r.inRedraw = !found
		b.Data = rest
	}
	if len(b.Data) == 0 {
		return
	}
	r.beginOutput(e)
	r.lineStream = b.Stream
	r.Write(int(b.Stream), b.Data)
	r.takeRows(textRow)
	r.hasOutput = true
}

// startTurn ends the rows of the turn before, and labels the new one if readers could confuse the
// two.
func (r *renderer) startTurn(e timeline.Event, b timeline.TurnStarted) {
	r.betweenLabeled = false
	r.closeTurn()
	switch {
	case b.Author != "" && b.Author != r.opts.Self:
		r.addLabel(fmt.Sprintf("turn %d by %s", e.Turn, b.Author)+quoteInput(string(b.Input)), 0)
	case r.hasOutput && e.Turn > 0:
		r.addLabel(fmt.Sprintf("turn %d", e.Turn), 0)
	}
	r.hasOutput = false
}

// addExit adds the exit report of a worker.
func (r *renderer) addExit(e timeline.Event, b timeline.WorkerExited) {
	r.EndTurn()
	what := "session ended"
	if e.Generation < r.generation {
		what = "session restarted"
	}
	r.addLabel(b.Report(what), e.Line)
	r.exitShown = true
	r.closeTurn()
}

// addInputLine adds an answered prompt, and the answer if another author gave it. Keys do not end
// the line: the program itself shows what it makes of them.
func (r *renderer) addInputLine(b timeline.InputLine) {
	if b.Keys {
		r.AwaitsInput = false
	} else {
		r.EndInputLine(b.Prompt)
		r.takeRows(textRow)
	}
	switch {
	case b.Author == "" || b.Author == r.opts.Self:
	case b.Keys:
		b.Text = text.Shorten(b.Text, maxQuotedChars)
		r.addLabel(b.NoticeText(), 0)
	case b.Secret:
		r.addLabel("a secret typed by "+b.Author, 0)
	default:
		r.addLabel("typed by "+b.Author+quoteInput(b.Text), 0)
	}
}

// maxQuotedChars bounds, in characters, the quotation of another author's input.
const maxQuotedChars = 200

// quoteInput shortens an input for a label: its first line, and the number of further lines.
func quoteInput(input string) string {
	input = strings.TrimRight(input, "\r\n")
	if input == "" {
		return ""
	}
	line, rest, more := strings.Cut(input, "\n")
	line = text.Shorten(line, maxQuotedChars)
	if more {
		line += fmt.Sprintf(" (+%d lines)", strings.Count(rest, "\n")+1)
	}
	return ": " + line
}

var (
	carriageReturn = []byte("\r")
	eraseLine      = "\r\x1b[2K"
)

// isRedrawn reports whether the omitted text was only earlier states of a line, such as a
// progress bar, that is redrawn after it. A terminal would no longer show them.
func (r *renderer) isRedrawn(b timeline.Omitted, behind []timeline.Event) bool {
	if b.FirstLine == 0 || b.FirstLine != b.LastLine || !r.HasOpenLine() || !r.LineRewritten {
		return false
	}
	for _, e := range behind {
		switch next := e.Body.(type) {
		case timeline.Text:
			i := bytes.IndexAny(next.Data, "\r\n")
			if i < 0 {
				continue
			}
			end := next.Data[i:]
			return end[0] == '\r' && !bytes.HasPrefix(end, []byte("\r\n"))
		case timeline.Progress:
		default:
			return false
		}
	}
	return false
}

// beginOutput prepares for output and labels output between turns.
func (r *renderer) beginOutput(e timeline.Event) {
	if e.BetweenTurns && !r.betweenLabeled {
		since := fmt.Sprintf("turn %d", e.Turn)
		if e.Turn == 0 {
			since = "start-up"
		}
		r.addLabel("output since "+since+" ended", 0)
	}
	r.betweenLabeled = e.BetweenTurns
	if e.Line > 0 {
		r.lineNumber = e.Line
	}
}

// breakRow ends the last line if it has text.
func (r *renderer) breakRow() {
	r.BreakLine()
	r.takeRows(textRow)
}

// closeLine is like breakRow, but if nothing follows, the line has no newline.
func (r *renderer) closeLine() {
	if !r.HasOpenLine() {
		return
	}
	r.breakRow()
	last := &r.rows[len(r.rows)-1]
	last.noNewline = last.repeats == 1
}

// addLabel adds a bracketed line. number is its line in the output file, or 0 if it is not
// there.
func (r *renderer) addLabel(text string, number int) {
	if r.HasOpenLine() && number > 0 {
		number++
	}
	r.breakRow()
	known := r.lineNumber
	r.lineNumber = number
	r.PrintLabel(text)
	r.takeRows(labelRow)
	if number == 0 {
		r.lineNumber = known
	}
}

// takeRows turns finished lines into rows.
func (r *renderer) takeRows(kind rowKind) {
	for {
		n := bytes.IndexByte(r.Out[r.takenBytes:], '\n')
		if n < 0 {
			return
		}
		next := renderRow{kind: kind, displayID: r.displayID, stream: r.lineStream, from: r.takenBytes, to: r.takenBytes + n, repeats: 1, lineNumber: r.lineNumber}
		r.takenBytes += n + 1
		if r.lineNumber > 0 {
			r.lineNumber++
		}
		if !r.countRepeat(&next) {
			r.rows = append(r.rows, next)
		}
	}
}

// countRepeat counts a row as a repetition if it equals the last one, and reports whether it
// did.
func (r *renderer) countRepeat(next *renderRow) bool {
	if next.kind != textRow || len(r.rows) <= r.turnRows {
		return false
	}
	last := &r.rows[len(r.rows)-1]
	if last.displayID != next.displayID || last.kind != textRow || last.stream != next.stream || !bytes.Equal(r.rowText(last), r.rowText(next)) {
		return false
	}
	last.repeats++
	return true
}

// addDisplay adds an image or text, and removes the displays that it updates.
func (r *renderer) addDisplay(e timeline.Event, d timeline.Display) {
	image, text := d.TitledImage(), d.Text()
	if image == nil && text == "" {
		return
	}
	r.beginOutput(e)
	r.breakRow()
	if d.Update && r.displayIDs[d.ID] {
		before := len(r.rows)
		r.rows = slices.DeleteFunc(r.rows, func(w renderRow) bool { return w.displayID == d.ID })
		r.turnRows = max(0, r.turnRows-(before-len(r.rows)))
	}
	if d.ID != "" {
		if r.displayIDs == nil {
			r.displayIDs = make(map[string]bool)
		}
		r.displayIDs[d.ID] = true
	}
	r.displayID = d.ID
	if image != nil {
		r.rows = append(r.rows, renderRow{kind: imageRow, displayID: d.ID, image: image})
		if r.lineNumber > 0 {
			r.lineNumber++ // the output file has a label
		}
	} else {
		r.lineStream = timeline.Stdout
		r.PrintParagraph(text)
		r.takeRows(textRow)
	}
	r.displayID = ""
	r.hasOutput = true
}

// finishRows turns the unfinished line into a row.
func (r *renderer) finishRows() {
	r.Flush()
	r.closeLine()
	r.closeTurn()
}

// closeTurn marks standard error in the rows of the turn if the streams alternate, except in the
// last run, which may be a traceback. An unfinished line, such as a running progress bar, does not
// count as a run. After that it folds repeated lines and library frames.
func (r *renderer) closeTurn() {
	rows := r.rows[r.turnRows:]
	runs, last := 0, 0 // number of runs of one stream, and start of the last run
	var stream timeline.Stream
	for i, w := range rows {
		if w.kind == textRow && (runs == 0 || w.stream != stream) {
			runs, last, stream = runs+1, i, w.stream
		}
	}
	if n := len(rows); n > 0 && rows[n-1].noNewline {
		last = n
	}
	if runs >= 3 {
		for i := range rows[:last] {
			w := &rows[i]
			w.markStderr = w.kind == textRow && w.stream == timeline.Stderr
		}
	}
	if r.opts.FoldFrames {
		rows = r.foldFrames(rows)
	}
	r.rows = append(r.rows[:r.turnRows], r.foldPeriods(rows)...)
	r.turnRows = len(r.rows)
}

// composeParts writes the rows into the parts of the rendering.
func (r *renderer) composeParts() Rendering {
	var out Rendering
	var b strings.Builder
	end := func() {
		if b.Len() > 0 {
			out.Chars += utf8.RuneCountInString(b.String())
			out.Parts = append(out.Parts, Part{Text: b.String()})
			b.Reset()
		}
	}
	for i := range r.rows {
		w := &r.rows[i]
		out.Omitted = out.Omitted || w.kind == omittedRow || w.isLossy || w.kind == textRow && w.replacement != ""
		switch w.kind {
		case imageRow:
			end()
			out.Parts = append(out.Parts, Part{Image: w.image})
		case omittedRow:
			b.WriteString(w.omitted.noticeText(r.opts.OutputPath))
		case noteRow:
			b.WriteString(w.replacement + "\n")
		case textRow, labelRow:
			s := r.lineText(w)
			shown := w.repeats
			if shown >= minRepeatedLines {
				shown = 1
			}
			for range shown {
				b.WriteString(s)
				if !w.noNewline || i < len(r.rows)-1 {
					b.WriteByte('\n')
				}
			}
			if w.repeats >= minRepeatedLines {
				b.WriteString(repeatLine(w.repeats))
			}
		}
	}
	end()
	return out
}
