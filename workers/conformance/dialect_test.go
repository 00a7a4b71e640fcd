package conformance_test

import (
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/workers/conformance"
)

func TestParseDialect(t *testing.T) {
	t.Run("quotes texts as the language does", func(t *testing.T) {
		for quote, want := range map[string]string{
			"json":  `say("it's \"<1>\" \\ \nnaïve")`,
			"sql":   "say('it''s \"<1>\" \\ \nnaïve')",
			"shell": "say('it'\\''s \"<1>\" \\ \nnaïve')",
		} {
			d, err := conformance.ParseDialect([]byte(`{"quote": "` + quote + `", "print": "say({text})", "loop": "forever"}`))
			if err != nil {
				t.Fatal(err)
			}
			if got := d.Print("it's \"<1>\" \\ \nnaïve"); got != want || d.Loop != "forever" || d.Ask != nil {
				t.Errorf("%s: got %s, want %s", quote, got, want)
			}
		}
	})

	t.Run("names the mistake in a dialect file", func(t *testing.T) {
		for text, want := range map[string]string{
			`{"prnt": "x"}`:                  `unknown field "prnt"`,
			`{"print": "say()"}`:             "print must contain {text}",
			`{"quote": "c"}`:                 `use "json", "sql" or "shell"`,
			`{"whole": "1"}`:                 "which needs broken and partial",
			`{"word": "a"}`:                  "which needs match",
			`{} {}`:                          "text after",
			`{`:                              "invalid dialect",
			`{"print": ["a"]}`:               "invalid dialect",
			`{"variable": "x", "quote": ""}`: `quote is ""`,
		} {
			if _, err := conformance.ParseDialect([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", text, err, want)
			}
		}
	})
}
