package keynotation

import (
	"slices"
	"strings"
	"testing"
)

// encode returns what a terminal sends for keys.
func encode(t *testing.T, text string, application bool) string {
	t.Helper()
	keys, err := Parse(text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	var b strings.Builder
	for _, k := range keys {
		b.WriteString(k.Encode(application))
	}
	return b.String()
}

func TestParse(t *testing.T) {
	t.Parallel()

	t.Run("encodes keys as xterm does", func(t *testing.T) {
		t.Parallel()
		for text, want := range map[string]string{
			"yes<Enter>":             "yes\r",
			"<down><DOWN><cr>":       "\x1b[B\x1b[B\r",
			"<C-c><C-C><c-x>":        "\x03\x03\x18",
			"<C-[><C-Space><C-?>":    "\x1b\x00\x7f",
			"<M-x><M->><M-Enter>":    "\x1bx\x1b>\x1b\r",
			"a <lt> b<Space>c > d":   "a < b c > d",
			"<F1><F12><S-Tab>":       "\x1bOP\x1b[24~\x1b[Z",
			"<Esc>:wq<Enter>":        "\x1b:wq\r",
			"größe 日本\n":             "größe 日本\n",
			"<PgDn><PageUp><Delete>": "\x1b[6~\x1b[5~\x1b[3~",
		} {
			if got := encode(t, text, false); got != want {
				t.Errorf("%q: got %q, want %q", text, got, want)
			}
		}
		if got, want := encode(t, "<Up><Home>x<F1>", true), "\x1bOA\x1bOHx\x1bOP"; got != want {
			t.Errorf("application cursor keys: got %q, want %q", got, want)
		}
	})

	t.Run("joins text and keeps keys apart", func(t *testing.T) {
		t.Parallel()
		got, err := Parse("a<lt>b<Up>c")
		if want := []Keystroke{{Text: "a<b"}, {Name: "Up"}, {Text: "c"}}; err != nil || !slices.Equal(got, want) {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	})

	t.Run("refuses what may be a misspelled key", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{"<Retrun>", "a < b", "<>", "<C->", "<C-ä>", "<M-ab>", "<" + strings.Repeat("x", 1000) + ">", "<\xff>"} {
			if got, err := Parse(text); err == nil {
				t.Errorf("%q: got %v, want an error", text, got)
			} else if len(err.Error()) > 300 {
				t.Errorf("%q: the error has %d bytes", text[:20], len(err.Error()))
			}
		}
	})
}

func TestFormat(t *testing.T) {
	t.Parallel()
	for bytes, want := range map[string]string{
		"yes\r":                "yes<Enter>",
		"\x1b[B\x1bOA":         "<Down><Up>",
		"\x03\x1b\x7f\t":       "<C-c><Esc><BS><Tab>",
		"\x1bx\x00\x1f":        "<M-x><C-Space><C-_>",
		"a < b":                "a <lt> b",
		"\xff日\x1b[99z":        "<0xff>日<Esc>[99z",
		"\x1b[15~\x1b[Z\x1b\r": "<F5><S-Tab><M-Enter>",
	} {
		if got := Format([]byte(bytes)); got != want {
			t.Errorf("%q: got %q, want %q", bytes, got, want)
		}
	}
}

func FuzzFormat(f *testing.F) {
	f.Add([]byte("a\x1b[A<\xff\x03\x1b\r"))
	f.Fuzz(func(t *testing.T, b []byte) {
		text := Format(b)
		keys, err := Parse(text)
		if strings.Contains(text, "<0x") {
			return
		}
		if err != nil {
			t.Fatalf("%q as %q: %v", b, text, err)
		}
		var again strings.Builder
		for _, k := range keys {
			again.WriteString(k.Encode(strings.Contains(string(b), "\x1bO")))
		}
		if !strings.Contains(string(b), "\x1b") && again.String() != string(b) {
			t.Errorf("%q as %q: got %q back", b, text, again.String())
		}
	})
}
