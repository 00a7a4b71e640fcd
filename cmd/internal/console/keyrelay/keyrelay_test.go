package keyrelay

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/turnstone-repl/turnstone/session"
)

// A fakeTerminal is a session with a program that takes keys until stale is set.
type fakeTerminal struct {
	session.TerminalAccess
	screen session.Screen
	fails  error // of Type and, if it is stale, of Screen
	got    string
}

func (f *fakeTerminal) Type(_ context.Context, k session.Keys) (uint64, error) {
	if f.fails == nil {
		f.got += string(k.Bytes)
	}
	return 1, f.fails
}

func (f *fakeTerminal) Screen(context.Context) (session.Screen, error) { return f.screen, nil }

func TestKeyRelay(t *testing.T) {
	t.Parallel()
	denied := errors.New("another client has the write lock")
	for name, test := range map[string]struct {
		fails, want error
	}{
		"types until the user leaves":        {nil, nil},
		"ends when no program takes keys":    {session.ErrStale, nil},
		"ends when the runtime asks":         {session.ErrWaiting, nil},
		"reports that the keys were refused": {denied, denied},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out strings.Builder
				typed := make(chan []byte, 2)
				f := fakeTerminal{screen: session.Screen{Lines: []string{"one", "two"}, CursorRow: 2, CursorCol: 3}, fails: test.fails}
				r := KeyRelay{Session: &f, Keys: typed, Out: &out, Rows: func() int { return 24 }, Release: func() {}, Drawn: func(bool) {}}
				typed <- []byte("j\x1b[A")
				close(typed)
				if err := r.Run(t.Context()); !errors.Is(err, test.want) {
					t.Errorf("got %v, want %v", err, test.want)
				}
				if test.fails == nil && f.got != "j\x1b[A" {
					t.Errorf("the program got %q", f.got)
				}
				if !strings.HasSuffix(out.String(), "\x1b[?1049l") || strings.Count(out.String(), "one") != 1 {
					t.Errorf("it wrote %q", out.String())
				}
			})
		})
	}
}

func TestDrawScreen(t *testing.T) {
	t.Parallel()
	s := session.Screen{Lines: []string{"a", "b", "c"}, CursorRow: 3, CursorCol: 1, CursorHidden: true, Highlights: []session.Highlight{{Row: 1, Col: 1, Text: "a"}, {Row: 2, Col: 1, Text: "b"}}}
	for rows, want := range map[int]string{
		24: "\x1b[?25l\x1b[Ha\x1b[K\r\nb\x1b[K\r\nc\x1b[K\x1b[J\x1b[1;1H\x1b[7ma\x1b[27m\x1b[2;1H\x1b[7mb\x1b[27m\x1b[3;1H",
		2:  "\x1b[?25l\x1b[Hb\x1b[K\r\nc\x1b[K\x1b[J\x1b[1;1H\x1b[7mb\x1b[27m\x1b[2;1H",
	} {
		if got := drawScreen(s, rows); got != want {
			t.Errorf("at %d rows: got %q, want %q", rows, got, want)
		}
	}
}

func TestAfterDrawing(t *testing.T) {
	t.Parallel()
	for output, want := range map[string]string{
		"plain \x1b[1mtext":                       "plain \x1b[1mtext",
		"\x1b[?1049h\x1b[H\x1b[2Jdrawn\x1b[24;1H": "",
		"\x1b[2;3Hdrawn\x1b[Jresult\n":            "result\n",
		"drawn\x1b[?1049hresult\n":                "result\n",
		"drawn\x1b[?1049l":                        "",
	} {
		if got := string(AfterDrawing([]byte(output))); got != want {
			t.Errorf("%q: got %q, want %q", output, got, want)
		}
	}
}
