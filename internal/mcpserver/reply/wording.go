package reply

import (
	"strings"

	"github.com/turnstone-repl/turnstone/internal/text"
)

// A Wording adapts texts for a model to the server that has the tools. The zero Wording is that of
// repl mcp.
type Wording struct {
	// Prefix precedes the names of the tools.
	Prefix string

	// InHost means that the server belongs to another program. Texts then name no flags and no
	// commands of repl, which its user may not have.
	InHost bool
}

// toolNames matches the names of the tools in a text of this program.
var toolNames = text.Pattern(`\brepl(_output|_interrupt|_reset|_sessions| creates)\b`)

// NameTools returns a text with the prefix before each name of a tool. Only texts of this program
// may be passed: the words of others are changed as well.
func (w Wording) NameTools(text string) string {
	if w.Prefix == "" {
		return text
	}
	return toolNames().ReplaceAllString(text, strings.ReplaceAll(w.Prefix, "$", "$$")+"$0")
}

// StartAdvice tells the model what to do without an interpreter.
func (w Wording) StartAdvice() string {
	const again = "the next input tries again; if that fails too, tell the user"
	if w.InHost {
		return again
	}
	return again + " to run repl doctor in a terminal"
}

// DenialReason says why no input may be given to code.
func (w Wording) DenialReason() string {
	if w.InHost {
		return "the policy of this server"
	}
	return "--stdin deny"
}
