package sessions

import (
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/timeline"
)

func TestRowCounter(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, want string }{
		{"a\nb\nc\n", "a\nb\nc\n"},
		{"a\nb\nc\nd\n", "b\nc\nd\n"},
		{"a\nb\nc\nd", "b\nc\nd"},
		{"a\n0123456789abc\nd\n", "0123456789abc\nd\n"}, // two rows and one
		{"a\nb\n" + strings.Repeat("x", 100), strings.Repeat("x", 30)},
		{strings.Repeat("é", 100), strings.Repeat("é", 15)},
		{"\n\n\n\n\n", "\n\n\n"},
	} {
		f := rowCounter{cols: 10, rows: 3}
		fits, _ := f.add(timeline.Event{Body: timeline.Text{Data: []byte(test.text)}})
		if got := string(fits.Body.(timeline.Text).Data); got != test.want {
			t.Errorf("%.20q: got %q, want %q", test.text, got, test.want)
		}
	}
}

// Output comes in pieces of any length, and a line in two pieces fills one row.
func TestRowCounter_Pieces(t *testing.T) {
	t.Parallel()
	const text = "a\nb\nc\nd\n"
	for cut := 1; cut < len(text); cut++ {
		f, shown := rowCounter{cols: 10, rows: 3}, ""
		for _, piece := range []string{text[cut:], text[:cut]} {
			fits, full := f.add(timeline.Event{Body: timeline.Text{Data: []byte(piece)}})
			shown = string(fits.Body.(timeline.Text).Data) + shown
			if full {
				break
			}
		}
		if want := "b\nc\nd\n"; shown != want {
			t.Errorf("cut at %d: got %q, want %q", cut, shown, want)
		}
	}
}
