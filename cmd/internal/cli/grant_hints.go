package cli

import (
	"github.com/turnstone-repl/turnstone/internal/shellword"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// laterGrantHint returns the command with which a user grants a right to later sessions. No other
// program can reach the sessions of this one.
func laterGrantHint(_, workspace string, g session.Grant) string {
	return "repl grant --always --dir " + shellword.Quote(workspace) + " " + rightOption(g) + " (takes effect at the next start or reset)"
}

// grantCommand returns the command with which a user grants a right.
func grantCommand(name string, g session.Grant) string {
	return "repl grant " + shellword.Quote(name) + " " + rightOption(g)
}

// rightOption returns the option of repl grant for a right.
func rightOption(g session.Grant) string {
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

// denialPrefix begins the line about a denial.
func denialPrefix(d timeline.AccessDenied) string {
	if d.Call != "" {
		return "not allowed"
	}
	return "the sandbox refused"
}
