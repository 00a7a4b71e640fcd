package timeline

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"time"
)

// A Match is a line in which something was found.
type Match struct {
	Seq   Seq    `json:"seq"` // the event in which the line begins
	Turn  uint64 `json:"turn"`
	Line  int    `json:"line,omitempty"`  // of the rendered output, from 1; 0 for input, and without a file
	Input bool   `json:"input,omitempty"` // it is a line of code or of an answer, not of output
	Text  string `json:"text"`            // at most 500 bytes of the line, around what was found
}

// A Pattern is what a search looks for.
type Pattern struct {
	text []byte // in lower case; nil for re
	re   *regexp.Regexp
}

const (
	maxPatternBytes = 1000

	// maxProgram bounds a compiled expression, in instructions: a line of 64 KiB then takes no
	// more than about a second, which is rare.
	maxProgram = 1000

	maxMatchBytes = 500
)

// Literal is a pattern that finds text, in upper or lower case.
func Literal(text string) (Pattern, error) {
	switch {
	case text == "":
		return Pattern{}, errors.New("there is nothing to look for")
	case strings.ContainsAny(text, "\r\n"):
		return Pattern{}, errors.New("a line has no newline in it: look for one line")
	}
	return Pattern{text: bytes.ToLower([]byte(text))}, tooLong(text)
}

// Expression is a pattern that finds a regular expression of package regexp, which takes time in
// proportion to the text.
func Expression(expr string) (Pattern, error) {
	if err := tooLong(expr); err != nil {
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
	if p, err := syntax.Compile(parsed.Simplify()); err != nil || len(p.Inst) > maxProgram {
		return Pattern{}, errors.New("the expression is too large: it repeats too much")
	}
	return Pattern{re: re}, nil
}

func tooLong(text string) error {
	if len(text) > maxPatternBytes {
		return fmt.Errorf("it has %d bytes: use %d at most", len(text), maxPatternBytes)
	}
	return nil
}

// find returns where a line has the pattern; nil if it has not.
func (p Pattern) find(line []byte) []int {
	if p.re != nil {
		return p.re.FindIndex(line)
	}
	at := bytes.Index(bytes.ToLower(line), p.text)
	if at < 0 {
		return nil
	}
	at = min(at, len(line)) // another case may have another length
	return []int{at, min(at+len(p.text), len(line))}
}

// A Cursor says where a search goes on: behind the first lines from an event on. The zero Cursor
// is the beginning.
type Cursor struct {
	Seq   Seq
	Lines int
	Asked bool // something waited for input then
}

const (
	// searchBytes is about the most text that one search goes through. Each event counts 64
	// bytes more, data of displays an eighth.
	searchBytes = 8 << 20

	// searchTime is after how long a search stops, at the end of an event.
	searchTime = 200 * time.Millisecond
)

// Search finds lines of the rendered output, as the output file has it, of inputs, and of
// answers, but none of silent turns. It goes on from a cursor, through about 8 MiB or for 0.2 s,
// and stops after limit matches. over means that it has come to the end; else next is where to
// go on. A line that is longer than that is searched in parts. Secrets are not found.
func (l *Log) Search(p Pattern, from Cursor, limit int) (found []Match, next Cursor, over bool) {
	return l.search(search{pattern: p, limit: limit, left: searchBytes, until: time.Now().Add(searchTime)}, from)
}

func (l *Log) search(s search, from Cursor) (found []Match, next Cursor, over bool) {
	l.peek()
	l.sync(lineNumbersStall) // for the numbers of lines
	s.skip, s.secrets, s.page.asked = from.Lines, l.knownSecrets(), from.Asked
	start := max(from.Seq, 1)
	for after := start - 1; ; {
		v := l.view(after, followBatch)
		if v.empty() {
			return s.found, s.cursor(after + 1), s.finish()
		}
		for e := range v.walk(after + 1) {
			after = e.Seq
			if s.add(e.Event) && (s.skip > 0 || s.left > 0 && time.Now().Before(s.until)) {
				continue
			}
			next := s.cursor(after + 1)
			if next.Seq <= start && next.Lines <= from.Lines { // there was nothing but one line
				next = Cursor{Seq: after + 1, Asked: s.page.asked}
			}
			return s.found, next, false
		}
	}
}

// knownSecrets returns the secrets so far.
func (l *Log) knownSecrets() secrets {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.veil == nil {
		return secrets{}
	}
	return l.veil.secrets
}

// A search is a Search under way.
type search struct {
	pattern Pattern
	limit   int
	secrets secrets
	skip    int   // lines that an earlier search has seen
	left    int64 // of searchBytes
	until   time.Time

	found   []Match
	page    page
	origin  Cursor // where the page begins: at the event of its unfinished line
	turn    uint64 // of that event
	stopped bool   // in the middle of an event
}

// add searches the lines that end with an event, and reports whether there may be more.
func (s *search) add(e Event) bool {
	s.left -= 64 + searchCost(e.Body)
	if e.Unseen() {
		return true
	}
	first := Match{Seq: s.origin.Seq, Turn: s.turn, Line: e.Line}
	asked := s.page.asked
	if !s.page.unfinished() {
		s.origin, s.turn = Cursor{Seq: e.Seq, Asked: asked}, e.Turn
	}
	if !s.page.open() {
		first.Seq, first.Turn = e.Seq, e.Turn
	}
	_, isText := e.Body.(Text)
	broken := !isText && s.page.open() // not its own: a line that it ends would be missing from here
	s.page.print(e)
	lines := 0
	at := first
	for {
		line, rest, ended := bytes.Cut(s.page.out, newline)
		if !ended {
			break
		}
		if !s.line(at, line) {
			return false
		}
		s.page.out = rest
		lines++
		if at = (Match{Seq: e.Seq, Turn: e.Turn}); e.Line > 0 {
			at.Line = e.Line + lines
		}
	}
	s.page.out = append([]byte(nil), s.page.out...)
	inputs := 0
	for line := range bytes.Lines(inputOf(e.Body)) {
		if !s.line(Match{Seq: e.Seq, Turn: e.Turn, Input: true}, bytes.TrimRight(line, "\r\n")) {
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

// inputOf returns what somebody typed.
func inputOf(body Body) []byte {
	switch b := body.(type) {
	case TurnStarted:
		return b.Input
	case InputLine:
		return []byte(b.Text) // none if it is secret
	}
	return nil
}

func searchCost(body Body) int64 {
	if d, ok := body.(Display); ok {
		return d.Bytes() / 8
	}
	return payloadBytes(body)
}

// line searches one line, and reports whether there may be more.
func (s *search) line(at Match, line []byte) bool {
	s.origin.Lines++
	if s.skip > 0 {
		s.skip--
		return true
	}
	where := s.pattern.find(line)
	if where == nil {
		return true
	}
	if hidden := s.secrets.hide(string(line)); hidden != string(line) {
		line = []byte(hidden)
		if where = s.pattern.find(line); where == nil {
			return true
		}
	}
	at.Text = around(line, where)
	s.found = append(s.found, at)
	s.stopped = len(s.found) == s.limit
	return !s.stopped
}

// cursor returns where to go on if the events before seq were searched.
func (s *search) cursor(seq Seq) Cursor {
	if s.stopped || s.page.unfinished() {
		return s.origin
	}
	return Cursor{Seq: seq, Asked: s.page.asked}
}

// finish searches the last line, which has not ended, and reports whether all was searched.
func (s *search) finish() bool {
	if s.page.unfinished() {
		s.page.endTurn()
		s.page.breakLine()
		s.line(Match{Seq: s.origin.Seq, Turn: s.turn}, bytes.TrimRight(s.page.out, "\n"))
	}
	return true
}

// unfinished reports whether the page has a line, a character or a sequence that has not ended.
func (p *page) unfinished() bool {
	for _, d := range p.streams {
		if d.state != ground || d.held > 0 {
			return true
		}
	}
	return p.open() || len(p.out) > 0
}

// around returns at most maxMatchBytes of a line, with what was found.
func around(line []byte, where []int) string {
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
