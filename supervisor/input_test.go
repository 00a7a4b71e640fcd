package supervisor

import (
	"testing"

	"github.com/turnstone-repl/turnstone/session"
)

func TestInputQueue(t *testing.T) {
	t.Parallel()

	t.Run("gives one line at a time and ends at the end of file", func(t *testing.T) {
		t.Parallel()
		var q inputQueue
		q.add("", session.Input{Data: []byte("one\ntwo\nrest"), EOF: true})
		q.add("", session.Input{Data: []byte("after\n")})
		for i, want := range []struct {
			data string
			eof  bool
		}{{"one\n", false}, {"two\n", false}, {"rest", true}, {"after\n", false}} {
			data, eof := q.nextPiece(false)
			if string(data) != want.data || eof != want.eof {
				t.Errorf("%d: got %q, %v, want %q, %v", i, data, eof, want.data, want.eof)
			}
		}
		if !q.isEmpty() {
			t.Error("got something left, want nothing")
		}
	})

	t.Run("gives a lone end of file once", func(t *testing.T) {
		t.Parallel()
		var q inputQueue
		q.add("", session.Input{EOF: true})
		if data, eof := q.nextPiece(true); len(data) != 0 || !eof {
			t.Errorf("got %q, %v, want an end of file", data, eof)
		}
		if !q.isEmpty() {
			t.Error("got a second end of file")
		}
	})

	t.Run("limits each piece and stops at the end of file", func(t *testing.T) {
		t.Parallel()
		var q inputQueue
		q.add("", session.Input{Data: make([]byte, maxInputPieceBytes+5), EOF: true})
		q.add("", session.Input{Data: []byte("more")})
		for i, want := range []int{maxInputPieceBytes, 5, 4} {
			data, eof := q.nextPiece(true)
			if len(data) != want || eof != (i == 1) {
				t.Errorf("%d: got %d bytes, %v, want %d", i, len(data), eof, want)
			}
		}
	})

	t.Run("reports how many bytes were dropped", func(t *testing.T) {
		t.Parallel()
		var q inputQueue
		q.add("", session.Input{Data: []byte("abc"), EOF: true})
		if got := q.dropAll(); got != 3 || !q.isEmpty() {
			t.Errorf("got %d, empty %v, want 3, true", got, q.isEmpty())
		}
	})
}
