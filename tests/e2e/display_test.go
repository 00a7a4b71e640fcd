//go:build unix

package e2e

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// A terminalScreen models the screen of a terminal, as far as line editing needs it. The editor
// writes a word again from its beginning when the next key changes its colour.
type terminalScreen struct {
	rows    [][]rune
	y, x    int    // the cursor; x equals columns when the next character starts another row
	wrapped []bool // whether a row continues the previous row
	partial []byte // an incomplete sequence or character
}

const screenColumns = 100

var (
	sequencePattern = regexp.MustCompile(`^\x1b(?:\[([0-9;?<=>]*)[ -/]*([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)|[^\[\]])`)
	partialPattern  = regexp.MustCompile(`^\x1b(?:\[[0-9;?<=>]*[ -/]*|\][^\x07\x1b]*\x1b?)?$`)
)

func (s *terminalScreen) write(b []byte) {
	b = append(s.partial, b...)
	for len(b) > 0 && !partialPattern.Match(b) && utf8.FullRune(b) {
		if found := sequencePattern.FindSubmatch(b); found != nil {
			s.applySequence(string(found[1]), string(found[2]))
			b = b[len(found[0]):]
			continue
		}
		r, n := utf8.DecodeRune(b)
		b = b[n:]
		s.writeRune(r)
	}
	s.partial = b
}

// currentRow extends the cursor's row up to the cursor.
func (s *terminalScreen) currentRow() *[]rune {
	for len(s.rows) <= s.y {
		s.rows, s.wrapped = append(s.rows, nil), append(s.wrapped, false)
	}
	row := &s.rows[s.y]
	for len(*row) < s.x {
		*row = append(*row, ' ')
	}
	return row
}

func (s *terminalScreen) writeRune(r rune) {
	switch r {
	case '\r':
		s.x = 0
	case '\n':
		s.y++
		s.currentRow()
		s.wrapped[s.y] = false
	case '\b':
		s.x = max(0, min(s.x, screenColumns-1)-1)
	default:
		if r < ' ' {
			return
		}
		if s.x == screenColumns {
			s.y, s.x = s.y+1, 0
			s.currentRow()
			s.wrapped[s.y] = true
		}
		row := s.currentRow()
		*row = append((*row)[:s.x], append([]rune{r}, (*row)[min(len(*row), s.x+1):]...)...)
		s.x++
	}
}

func (s *terminalScreen) applySequence(parameters, final string) {
	n, err := strconv.Atoi(parameters)
	if err != nil {
		n = 1
	}
	switch final {
	case "A":
		s.y = max(0, s.y-n)
	case "B":
		s.y += n
	case "C":
		s.x = min(screenColumns-1, s.x+n)
	case "D":
		s.x = max(0, s.x-n)
	case "G":
		s.x = min(screenColumns, n) - 1
	case "J", "K":
		if parameters == "" {
			row := s.currentRow()
			*row = (*row)[:s.x]
			if final == "J" {
				s.rows, s.wrapped = s.rows[:s.y+1], s.wrapped[:s.y+1]
			}
		}
	}
}

// textBeforeCursor returns the text of the cursor's line up to the cursor, joined over wrapped rows.
func (s *terminalScreen) textBeforeCursor() string {
	text := string((*s.currentRow())[:s.x])
	for y := s.y; y > 0 && s.wrapped[y]; y-- {
		text = string(s.rows[y-1]) + text
	}
	return text
}

func TestTerminalScreen(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", screenColumns)
	for drawn, want := range map[string]string{
		">>> retu\x1b[5G\x1b[J\x1b[1;34mreturn\x1b[0m x":  ">>> return x",
		">>> pri\x1b[5G\x1b[36mprint\x1b[0m(\b\b\x1b[K()": ">>> prin()",
		long[4:] + ">>> x":                                      long[4:] + ">>> x",
		long + "\x1b[1A\x1b[99G\x1b[Jab":                        strings.Repeat("x", 98) + "ab",
		long + "ret\x1b[1G\x1b[J\x1b[1;34mreturn\x1b[0m":        long + "return",
		"one\r\n\x1b]0;title\x07\x1b[?2004h>>> tw\x1b[5G\x1bMö": ">>> ö",
	} {
		var d terminalScreen
		for i := range len(drawn) {
			d.write([]byte{drawn[i]})
		}
		if got := d.textBeforeCursor(); got != want {
			t.Errorf("%q: got %q, want %q", drawn, got, want)
		}
	}
}
