package supervisor

import (
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/session"
)

// TestState_MovesAreTheDrawnOnes compares the table with a picture of it, so
// that a new move is a visible change. Rows are from, columns are to.
func TestState_MovesAreTheDrawnOnes(t *testing.T) {
	const picture = `
             starting idle running waiting stopping ended
    starting    .      x      .       x       x       x
    idle        .      .      x       .       x       x
    running     .      x      .       x       x       x
    waiting     x      x      x       .       x       x
    stopping    .      .      .       .       .       x
    ended       x      .      .       .       .       .
`
	lines := strings.Split(strings.Trim(picture, "\n"), "\n")
	columns := strings.Fields(lines[0])
	for from := range session.NumStates {
		row := strings.Fields(lines[from+1])
		if row[0] != from.String() {
			t.Fatalf("row %d is %q, want %q", from, row[0], from)
		}
		for to := range session.NumStates {
			if columns[to] != to.String() {
				t.Fatalf("column %d is %q, want %q", to, columns[to], to)
			}
			if got, want := legal(from, to), row[to+1] == "x"; got != want {
				t.Errorf("%s to %s: got %v, want %v", from, to, got, want)
			}
		}
	}
}
