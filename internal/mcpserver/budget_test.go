package mcpserver_test

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// A reply must stay below the limit of its client, which would otherwise cut off the line about the
// rest.
func TestReplyBudget(t *testing.T) {
	t.Parallel()
	for _, client := range []struct {
		name         string
		chars, bytes int
	}{
		{"test", 10_000, 0},
		{"codex-mcp-client", 0, 12_000},
		{"gemini-cli-mcp-client-repl", 10_000, 0}, // the client cuts at 40,000
		{"claude-code", 10_000, 0},                // the client cuts at 50,000
		{"Cline", 7_100, 0},
	} {
		for _, modern := range []bool{false, true} {
			c := newClient(t, nil)
			c.name = client.name
			if modern {
				c.useStateless()
			} else {
				c.initialize("2025-06-18")
			}
			wide := "wide 300\n"
			for what, args := range map[string]map[string]any{
				"flood": {"input": "print first\nflood 1000000\nprint last"},
				"wide":  {"input": "print first\n" + wide + "print last"},
				"drawn": {"input": "print first\n" + wide + strings.Repeat("image\n", 40) + "print last"},
			} {
				text := c.call("repl", args).text()
				wantPart(t, text, "first\n", " elided: ", "output.txt …", "\nlast")
				if n := utf8.RuneCountInString(text); client.chars > 0 && n > client.chars {
					t.Errorf("%s, %s: got %d characters, and it cuts at %d", client.name, what, n, client.chars)
				}
				if client.bytes > 0 && len(text) > client.bytes {
					t.Errorf("%s, %s: got %d bytes, and it cuts at %d", client.name, what, len(text), client.bytes)
				}
				least := 5000
				if what == "flood" { // its lines are alike
					least = 3500
				}
				if len(text) < least {
					t.Errorf("%s, %s: got only %d bytes", client.name, what, len(text))
				}
			}
			for _, args := range []map[string]any{{"lines": "1-400"}, {"grep": "0|語"}} {
				text := c.call("repl_output", args).text()
				if n := len(text); client.bytes > 0 && n > client.bytes || client.bytes == 0 && utf8.RuneCountInString(text) > client.chars {
					t.Errorf("%s, %v: got %d bytes", client.name, args, n)
				}
			}
		}
	}
}

// A model pays for everything that its client shows unchanged.
func TestClientProfile_RawResult(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Cline", "continue-client"} {
		c := newClient(t, nil)
		c.name = name
		c.initialize("2025-06-18")
		r := c.call("repl", map[string]any{"input": "image\nprint 2"})
		wantPart(t, r.text(), "not shown: this client would show it as text; original in ", "2")
		if r.Meta != nil || strings.Contains(r.text(), "<image>") {
			t.Errorf("%s: got _meta %v and %q", name, r.Meta, r.text())
		}
	}
}

func TestLongPromptKeepsEnd(t *testing.T) {
	t.Parallel()
	c := newInitializedClient(t, nil)
	got := c.runRepl("wait " + strings.Repeat("語", 2000) + " end? ")
	wantPart(t, got, `[waiting for input: "…語`, ` end? "]`)
	if len(got) > 1100 {
		t.Errorf("got %d bytes", len(got))
	}
	wantText(t, c.runRepl("a"), "a")
}
