package supervisor

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestFitValidText(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]string{
		"short":            "ok",
		"long":             strings.Repeat("a", 30),
		"cut in a letter":  strings.Repeat("ä", 30),
		"invalid":          strings.Repeat("a\xff", 8),
		"invalid and long": strings.Repeat("a\xff", 30),
	} {
		if got := fitValidText(s, 20); len(got) > 20 || !utf8.ValidString(got) {
			t.Errorf("%s: got %q with %d bytes, want valid text of at most 20", name, got, len(got))
		}
	}
	if got := fitValidText("ok", 20); got != "ok" {
		t.Errorf("got %q, want ok", got)
	}
}
