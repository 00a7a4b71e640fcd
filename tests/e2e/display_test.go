//go:build unix

package e2e

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// A terminalScreen models what a terminal shows, as far as line editing needs it. The editor writes
// a word again from its beginning when the next key changes its colour.
type terminalScreen struct {
	rows    [][]rune
	y, x    int    // the cursor; x equals columns when the next character starts another row
	wrapped []bool // whether a row continues the one before
	partial []byte // an incomplete sequence or character
}

const screenColumns = 100

var (
	sequencePattern = regexp.MustCompile(`^\x1b(?:\[([0-9;?<=>]*)[ -/]*([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)|[^\[\]])`)
	partialPattern  = regexp.MustCompile(`^\x1b(?:\[[0-9;?<=>]*[ -/]*|\][^\x07\x1b]*\x1b?)?$`)
)

func (d *terminalScreen) write(b []byte) {
	b = append(d.partial, b...)
	for len(b) > 0 && !partialPattern.Match(b) && utf8.FullRune(b) {
		if found := sequencePattern.FindSubmatch(b); found != nil {
			d.applySequence(string(found[1]), string(found[2]))
			b = b[len(found[0]):]
			continue
		}
		r, n := utf8.DecodeRune(b)
		b = b[n:]
		d.writeRune(r)
	}
	d.partial = b
}

// currentRow extends the cursor's row up to the cursor.
func (d *terminalScreen) currentRow() *[]rune {
	for len(d.rows) <= d.y {
		d.rows, d.wrapped = append(d.rows, nil), append(d.wrapped, false)
	}
	row := &d.rows[d.y]
	for len(*row) < d.x {
		*row = append(*row, ' ')
	}
	return row
}

func (d *terminalScreen) writeRune(r rune) {
	switch r {
	case '\r':
		d.x = 0
	case '\n':
		d.y++
		d.currentRow()
		d.wrapped[d.y] = false
	case '\b':
		d.x = max(0, min(d.x, screenColumns-1)-1)
	default:
		if r < ' ' {
			return
		}
		if d.x == screenColumns {
			d.y, d.x = d.y+1, 0
			d.currentRow()
			d.wrapped[d.y] = true
		}
		row := d.currentRow()
		*row = append((*row)[:d.x], append([]rune{r}, (*row)[min(len(*row), d.x+1):]...)...)
		d.x++
	}
}

func (d *terminalScreen) applySequence(parameters, final string) {
	n, err := strconv.Atoi(parameters)
	if err != nil {
		n = 1
	}
	switch final {
	case "A":
		d.y = max(0, d.y-n)
	case "B":
		d.y += n
	case "C":
		d.x = min(screenColumns-1, d.x+n)
	case "D":
		d.x = max(0, d.x-n)
	case "G":
		d.x = min(screenColumns, n) - 1
	case "J", "K":
		if parameters == "" {
			row := d.currentRow()
			*row = (*row)[:d.x]
			if final == "J" {
				d.rows, d.wrapped = d.rows[:d.y+1], d.wrapped[:d.y+1]
			}
		}
	}
}

// textBeforeCursor returns the text of the cursor's line up to the cursor, joined over wrapped rows.
func (d *terminalScreen) textBeforeCursor() string {
	text := string((*d.currentRow())[:d.x])
	for y := d.y; y > 0 && d.wrapped[y]; y-- {
		text = string(d.rows[y-1]) + text
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
