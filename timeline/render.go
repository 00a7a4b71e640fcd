package timeline

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// RenderOptions bound a rendering and adapt it to its reader.
type RenderOptions struct {
	// MaxChars bounds the text, in characters. 0 means 20,000. The newest 20 labels
	// in elided text are kept beyond it.
	MaxChars int
	// OutputPath is the file that is named where text is elided. "" names none.
	OutputPath string
	// Self is the author who reads. The actions of other authors get a label.
	Self string
	// FoldFrames leaves out the frames of libraries in Python's tracebacks, except the
	// first of each run and the last of all, and the worker's frames in the stacks of
	// faults.
	FoldFrames bool
}

// A Rendering is the text and the images that a model reads.
type Rendering struct {
	// Parts are text and images in order; adjacent text is one part. Text ends
	// with a newline exactly if the runtime's last line did, or if it is a label;
	// a front end may strip it.
	Parts  []Part
	Elided bool // text was left out; a file has it, or had it
	Chars  int  // of text
}

// A Part is text or an image: exactly one is set.
type Part struct {
	Text  string
	Image *Image
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
		b.WriteString(bracketed(imageLabel(p.Image)) + "\n")
	}
	return b.String()
}

// Render makes events readable for a model. nil means all defaults.
//
// Text is shown as it would finally look on a terminal: \r and \b are applied, colours
// and other escape sequences are dropped, and bytes that are not text are shown as \xNN.
// Ten or more identical lines become the line and "… N times in all". So do four or more
// identical groups of two to four lines. Where the streams of a turn alternate, lines of
// standard error are marked, except at the turn's end, where an error speaks for itself.
// Input is not shown, except one line of each input by another author than Self.
//
// When the text is larger than the budget, a third of the budget goes to its beginning
// and two thirds to its end. One line between them says what is missing and where it is.
// Every other event worth knowing is one bracketed line.
//
// A display is its picture, or else its text, see Display.Text. An update replaces all earlier
// displays of its ID. Events that are Unseen are left out.
func Render(events []Event, opts *RenderOptions) Rendering {
	var o RenderOptions
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
		if b, ok := e.Body.(Elided); ok && r.redraws(b, events[i+1:]) {
			r.write(r.lineStream, []byte(eraseLine))
			r.midFrame = true
			continue
		}
		r.add(e)
	}
	r.finish()
	r.fit()
	return r.compose()
}

// A row is a line of a rendering, with equal lines that directly follow it.
type row struct {
	kind     rowKind
	id       string // of the display that it shows; an update removes it
	stream   Stream
	open     bool // its newline was not printed by the runtime
	marked   bool // to be marked as standard error
	from, to int  // its text in renderer.out
	times    int  // number of equal lines
	number   int  // in the output file; 0 when unknown
	image    *Image
	elided   elision // of an elidedRow or a noteRow: the lines that it replaces
	cut      string  // replaces the text of a very long line; the text of a noteRow
	lost     bool    // of a noteRow: it does not show everything that it replaces
}

type rowKind uint8

const (
	textRow rowKind = iota
	labelRow
	imageRow
	elidedRow
	noteRow // a line of our own, without brackets
)

// A renderer collects rows, chooses which of them are shown, and writes them.
type renderer struct {
	page
	opts       RenderOptions
	generation uint64 // of the last event
	rows       []row

	taken      int    // bytes of out that are in rows already
	lineStream Stream // written last: a line belongs to the stream that finishes it
	number     int    // of the unfinished line in the output file; 0 when unknown
	turnRows   int    // where the rows of this turn begin

	printed  bool            // there was output since the last turn's label, before the next turn
	between  bool            // output between turns has its label
	id       string          // of the display whose rows are taken
	ids      map[string]bool // of displays in rows
	midFrame bool            // the rest of one drawing of a redrawn line comes next
	ended    bool            // the end of a worker has been shown
}

func (r *renderer) add(e Event) {
	if e.Unseen() {
		return
	}
	switch b := e.Body.(type) {
	case Text:
		if r.midFrame {
			_, rest, found := bytes.Cut(b.Data, carriageReturn)
			r.midFrame = !found
			b.Data = rest
			e.Body = b
		}
		if len(b.Data) == 0 {
			return
		}
		r.begin(e)
		r.lineStream = b.Stream
		r.print(e)
		r.take(textRow)
		r.printed = true
	case Display:
		r.addDisplay(e, b)
	case TurnStarted:
		r.between = false
		r.closeTurn()
		switch {
		case b.Author != "" && b.Author != r.opts.Self:
			r.label(fmt.Sprintf("turn %d by %s", e.Turn, b.Author)+quoted(string(b.Input)), 0)
		case r.printed && e.Turn > 0:
			r.label(fmt.Sprintf("turn %d", e.Turn), 0)
		}
		r.printed = false
	case TurnEnded:
		r.endTurn()
		r.closeLine()
		r.closeTurn()
	case Notice:
		r.label(b.Message, e.Line)
	case Limit:
		r.label(b.String(), e.Line)
	case Denied:
		r.label(b.text(), e.Line)
	case Granted:
		r.label(b.text(), e.Line)
	case Call:
		r.label(b.String(), e.Line)
	case Interrupt:
		if b.Author != "" && b.Author != r.opts.Self {
			r.label("interrupted by "+b.Author, 0)
		}
	case GenerationStarted:
		if e.Generation > 1 && !r.ended {
			r.label("session restarted: state lost", 0)
		}
	case GenerationEnded:
		r.endTurn()
		what := "session ended"
		if e.Generation < r.generation {
			what = "session restarted"
		}
		r.label(deathReport(what, b), e.Line)
		r.ended = true
		r.closeTurn()
	case Gap:
		r.flush()
		r.label(gapLabel(b), 0)
		r.number = 0
	case Elided:
		if b.Bytes == 0 {
			return // old structural events only
		}
		r.flush()
		r.breakHere()
		r.number = 0
		r.rows = append(r.rows, row{kind: elidedRow, elided: elision{b.FirstLine, b.LastLine, 0, b.Bytes}})
	case InputLine:
		r.print(e)
		r.take(textRow)
		switch {
		case b.Author == "" || b.Author == r.opts.Self:
		case b.Secret:
			r.label("a secret typed by "+b.Author, 0)
		default:
			r.label("typed by "+b.Author+quoted(b.Text), 0)
		}
	case Wait, WaitEnded, Progress:
		r.print(e)
		r.take(textRow)
	case Preparation, Clear, Screen: // of interest while it lasts
	}
}

// maxQuoted bounds, in characters, the quotation of another author's input.
const maxQuoted = 200

// quoted shortens an input for a label: its first line, and how many follow.
func quoted(input string) string {
	input = strings.TrimRight(input, "\r\n")
	if input == "" {
		return ""
	}
	line, rest, more := strings.Cut(input, "\n")
	if runes := []rune(line); len(runes) > maxQuoted {
		line = string(runes[:maxQuoted]) + "…"
	}
	if more {
		line += fmt.Sprintf(" (+%d lines)", strings.Count(rest, "\n")+1)
	}
	return ": " + line
}

var (
	carriageReturn = []byte("\r")
	eraseLine      = "\r\x1b[2K"
)

// redraws reports whether the elided text was only earlier drawings of a line, such as a
// progress bar, that is drawn again after it. A terminal would no longer show them.
func (r *renderer) redraws(b Elided, behind []Event) bool {
	if b.FirstLine == 0 || b.FirstLine != b.LastLine || !r.open() || !r.rewritten {
		return false
	}
	for _, e := range behind {
		switch next := e.Body.(type) {
		case Text:
			i := bytes.IndexAny(next.Data, "\r\n")
			if i < 0 {
				continue
			}
			end := next.Data[i:]
			return end[0] == '\r' && !bytes.HasPrefix(end, []byte("\r\n"))
		case Progress:
		default:
			return false
		}
	}
	return false
}

// begin prepares for output, and labels output between turns.
func (r *renderer) begin(e Event) {
	if e.Between && !r.between {
		since := fmt.Sprintf("turn %d", e.Turn)
		if e.Turn == 0 {
			since = "start-up"
		}
		r.label("output since "+since+" ended", 0)
	}
	r.between = e.Between
	if e.Line > 0 {
		r.number = e.Line
	}
}

// breakHere finishes the last line if it has text.
func (r *renderer) breakHere() {
	r.breakLine()
	r.take(textRow)
}

// closeLine is like breakHere, but if nothing follows, the line stays without its
// newline.
func (r *renderer) closeLine() {
	if !r.open() {
		return
	}
	r.breakHere()
	last := &r.rows[len(r.rows)-1]
	last.open = last.times == 1
}

// label adds a bracketed line. number is its line in the output file, 0 if it is not
// there.
func (r *renderer) label(text string, number int) {
	if r.open() && number > 0 {
		number++
	}
	r.breakHere()
	known := r.number
	r.number = number
	r.page.label(text)
	r.take(labelRow)
	if number == 0 {
		r.number = known
	}
}

// take makes rows of the lines that have been finished.
func (r *renderer) take(kind rowKind) {
	for {
		n := bytes.IndexByte(r.out[r.taken:], '\n')
		if n < 0 {
			return
		}
		next := row{kind: kind, id: r.id, stream: r.lineStream, from: r.taken, to: r.taken + n, times: 1, number: r.number}
		r.taken += n + 1
		if r.number > 0 {
			r.number++
		}
		if !r.repeats(&next) {
			r.rows = append(r.rows, next)
		}
	}
}

// repeats counts a row that is equal to the last one.
func (r *renderer) repeats(next *row) bool {
	if next.kind != textRow || len(r.rows) <= r.turnRows {
		return false
	}
	last := &r.rows[len(r.rows)-1]
	if last.id != next.id || last.kind != textRow || last.stream != next.stream || !bytes.Equal(r.rowText(last), r.rowText(next)) {
		return false
	}
	last.times++
	return true
}

func (r *renderer) rowText(w *row) []byte { return r.out[w.from:w.to] }

// addDisplay adds a picture or a text, and drops those that it updates.
func (r *renderer) addDisplay(e Event, d Display) {
	image, text := d.image(), d.Text()
	if image == nil && text == "" {
		return
	}
	r.begin(e)
	r.breakHere()
	if d.Update && r.ids[d.ID] {
		before := len(r.rows)
		r.rows = slices.DeleteFunc(r.rows, func(w row) bool { return w.id == d.ID })
		r.turnRows = max(0, r.turnRows-(before-len(r.rows)))
	}
	if d.ID != "" {
		if r.ids == nil {
			r.ids = make(map[string]bool)
		}
		r.ids[d.ID] = true
	}
	r.id = d.ID
	if image != nil {
		r.rows = append(r.rows, row{kind: imageRow, id: d.ID, image: image})
		if r.number > 0 {
			r.number++ // the file has a label
		}
	} else {
		r.lineStream = Stdout
		r.paragraph(text)
		r.take(textRow)
	}
	r.id = ""
	r.printed = true
}

// finish makes a row of the line that is still open.
func (r *renderer) finish() {
	r.flush()
	r.closeLine()
	r.closeTurn()
}

// closeTurn marks standard error in the rows of the turn if the streams alternate, but
// not in the last run, which may be a traceback. A line without its end, such as a progress
// bar that runs, is none. Then it folds repeated lines and frames of libraries.
func (r *renderer) closeTurn() {
	rows := r.rows[r.turnRows:]
	runs, last := 0, 0 // the number of runs of one stream, and where the last begins
	var stream Stream
	for i, w := range rows {
		if w.kind == textRow && (runs == 0 || w.stream != stream) {
			runs, last, stream = runs+1, i, w.stream
		}
	}
	if n := len(rows); n > 0 && rows[n-1].open {
		last = n
	}
	if runs >= 3 {
		for i := range rows[:last] {
			w := &rows[i]
			w.marked = w.kind == textRow && w.stream == Stderr
		}
	}
	if r.opts.FoldFrames {
		rows = r.foldFrames(rows)
	}
	r.rows = append(r.rows[:r.turnRows], r.foldPeriods(rows)...)
	r.turnRows = len(r.rows)
}

const stderrMark = "[stderr] "

// minRun is the number of equal lines from which on they are collapsed. Fewer are read
// as quickly, and a reader may want to copy them.
const minRun = 10

// content returns the text of a row without its newline.
func (r *renderer) content(w *row) string {
	s := w.cut
	if s == "" {
		s = string(r.rowText(w))
	}
	if w.marked {
		s = stderrMark + s
	}
	return s
}

// chars returns the number of characters in a row.
func (r *renderer) chars(w *row) int {
	switch w.kind {
	case noteRow:
		return utf8.RuneCountInString(w.cut) + 1
	case imageRow, elidedRow:
		return 0
	case textRow, labelRow:
	}
	n := utf8.RuneCountInString(w.cut)
	if w.cut == "" {
		n = utf8.RuneCount(r.rowText(w))
	}
	if w.marked {
		n += len(stderrMark)
	}
	n++ // the newline
	if w.times < minRun {
		return n * w.times
	}
	return n + utf8.RuneCountInString(repeatLine(w.times))
}

func repeatLine(times int) string { return fmt.Sprintf("… %d times in all\n", times) }

// fit replaces rows by one elision until the text is within the budget.
func (r *renderer) fit() {
	budget := r.opts.MaxChars
	sum := func() (n int) {
		for i := range r.rows {
			n += r.chars(&r.rows[i])
		}
		return n
	}
	if sum() <= budget {
		return
	}
	r.cutLongLines(max(budget/4, 1))
	if sum() <= budget {
		return
	}
	budget -= min(budget/4, 100+len(r.opts.OutputPath)) // for the elision
	head, used := 0, 0
	for ; head < len(r.rows); head++ {
		if used += r.chars(&r.rows[head]); used > budget/3 {
			break
		}
	}
	tail, used := len(r.rows), 0
	for ; tail > head; tail-- {
		if used += r.chars(&r.rows[tail-1]); used > budget-budget/3 {
			break
		}
	}
	r.elide(head, tail)
}

// maxKeptLabels bounds the labels that are kept from elided text.
const maxKeptLabels = 20

// elide replaces rows by one elidedRow, but keeps pictures and the newest labels.
func (r *renderer) elide(from, to int) {
	var e elision
	var kept []row
	labels := 0
	for i := to - 1; i >= from; i-- {
		w := r.rows[i]
		switch w.kind {
		case imageRow:
			kept = append(kept, w)
			continue
		case labelRow:
			if labels++; labels <= maxKeptLabels {
				kept = append(kept, w)
				continue
			}
		case elidedRow, noteRow:
			e.extend(w.elided)
			continue
		case textRow:
		}
		e.extend(w.lines())
	}
	slices.Reverse(kept)
	middle := append([]row{{kind: elidedRow, elided: e}}, kept...)
	r.rows = slices.Concat(r.rows[:from], middle, r.rows[to:])
}

// cutLongLines leaves out the middle of lines with more characters than limit.
func (r *renderer) cutLongLines(limit int) {
	for i := range r.rows {
		w := &r.rows[i]
		if w.kind != textRow || w.to-w.from <= limit {
			continue
		}
		runes := []rune(string(r.rowText(w)))
		if len(runes) <= limit {
			continue
		}
		where := ""
		if w.number > 0 && r.opts.OutputPath != "" {
			where = fmt.Sprintf(" of line %d of %s", w.number, r.opts.OutputPath)
		}
		head := limit / 2
		tail := len(runes) - (limit - head)
		w.cut = fmt.Sprintf("%s … %s%s elided … %s", string(runes[:head]), count(tail-head, "character"), where, string(runes[tail:]))
	}
}

// compose writes the rows.
func (r *renderer) compose() Rendering {
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
		out.Elided = out.Elided || w.kind == elidedRow || w.lost || w.kind == textRow && w.cut != ""
		switch w.kind {
		case imageRow:
			end()
			out.Parts = append(out.Parts, Part{Image: w.image})
		case elidedRow:
			b.WriteString(w.elided.text(r.opts.OutputPath))
		case noteRow:
			b.WriteString(w.cut + "\n")
		case textRow, labelRow:
			s := r.content(w)
			shown := w.times
			if shown >= minRun {
				shown = 1
			}
			for range shown {
				b.WriteString(s)
				if !w.open || i < len(r.rows)-1 {
					b.WriteByte('\n')
				}
			}
			if w.times >= minRun {
				b.WriteString(repeatLine(w.times))
			}
		}
	}
	end()
	return out
}

// An elision describes text that was left out of a rendering.
type elision struct {
	first, last int // lines of the output file; 0 when unknown
	unnumbered  int // how many lines, when their numbers are unknown; 0 when that is, too
	bytes       int64
}

// lines returns the elision of a row.
func (w *row) lines() elision {
	e := elision{bytes: int64((w.to - w.from + 1) * w.times)}
	if w.number == 0 {
		e.unnumbered = w.times
	} else {
		e.first, e.last = w.number, w.number+w.times-1
	}
	return e
}

// extend adds an elision that comes before.
func (e *elision) extend(b elision) {
	switch {
	case e.bytes == 0:
		*e = b
		return
	case b.first == 0 || e.first == 0:
		n, before := e.count(), b.count()
		e.first, e.last, e.unnumbered = 0, 0, 0
		if n > 0 && before > 0 {
			e.unnumbered = n + before
		}
	default:
		e.first, e.last = min(b.first, e.first), max(b.last, e.last)
	}
	e.bytes += b.bytes
}

// count returns the number of lines, 0 when unknown.
func (e *elision) count() int {
	if e.first == 0 {
		return e.unnumbered
	}
	return e.last - e.first + 1
}

// text says how much is missing and where it is.
func (e *elision) text(path string) string {
	what := ByteCount(e.bytes)
	if n := e.count(); n > 0 {
		what = fmt.Sprintf("%s (%s)", count(n, "line"), what)
	}
	where := ""
	switch {
	case path == "":
	case e.first == 0: // they have not been written yet
		where = ": see " + path
	case e.first == e.last:
		where = fmt.Sprintf(": line %d of %s", e.first, path)
	default:
		where = fmt.Sprintf(": lines %d-%d of %s", e.first, e.last, path)
	}
	return fmt.Sprintf("… %s elided%s …\n", what, where)
}
