package supervisor

import (
	"strings"
	"testing"
)

// TestPhaseTransitions compares the table with a drawing of it, so that a new transition is a
// visible change. Rows are from, columns are to; the second word of a row is the state that callers
// see.
func TestPhaseTransitions(t *testing.T) {
	const picture = `
                      preparing launching starting idle sending running waiting leaving stopping closing ended closed
    preparing preparing   .         x        .      .      .       .       .       .       .       .      x     .
    launching starting    .         .        x      .      .       .       .       .       .       .      x     .
    starting  starting    .         .        .      x      .       .       x       x       x       x      x     .
    idle      idle        .         .        .      .      x       .       .       x       x       x      x     .
    sending   running     .         .        .      x      .       x       .       x       x       x      x     .
    running   running     .         .        .      x      .       .       x       x       x       x      x     .
    waiting   waiting     .         .        x      x      .       x       .       x       x       x      x     .
    leaving   stopping    .         .        .      .      .       .       .       .       x       x      x     .
    stopping  stopping    .         .        .      .      .       .       .       .       .       .      x     .
    closing   stopping    .         .        .      .      .       .       .       .       .       .      .     x
    ended     ended       x         x        .      .      .       .       .       .       .       .      .     x
    closed    ended       .         .        .      .      .       .       .       .       .       .      .     .
`
	lines := strings.Split(strings.Trim(picture, "\n"), "\n")
	columns := strings.Fields(lines[0])
	for from := range numPhases {
		row := strings.Fields(lines[from+1])
		if row[0] != from.String() || row[1] != from.state().String() {
			t.Fatalf("row %d is %s, %s, want %s, %s", from, row[0], row[1], from, from.state())
		}
		for to := range numPhases {
			if columns[to] != to.String() {
				t.Fatalf("column %d is %q, want %q", to, columns[to], to)
			}
			if got, want := isLegalTransition(from, to), row[to+2] == "x"; got != want {
				t.Errorf("%s to %s: got %v, want %v", from, to, got, want)
			}
		}
	}
}
