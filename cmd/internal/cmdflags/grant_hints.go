package cmdflags

import (
	"github.com/turnstone-repl/turnstone/internal/shellword"
	"github.com/turnstone-repl/turnstone/session"
)

// LaterGrantHint returns the command with which a user grants a right to later sessions. No other
// program can reach the sessions of this one.
func LaterGrantHint(_, workspace string, g session.Grant) string {
	return "repl grant --always --dir " + shellword.Quote(workspace) + " " + RightOption(g) + " (takes effect at the next start or reset)"
}

// GrantCommand returns the command with which a user grants a right.
func GrantCommand(name string, g session.Grant) string {
	return "repl grant " + shellword.Quote(name) + " " + RightOption(g)
}

// RightOption returns the option of repl grant for a right.
func RightOption(g session.Grant) string {
	option, value := "--write", g.Write
	switch {
	case g.Call != "":
		option, value = "--tool", g.Call
	case g.Host != "":
		option, value = "--host", g.Host
	case g.Read != "":
		option, value = "--read", g.Read
	}
	return option + " " + shellword.Quote(value)
}
