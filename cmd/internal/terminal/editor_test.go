package terminal

import (
	"slices"
	"testing"

	"github.com/ergochat/readline"

	"github.com/turnstone-repl/turnstone/session"
)

// offers completes everything by the same answer.
func offers(start int, matches ...string) completer {
	return func(string) session.Completion { return session.Completion{Start: start, Matches: matches} }
}

func TestCompletion_CandidatesGoOnBehindTheCursor(t *testing.T) {
	tests := []struct {
		name     string
		line     string
		pos      int
		complete completer
		want     []string
		shared   int
	}{
		{"a name", "x.enc", 5, offers(2, "encode", "encoding"), []string{"ode", "oding"}, 3},
		{"behind wide characters", "'中' + añ", 8, offers(len("'中' + "), "año"), []string{"o"}, 2},
		{"the cursor is not at the end", "pri(1)", 3, offers(0, "print"), []string{"nt"}, 3},
		{"a match that replaces what is there", "ab", 2, offers(0, "AB", "abc"), []string{"c"}, 2},
		{"nothing", "x", 1, offers(0), nil, 1},
		{"an answer that makes no sense", "x", 1, offers(7, "y"), nil, 0},
		{"the start of a line", "  ", 2, offers(0, "never"), []string{indentation}, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := &completion{&editor{}, test.complete}
			found, shared := c.Do([]rune(test.line), test.pos)
			var got []string
			for _, f := range found {
				got = append(got, string(f))
			}
			if !slices.Equal(got, test.want) || shared != test.shared {
				t.Errorf("got %q sharing %d, want %q sharing %d", got, shared, test.want, test.shared)
			}
		})
	}
}

func TestCompletion_PastedTabIsText(t *testing.T) {
	e := &editor{}
	if r, ok := e.filter(keyPastedTab); r != readline.CharTab || !ok {
		t.Fatalf("got %q, %v, want a Tab", r, ok)
	}
	c := &completion{e, offers(0, "never")}
	for i, want := range []string{"\t", indentation} { // the next Tab is a key again
		if got, _ := c.Do(nil, 0); len(got) != 1 || string(got[0]) != want {
			t.Errorf("Tab %d inserts %q, want %q", i, got, want)
		}
	}
}

// The key may arrive after the person has pressed Enter, and must not end the
// next line then.
func TestEditor_CancelIsForOneWait(t *testing.T) {
	e := &editor{keys: newKeyboard(nil, nil, nil), config: &readline.Config{InterruptPrompt: "^C"}}
	e.wait = 7
	e.cancel(6)
	if e.dropped {
		t.Error("another wait's end dropped this one")
	}
	if _, ok := e.filter(keyCancel); ok || e.cancelled {
		t.Error("a key that came too late ended the line")
	}
	e.cancel(7)
	if r, ok := e.filter(keyCancel); r != readline.CharInterrupt || !ok || !e.cancelled {
		t.Error("the end of the wait did not end the line")
	}
}
