package timeline

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/timeline/internal/event"
	"github.com/turnstone-repl/turnstone/timeline/internal/redact"
)

// A Match is a line that a search found.
type Match struct {
	Seq   Seq    `json:"seq"` // the event in which the line begins
	Turn  uint64 `json:"turn"`
	Line  int    `json:"line,omitempty"`  // of the rendered output, from 1; 0 for input, and without a file
	Input bool   `json:"input,omitempty"` // the line is code or an answer, not output
	Text  string `json:"text"`            // at most 500 bytes of the line, around the match
}

// A Pattern is the text or regular expression that a search looks for.
type Pattern struct {
	text []byte // in lower case; nil if re is set
	re   *regexp.Regexp
}

const (
	maxPatternBytes = 1000

	// maxRegexpInstructions bounds a compiled expression, in instructions. In the worst case,
	// which is rare, a line of 64 KiB then takes about a second.
	maxRegexpInstructions = 1000

	maxMatchBytes = 500
)

// LiteralPattern returns a pattern that matches text, ignoring case.
func LiteralPattern(text string) (Pattern, error) {
	switch {
	case text == "":
		return Pattern{}, errors.New("the search text is empty")
	case strings.ContainsAny(text, "\r\n"):
		return Pattern{}, errors.New("the search text contains a newline; search for one line")
	}
	return Pattern{text: bytes.ToLower([]byte(text))}, checkPatternLength(text)
}

// RegexpPattern returns a pattern that matches a regular expression of package regexp, which
// runs in time linear in the text.
func RegexpPattern(expr string) (Pattern, error) {
	if err := checkPatternLength(expr); err != nil {
		return Pattern{}, err
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return Pattern{}, err
	}
	parsed, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return Pattern{}, err
	}
	if p, err := syntax.Compile(parsed.Simplify()); err != nil || len(p.Inst) > maxRegexpInstructions {
		return Pattern{}, errors.New("the expression is too large; use fewer or smaller repetitions")
	}
	return Pattern{re: re}, nil
}

func checkPatternLength(text string) error {
	if len(text) > maxPatternBytes {
		return fmt.Errorf("the pattern has %d bytes; use at most %d", len(text), maxPatternBytes)
	}
	return nil
}

// findIndex returns the position of the pattern in a line; nil if there is no match.
func (p Pattern) findIndex(line []byte) []int {
	if p.re != nil {
		return p.re.FindIndex(line)
	}
	at := bytes.Index(bytes.ToLower(line), p.text)
	if at < 0 {
		return nil
	}
	at = min(at, len(line)) // changing the case may change the length
	return []int{at, min(at+len(p.text), len(line))}
}

// A Cursor says where a search continues: after the first lines of an event. The zero Cursor is
// the beginning.
type Cursor struct {
	Seq         Seq
	Lines       int
	AwaitsInput bool // an input request was open at that point
}

const (
	// maxSearchBytes is roughly how much text one search reads. Each event counts 64 bytes more,
	// data of displays an eighth.
	maxSearchBytes = 8 << 20

	// searchTimeout is the time after which a search stops, at the end of an event.
	searchTimeout = 200 * time.Millisecond
)

// Search finds lines of the rendered output, as in the output file, of inputs and of answers,
// except those of silent turns. It continues from a cursor, through about 8 MiB or for 0.2 s,
// and stops after limit matches. over means that it has reached the end; otherwise next is
// where to continue. Overlong lines are searched in parts. Secrets are not found.
func (l *Log) Search(p Pattern, from Cursor, limit int) (found []Match, next Cursor, over bool) {
	return l.runSearch(lineSearch{pattern: p, limit: limit, bytesLeft: maxSearchBytes, deadline: time.Now().Add(searchTimeout)}, from)
}

func (l *Log) runSearch(s lineSearch, from Cursor) (found []Match, next Cursor, over bool) {
	l.appendPending()
	l.syncWithin(lineNumberTimeout) // for the line numbers
	s.skipLines, s.secrets, s.transcript.AwaitsInput = from.Lines, l.knownSecrets(), from.AwaitsInput
	start := max(from.Seq, 1)
	for after := start - 1; ; {
		v := l.takeSnapshot(after, maxFollowBatch)
		if v.isEmpty() {
			return s.matches, s.nextCursor(after + 1), s.searchRest()
		}
		for e := range v.entriesFrom(after + 1) {
			after = e.Seq
			if s.addEvent(e.Event) && (s.skipLines > 0 || s.bytesLeft > 0 && time.Now().Before(s.deadline)) {
				continue
			}
			next := s.nextCursor(after + 1)
			if next.Seq <= start && next.Lines <= from.Lines { // there was only one line
				next = Cursor{Seq: after + 1, AwaitsInput: s.transcript.AwaitsInput}
			}
			return s.matches, next, false
		}
	}
}

// knownSecrets returns a copy of the secrets so far.
func (l *Log) knownSecrets() redact.SecretSet {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.redactor == nil {
		return redact.SecretSet{}
	}
	return l.redactor.SecretSet
}

// A lineSearch is the state of a running Search.
type lineSearch struct {
	pattern   Pattern
	limit     int
	secrets   redact.SecretSet
	skipLines int   // lines that an earlier search covered
	bytesLeft int64 // of maxSearchBytes
	deadline  time.Time

	matches        []Match
	transcript     event.TranscriptPrinter
	origin         Cursor // where the printed text begins: at the event of its unfinished line
	turn           uint64 // of that event
	stoppedInEvent bool   // the search stopped in the middle of an event
}

// addEvent searches the lines that end with an event and reports whether to continue.
func (s *lineSearch) addEvent(e Event) bool {
	s.bytesLeft -= 64 + searchCost(e.Body)
	if e.IsUnseen() {
		return true
	}
	first := Match{Seq: s.origin.Seq, Turn: s.turn, Line: e.Line}
	asked := s.transcript.AwaitsInput
	if !s.transcript.IsUnfinished() {
		s.origin, s.turn = Cursor{Seq: e.Seq, AwaitsInput: asked}, e.Turn
	}
	if !s.transcript.HasOpenLine() {
		first.Seq, first.Turn = e.Seq, e.Turn
	}
	_, isText := e.Body.(Text)
	broken := !isText && s.transcript.HasOpenLine() // the event ends a line that it did not begin
	s.transcript.PrintEvent(e)
	lines := 0
	at := first
	for {
		line, rest, ended := bytes.Cut(s.transcript.Out, newline)
		if !ended {
			break
		}
		if !s.searchLine(at, line) {
			return false
		}
		s.transcript.Out = rest
		lines++
		if at = (Match{Seq: e.Seq, Turn: e.Turn}); e.Line > 0 {
			at.Line = e.Line + lines
		}
	}
	s.transcript.Out = append([]byte(nil), s.transcript.Out...)
	inputs := 0
	for line := range bytes.Lines(inputOf(e.Body)) {
		if !s.searchLine(Match{Seq: e.Seq, Turn: e.Turn, Input: true}, bytes.TrimRight(line, "\r\n")) {
			return false
		}
		inputs++
	}
	if lines > 0 {
		if broken {
			lines--
		}
		s.origin, s.turn = Cursor{e.Seq, lines + inputs, asked}, e.Turn
	}
	return true
}

// inputOf returns the code or answer that a user or client sent.
func inputOf(body Body) []byte {
	switch b := body.(type) {
	case TurnStarted:
		return b.Input
	case InputLine:
		return []byte(b.Text) // empty if it is secret
	}
	return nil
}

func searchCost(body Body) int64 {
	if d, ok := body.(Display); ok {
		return d.TotalBytes() / 8
	}
	return event.PayloadBytes(body)
}

// searchLine searches one line and reports whether to continue.
func (s *lineSearch) searchLine(at Match, line []byte) bool {
	s.origin.Lines++
	if s.skipLines > 0 {
		s.skipLines--
		return true
	}
	where := s.pattern.findIndex(line)
	if where == nil {
		return true
	}
	if hidden := s.secrets.Redact(string(line)); hidden != string(line) {
		line = []byte(hidden)
		if where = s.pattern.findIndex(line); where == nil {
			return true
		}
	}
	at.Text = excerptAround(line, where)
	s.matches = append(s.matches, at)
	s.stoppedInEvent = len(s.matches) == s.limit
	return !s.stoppedInEvent
}

// nextCursor returns where to continue once the events before seq were searched.
func (s *lineSearch) nextCursor(seq Seq) Cursor {
	if s.stoppedInEvent || s.transcript.IsUnfinished() {
		return s.origin
	}
	return Cursor{Seq: seq, AwaitsInput: s.transcript.AwaitsInput}
}

// searchRest searches the unfinished last line and reports whether everything was searched.
func (s *lineSearch) searchRest() bool {
	if s.transcript.IsUnfinished() {
		s.transcript.EndTurn()
		s.transcript.BreakLine()
		s.searchLine(Match{Seq: s.origin.Seq, Turn: s.turn}, bytes.TrimRight(s.transcript.Out, "\n"))
	}
	return true
}

// excerptAround returns at most maxMatchBytes of a line, around the match.
func excerptAround(line []byte, where []int) string {
	if len(line) <= maxMatchBytes {
		return strings.ToValidUTF8(string(line), "�")
	}
	from := runeStart(line, max(0, min(where[0]-maxMatchBytes/4, len(line)-maxMatchBytes)))
	to := runeStart(line, min(from+maxMatchBytes, len(line)))
	text := strings.ToValidUTF8(string(line[from:to]), "�")
	if from > 0 {
		text = "…" + text
	}
	if to < len(line) {
		text += "…"
	}
	return text
}
