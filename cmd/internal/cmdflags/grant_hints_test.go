package cmdflags

import (
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/session"
)

func TestAllowCommand_ShellQuoting(t *testing.T) {
	t.Parallel()
	for want, g := range map[string]session.Grant{
		`repl grant main --write '/data/$(id>x)'`:              {Write: "/data/$(id>x)"},
		`repl grant main --read '/data/it'\''s'`:               {Read: "/data/it's"},
		`repl grant main --host '*.example.org'`:               {Host: "*.example.org"},
		`repl grant main --tool 'github.*'`:                    {Call: "github.*"},
		`repl grant main --write "$(printf %b '/x\0033[8my')"`: {Write: "/x\x1b[8my"},
	} {
		if got := GrantCommand("main", g); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		later := strings.Replace(want, "main", "--always --dir '/my work'", 1) + " (takes effect"
		if got := LaterGrantHint("main", "/my work", g); !strings.HasPrefix(got, later) {
			t.Errorf("for later sessions: got %s, want %s", got, later)
		}
	}
}
