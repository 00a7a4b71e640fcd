package text_test

import (
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/text"
)

func TestShorten(t *testing.T) {
	for _, test := range []struct {
		name         string
		shorten      func(s string, max int) string
		s            string
		max          int
		whole, short string // at max, and at one less
	}{
		{"Shorten", text.Shorten, "größe", 5, "größe", "größ…"},
		{"Fit", text.Fit, "größe", 5, "größe", "grö…"},
		{"ShortenStart", text.ShortenStart, "größe", 5, "größe", "…röße"},
		{"ShortenBytes", text.ShortenBytes, "große", 6, "große", "große"[:5] + "…"},
		{"ShortenBytes in a character", text.ShortenBytes, "groß", 5, "groß", "gro…"},
		{"Truncate", text.Truncate, "große", 6, "große", "groß"},
		{"Truncate in a character", text.Truncate, "groß", 5, "groß", "gro"},
		{"nothing", text.Shorten, "", 0, "", ""},
	} {
		if got := test.shorten(test.s, test.max); got != test.whole {
			t.Errorf("%s: got %q, want %q", test.name, got, test.whole)
		}
		if test.max == 0 {
			continue
		}
		if got := test.shorten(test.s, test.max-1); got != test.short {
			t.Errorf("%s: got %q, want %q", test.name, got, test.short)
		}
	}

	for _, test := range []struct {
		name    string
		shorten func(s string, max int) string
		s, want string
	}{
		{"Shorten", text.Shorten, "a\xffb", "a\xffb"},
		{"ShortenBytes", text.ShortenBytes, "a\xffb", "a\xffb"},
		{"ShortenBytes", text.ShortenBytes, "a\xffbcdef", "ab…"},
		{"Truncate", text.Truncate, "a\xffb", "ab"},
	} {
		if got := test.shorten(test.s, 3); got != test.want {
			t.Errorf("%s of %q: got %q, want %q", test.name, test.s, got, test.want)
		}
	}
}

func TestOneLine(t *testing.T) {
	for s, want := range map[string]string{"": "", " a\n\n b\tc ": "a b c", "a": "a"} {
		if got := text.OneLine(s); got != want {
			t.Errorf("%q: got %q, want %q", s, got, want)
		}
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 bytes", 1: "1 bytes", 999: "999 bytes", 1000: "1.0 KB", 1234: "1.2 KB", 9949: "9.9 KB", 9950: "10 KB",
		117_000: "117 KB", 999_499: "999 KB", 999_500: "1.0 MB", 2_500_000_000: "2.5 GB", 5e15: "5000 TB",
	} {
		if got := text.Bytes(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}

func TestBinaryBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 MiB", 1 << 19: "0.5 MiB", 512 << 20: "512 MiB", 1 << 30: "1 GiB", 3 << 29: "1536 MiB", 10<<30 + 1<<29: "10.5 GiB", 100<<30 + 1: "100 GiB",
	} {
		if got := text.BinaryBytes(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration][3]string{
		0:                       {"0 s", "0 minutes", "0s"},
		1500 * time.Millisecond: {"1.5 s", "0 minutes", "1.5s"},
		10 * time.Second:        {"10 s", "0 minutes", "10s"},
		time.Minute:             {"1 min", "1 minute", "1m"},
		90 * time.Second:        {"90 s", "1 minute", "1m30s"},
		15 * time.Minute:        {"15 min", "15 minutes", "15m"},
		time.Hour:               {"1 h", "1 hour", "1h"},
		time.Hour + time.Second: {"3601 s", "1 hour", "1h0m1s"},
		90 * time.Minute:        {"90 min", "1 hour", "1h30m"},
		24 * time.Hour:          {"24 h", "24 hours", "24h"},
	} {
		if got := [3]string{text.Duration(d), text.DurationWords(d), text.CompactDuration(d)}; got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 lines", 1: "1 line", 2: "2 lines", 999: "999 lines", 1000: "1,000 lines", 1234567: "1,234,567 lines"} {
		if got := text.Count(n, "line"); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}

func TestPattern(t *testing.T) {
	valid, invalid := text.Pattern(`^a+$`), text.Pattern(`(`)
	if first, second := valid(), valid(); !first.MatchString("aa") || first != second {
		t.Error("a pattern is not compiled once")
	}
	defer func() {
		if recover() == nil {
			t.Error("an invalid pattern does not panic at its first use")
		}
	}()
	invalid()
}
