package console

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstone-repl/turnstone/cmd/internal/lineedit/keys"
)

// scriptReader is a terminal that delivers one string at a time, followed by an error.
type scriptReader struct {
	parts []string
	err   error
}

func (s *scriptReader) Read(p []byte) (int, error) {
	if len(s.parts) == 0 {
		return 0, s.err
	}
	n := copy(p, s.parts[0])
	s.parts = s.parts[1:]
	return n, nil
}

// readRest returns the unread input.
func readRest(k *keyReader) string {
	var b strings.Builder
	for {
		r, err := k.NextRune(0)
		if err != nil {
			return b.String()
		}
		b.WriteRune(r)
	}
}

// decodeKeys returns the keys that an editor receives.
func decodeKeys(t *testing.T, parts ...string) []keys.Key {
	t.Helper()
	k := newKeyReader(func() { t.Error("an interrupt") }, func() { t.Error("a quit") }, func() { t.Error("a suspension") })
	k.setEditing(true)
	k.pumpInput(&scriptReader{parts, io.ErrUnexpectedEOF})
	var all []keys.Key
	for {
		key, err := keys.ReadKey(k, false)
		if err == io.ErrUnexpectedEOF {
			return all
		} else if err != nil {
			t.Fatalf("got error %v, want the error of the terminal", err)
		}
		all = append(all, key)
	}
}

func TestKeyReaderPaste(t *testing.T) {
	t.Run("reads a paste as one key", func(t *testing.T) {
		tests := []struct{ name, typed, want string }{
			{"a word", "\x1b[200~word\x1b[201~", "word"},
			{"lines", "\x1b[200~a\nb\nc\x1b[201~", "a\nb\nc"},
			{"a final line end is not Enter", "\x1b[200~a\rb\r\x1b[201~", "a\nb\n"},
			{"Windows line ends", "\x1b[200~a\r\n\r\nb\r\n\x1b[201~", "a\n\nb\n"},
			{"a tab is text", "\x1b[200~\tx\x1b[201~", "\tx"},
			{"keys are not pressed", "\x1b[200~a\x03\x04\x1c\x1b[A\x7fb\x1b[201~", "a[Ab"},
			{"the start of an end marker", "\x1b[200~a\x1b[20\x1b[201~", "a[20"},
			{"characters of several bytes", "\x1b[200~äöü\n中\x1b[201~", "äöü\n中"},
		}
		for _, test := range tests {
			var single []string
			for i := range len(test.typed) {
				single = append(single, test.typed[i:i+1])
			}
			for name, parts := range map[string][]string{"": {test.typed}, ", byte by byte": single} {
				t.Run(test.name+name, func(t *testing.T) {
					got := decodeKeys(t, append(parts, "x")...)
					if len(got) != 2 || got[0].Name != "Paste" || got[0].Text != test.want || got[0].Cut || got[1].Text != "x" {
						t.Errorf("got %+v, want the paste %q and then an x", got, test.want)
					}
				})
			}
		}
	})

	// If only the start of a paste were dropped, its line ends would act as Enter keys.
	t.Run("drops a paste whole if its start does not fit", func(t *testing.T) {
		k := newKeyReader(nil, nil, nil)
		k.decodeInput([]byte(strings.Repeat("x", maxTypeAhead-2) + keys.PasteStart))
		for range maxTypeAhead {
			if _, err := k.NextRune(0); err != nil {
				t.Fatal(err)
			}
		}
		k.decodeInput([]byte("import os\n" + keys.PasteEnd + "y"))
		k.failReads(io.EOF)
		if got := readRest(k); got != "y" {
			t.Errorf("got %q, want the text typed after the paste", got)
		}
		k = newKeyReader(nil, nil, nil)
		k.decodeInput([]byte(keys.PasteStart + strings.Repeat("x", maxTypeAhead)))
		k.setEditing(true) // later input has room
		k.decodeInput([]byte("y" + keys.PasteEnd))
		k.failReads(io.EOF)
		if key, err := keys.ReadKey(k, false); err != nil || key.Name != "Paste" || len(key.Text) != maxTypeAhead-len(keys.PasteStart) {
			t.Errorf("got %q with %d bytes, %v, want the paste as far as there was room", key.Name, len(key.Text), err)
		}
	})

	// An editor that is slower than the terminal must not lose the middle of a paste.
	t.Run("keeps a paste whole when the editor is slow", func(t *testing.T) {
		k := newKeyReader(nil, nil, nil)
		k.setEditing(true)
		text := strings.Repeat("import os\n", maxTypeAhead/5)
		k.decodeInput([]byte(keys.PasteStart + text + keys.PasteEnd))
		if key, err := keys.ReadKey(k, false); err != nil || key.Text != text {
			t.Errorf("got %d bytes, %v, want %d", len(key.Text), err, len(text))
		}
	})

	// In a paste, no other key acts as a key. A terminal that died during a paste never sends its
	// end.
	t.Run("ends an unfinished paste on Ctrl-C and silence", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			interrupts := 0
			k := newKeyReader(func() { interrupts++ }, nil, nil)
			for _, editing := range []bool{true, false} {
				k.setEditing(editing)
				for _, sent := range []string{"\x1b[200~a", "\x03", "b\x1b[20", "\x03"} {
					k.decodeInput([]byte(sent))
				}
				time.Sleep(2 * pasteEndDelay)
				k.decodeInput([]byte("x"))
				if !editing {
					break
				}
				for _, want := range []keys.Key{{Name: "Paste", Text: "ab[20"}, {Name: "C-c"}, {Text: "x"}} {
					if key, err := keys.ReadKey(k, false); err != nil || key.Name != want.Name || key.Text != want.Text {
						t.Errorf("got %+v, %v, want %+v", key, err, want)
					}
				}
			}
			k.failReads(io.EOF)
			if got := readRest(k); interrupts != 1 || got != "x" {
				t.Errorf("while code runs: got %d interrupts and %q", interrupts, got)
			}
		})
	})

	t.Run("marks a paste that was cut", func(t *testing.T) {
		k := newKeyReader(nil, nil, nil)
		k.decodeInput([]byte(keys.PasteStart + strings.Repeat("x", maxTypeAhead) + keys.PasteEnd))
		if key, err := keys.ReadKey(k, false); err != nil || !key.Cut {
			t.Errorf("got a paste of %d bytes, cut %v, %v", len(key.Text), key.Cut, err)
		}
	})
}

func TestKeyReaderControl(t *testing.T) {
	t.Run("interrupts on Ctrl-C and drops what was typed ahead", func(t *testing.T) {
		interrupts := 0
		k := newKeyReader(func() { interrupts++ }, func() { t.Error("a quit") }, nil)
		k.pumpInput(&scriptReader{[]string{"ahead", "\x03more"}, io.ErrUnexpectedEOF})
		if got := readRest(k); interrupts != 1 || got != "more" {
			t.Errorf("got %d interrupts and %q, want 1 and the text typed after it", interrupts, got)
		}
	})

	// A killed program may leave another keyboard encoding switched on.
	t.Run("recognizes Ctrl-C in every encoding", func(t *testing.T) {
		for _, sent := range []string{"\x1b[99;5u", "\x1b[99;5:1u", "\x1b[99;133u", "\x1b[27;5;99~"} {
			interrupts := 0
			k := newKeyReader(func() { interrupts++ }, func() { t.Error("a quit") }, nil)
			k.decodeInput([]byte("ahead" + sent + "more"))
			for i := range len(sent) { // a connection may split it
				k.decodeInput([]byte(sent[i : i+1]))
			}
			k.decodeInput([]byte("more"))
			k.setEditing(true)
			k.decodeInput([]byte(sent))
			k.failReads(io.EOF)
			if got := readRest(k); interrupts != 2 || got != "more\x03" {
				t.Errorf("%q: got %d interrupts and %q", sent, interrupts, got)
			}
		}
		for _, sent := range []string{"\x1b[99;1u", "\x1b[99;5:3u", "\x1b[99;7u", "\x1b[3;5~", "\x1b[99;5"} {
			k := newKeyReader(func() { t.Errorf("%q: an interrupt", sent) }, nil, nil)
			k.decodeInput([]byte(sent))
		}
	})

	t.Run("suspends on Ctrl-Z at once", func(t *testing.T) {
		for _, editing := range []bool{true, false} {
			suspensions := 0
			k := newKeyReader(nil, nil, func() { suspensions++ })
			k.setEditing(editing)
			k.pumpInput(&scriptReader{[]string{"a\x1ab"}, io.EOF})
			if got := readRest(k); suspensions != 1 || got != "ab" {
				t.Errorf("editing %v: got %d suspensions and the keys %q", editing, suspensions, got)
			}
		}
		k := newKeyReader(nil, nil, nil) // where programs cannot be suspended, it is the end of input
		k.pumpInput(&scriptReader{[]string{"\x1a"}, io.EOF})
		if got := readRest(k); got != "\x04" {
			t.Errorf("got %q, want Ctrl-D", got)
		}
	})

	t.Run("quits on Ctrl-backslash except inside a paste", func(t *testing.T) {
		for _, editing := range []bool{true, false} {
			quits := 0
			k := newKeyReader(func() { t.Error("an interrupt") }, func() { quits++ }, nil)
			k.setEditing(editing)
			k.pumpInput(&scriptReader{[]string{"\x1b[200~a\x1c\x03b\x1b[201~"}, io.ErrUnexpectedEOF})
			if quits != 0 {
				t.Errorf("editing %v: a paste caused a quit", editing)
			}
			k.pumpInput(&scriptReader{[]string{"\x1c"}, io.ErrUnexpectedEOF})
			if quits != 1 {
				t.Errorf("editing %v: got %d quits, want 1", editing, quits)
			}
		}
	})
}

func TestKeyReader(t *testing.T) {
	t.Run("bounds what is typed ahead", func(t *testing.T) {
		k := newKeyReader(nil, nil, nil)
		k.pumpInput(strings.NewReader(strings.Repeat("x", maxTypeAhead) + "y"))
		if got := readRest(k); len(got) != maxTypeAhead || strings.Contains(got, "y") {
			t.Errorf("got %d bytes, want the first %d", len(got), maxTypeAhead)
		}
	})

	t.Run("returns without a key when woken", func(t *testing.T) {
		k := newKeyReader(nil, nil, nil)
		go k.wakeReader() // no input arrives
		if woken, err := k.awaitKey(); !woken || err != nil {
			t.Errorf("got %v, %v", woken, err)
		}
		k.decodeInput([]byte("later"))
		k.wakeReader()
		if woken, _ := k.awaitKey(); !woken {
			t.Error("a key arrived before the wake-up")
		}
		if woken, err := k.awaitKey(); woken || err != nil {
			t.Errorf("got %v, %v, want the key", woken, err)
		}
	})

	t.Run("recognizes a lone Escape by the silence after it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			k := newKeyReader(nil, nil, nil)
			k.setEditing(true)
			k.decodeInput([]byte("\x1b"))
			if key, err := keys.ReadKey(k, true); err != nil || key.Name != "Esc" {
				t.Errorf("got %+v, %v, want Esc", key, err)
			}
			k.decodeInput([]byte("\x1b[A"))
			if key, err := keys.ReadKey(k, true); err != nil || key.Name != "Up" {
				t.Errorf("got %+v, %v, want Up", key, err)
			}
			if _, err := k.NextRune(1); !errors.Is(err, keys.ErrQuiet) {
				t.Errorf("got %v, want silence", err)
			}
		})
	})

	t.Run("reports what arrived in one read as a burst", func(t *testing.T) {
		k := newKeyReader(nil, nil, nil)
		k.setEditing(true)
		for _, sent := range []string{"a", "\x1b[A", "\tb", "c\rd", "e", "f\r\r"} {
			k.decodeInput([]byte(sent))
		}
		k.failReads(io.EOF)
		var got []keys.KeyBurst
		for {
			key, err := keys.ReadKey(k, false)
			if err != nil {
				break
			}
			got = append(got, key.KeyBurst)
		}
		alone, followed := keys.KeyBurst{}, keys.KeyBurst{HasMore: true}
		want := []keys.KeyBurst{
			alone,
			alone,
			followed, alone,
			{HasMore: true, LineEndFollows: true, AfterLines: true}, {HasMore: true, AfterLines: true}, {AfterLines: true},
			alone,
			{HasMore: true, LineEndFollows: true}, {HasMore: true, LineEndFollows: true}, alone,
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}
