package timeline_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"html"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/timeline"
)

// logText returns all text of a log.
func logText(l *timeline.Log) string {
	data, _ := textAndGaps(l.EventsSince(0))
	return string(data)
}

func stringEvent(s string) timeline.Event {
	return timeline.Event{Body: timeline.Text{Data: []byte(s)}}
}

func TestRedact(t *testing.T) {
	t.Run("redacts every form in which a secret reappears", func(t *testing.T) {
		const secret = `p"ä/w'o\rd & <x>😀`
		l := newLog(t, nil)
		if err := l.AddSecret(secret + "\r\n"); err != nil {
			t.Fatal(err)
		}
		asJSON, _ := json.Marshal(secret)
		forms := map[string]string{
			"itself":               secret,
			"Go, C, R":             strconv.Quote(secret),
			"ASCII":                strconv.QuoteToASCII(secret),
			"JSON":                 string(asJSON),
			"repr of Python":       `'p"ä/w\'o\\rd & <x>😀'`,
			"json.dumps of Python": `"p\"\u00e4/w'o\\rd & <x>\ud83d\ude00"`,
			"bytes of Python":      `b'p"\xc3\xa4/w\'o\\rd & <x>\xf0\x9f\x98\x80'`,
			"query":                url.QueryEscape(secret),
			"path":                 url.PathEscape(secret),
			"small letters":        `p%22%c3%a4%2fw%27o%5crd+%26+%3cx%3e%f0%9f%98%80`,
			"HTML":                 html.EscapeString(secret),
			"base64":               base64.StdEncoding.EncodeToString([]byte(secret)),
			"base64 of a URL":      base64.RawURLEncoding.EncodeToString([]byte(secret)),
			"base64, user of 1":    base64.StdEncoding.EncodeToString([]byte("u" + secret)),
			"base64, user of 2":    base64.StdEncoding.EncodeToString([]byte("us" + secret + "!")),
		}
		for name, form := range forms {
			if got := l.Redact("<" + form + ">"); !strings.Contains(got, "[secret]") || len(got) > len("<''[secret]>")+6 {
				t.Errorf("%s: %q became %q", name, form, got)
			}
		}
	})

	// Text gives the same result however it is cut into pieces.
	t.Run("redacts a secret that comes in pieces", func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		for range 2000 {
			text := make([]byte, 60)
			for i := range text {
				text[i] = "aaaabbbb\n"[r.IntN(9)]
			}
			secrets := []string{"aababa", "babaab", "abaaabab"}
			whole, cut := newLog(t, nil), newLog(t, nil)
			for _, s := range secrets {
				for _, l := range []*timeline.Log{whole, cut} {
					if err := l.AddSecret(s); err != nil {
						t.Fatal(err)
					}
				}
			}
			whole.Append(timeline.Event{Body: timeline.Text{Data: bytes.Clone(text)}})
			whole.Append(timeline.Event{Body: timeline.TurnEnded{}})
			for rest := text; len(rest) > 0; {
				n := 1 + r.IntN(min(7, len(rest)))
				cut.Append(timeline.Event{Body: timeline.Text{Data: bytes.Clone(rest[:n])}})
				if r.IntN(4) == 0 { // other output may arrive at any time
					cut.Append(timeline.Event{Body: timeline.Notice{Message: "n"}})
				}
				rest = rest[n:]
			}
			cut.Append(timeline.Event{Body: timeline.TurnEnded{}})
			got, want := logText(cut), logText(whole)
			if got != want {
				t.Fatalf("%q became %q in pieces, %q as a whole", text, got, want)
			}
			for _, s := range secrets {
				if strings.Contains(want, s) {
					t.Fatalf("%q is in %q", s, want)
				}
			}
			if !strings.Contains(string(text), "aababa") && !strings.Contains(string(text), "babaab") && !strings.Contains(string(text), "abaaabab") && want != string(text) {
				t.Fatalf("%q became %q", text, want)
			}
		}
	})

	t.Run("shows a possible beginning of a secret only on request", func(t *testing.T) {
		l := newLog(t, nil)
		if err := l.AddSecret("S3CRETpw"); err != nil {
			t.Fatal(err)
		}
		l.Append(stringEvent("Menu: S"))
		if got := logText(l); got != "Menu: S" {
			t.Errorf("a read shows %q", got)
		}
		l.Append(stringEvent("3CRE"))
		if got := logText(l); got != "Menu: S" {
			t.Errorf("more than half of a secret is shown: %q", got)
		}
		l.Append(stringEvent("T"))
		l.Append(stringEvent("pw;S3CRE"))
		if got := logText(l); got != "Menu: S[secret];" {
			t.Errorf("got %q", got)
		}
		l.Append(timeline.Event{Body: timeline.InputRequested{Prompt: "S3CRE"}})
		if got := logText(l); got != "Menu: S[secret];S3CRE" {
			t.Errorf("at an input request: got %q", got)
		}
		l.Append(stringEvent("S3"))
		l.Append(timeline.Event{Body: timeline.Text{Stream: timeline.Stderr, Data: []byte("CRETpw")}})
		if got := logText(l); got != "Menu: S[secret];S3CRES3CRETpw" {
			t.Errorf("text of two streams became %q", got)
		}
		l.Append(stringEvent("S3CRE"))
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if got := logText(l); !strings.HasSuffix(got, "pwS3CRE") {
			t.Errorf("after Close: got %q", got)
		}
	})

	t.Run("redacts every field of an event", func(t *testing.T) {
		const secret = "S3CRETpw-0f-15b" // longer than its replacement
		dir := t.TempDir()
		l := newLog(t, &timeline.Options{Dir: dir})
		if err := l.AddSecret(secret); err != nil {
			t.Fatal(err)
		}
		for _, b := range []timeline.Body{
			timeline.Text{Data: []byte("x" + secret)},
			timeline.Display{Title: secret, ID: secret, Meta: []byte(`{"a":"` + secret + `"}`), Data: map[string][]byte{"text/html": []byte("<b>" + secret), "application/json": []byte(`["` + secret + `"]`)}},
			timeline.TurnStarted{Input: []byte("p = '" + secret + "'"), InputBytes: 6 + len(secret)},
			timeline.TurnStarted{Input: []byte(secret + secret), InputBytes: 2 * len(secret)},
			timeline.InputLine{Prompt: secret, Text: secret},
			timeline.InputRequested{Prompt: secret},
			timeline.Progress{Message: secret},
			timeline.Preparation{Message: secret},
			timeline.Notice{Message: secret},
			timeline.TurnEnded{Name: secret, Message: "no " + secret, Prompt: secret},
			timeline.WorkerExited{Reason: secret, Message: secret, LastLine: secret},
		} {
			l.Append(timeline.Event{Body: b})
		}
		for _, e := range l.EventsSince(0) {
			if b, ok := e.Body.(timeline.TurnStarted); ok && b.InputBytes != len(b.Input) {
				t.Errorf("an input was truncated: %d bytes, %q", b.InputBytes, b.Input)
			}
		}
		l.Sync()
		for _, name := range []string{"events", "output.txt"} {
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil || bytes.Contains(b, []byte(secret)) || !bytes.Contains(b, []byte("x[secret]")) {
				t.Errorf("%s: %q, %v", name, b, err)
			}
		}
	})

	t.Run("reports a secret beyond its bounds", func(t *testing.T) {
		for _, c := range []struct{ secret, want string }{
			{"12345\n", "fewer than 6 bytes"},
			{"}\nlong enough\n{", ""},
			{"пин\n", ""},
			{"a line\n" + strings.Repeat("x", 5000), "more than 4.1 KB"},
			{"", ""},
		} {
			err := newLog(t, nil).AddSecret(c.secret)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%.20q: %v, want %q", c.secret, err, c.want)
			}
		}
		l := newLog(t, nil)
		var err error
		for i := 0; err == nil && i < 100; i++ {
			err = l.AddSecret(strings.Repeat(strconv.Itoa(i), 500))
			if err == nil {
				err = l.AddSecret(strings.Repeat(strconv.Itoa(i), 500)) // a known secret costs nothing
			}
		}
		if err == nil || !strings.Contains(err.Error(), "too many") {
			t.Errorf("got %v", err)
		}
	})
}

// Without a secret, redaction costs nothing.
func BenchmarkAppend_Secrets(b *testing.B) {
	for _, secrets := range []int{0, 1, 20} {
		b.Run(strconv.Itoa(secrets), func(b *testing.B) {
			l := newLog(b, nil)
			for i := range secrets {
				if err := l.AddSecret("S3CRETpw" + strconv.Itoa(i)); err != nil {
					b.Fatal(err)
				}
			}
			line := []byte(strings.Repeat("an ordinary line of output, number 123456\n", 100))
			b.SetBytes(int64(len(line)))
			for b.Loop() {
				l.Append(timeline.Event{Body: timeline.Text{Data: line}})
			}
		})
	}
}
