package cmdkit

import (
	"fmt"
	"strings"
)

// HelpText returns the full description of a command for a terminal.
func (c CommandInfo) HelpText() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%s\n", c.UsageLine(), c.Summary)
	if c.Details != "" {
		fmt.Fprintf(&b, "\n%s\n", c.Details)
	}
	for i, o := range c.FlagOptions() {
		if i == 0 {
			b.WriteString("\n")
		}
		b.WriteString(HelpEntry(o.TypedForm(), o.Usage, 24))
	}
	if c.Group == GroupSessions {
		b.WriteString("\nMore: repl help sessions\n")
	}
	return b.String()
}

// HelpEntry returns a term and its meaning, in lines of 80 characters. The meaning starts at a
// column, on the next line if the term is too long.
func HelpEntry(term, means string, column int) string {
	lines := strings.ReplaceAll(WrapText(means, 80-column), "\n", "\n"+strings.Repeat(" ", column))
	if term = "  " + term; len(term) > column-2 {
		return term + "\n" + strings.Repeat(" ", column) + lines + "\n"
	}
	return fmt.Sprintf("%-*s%s\n", column, term, lines)
}

// WrapText wraps a text at width characters.
func WrapText(text string, width int) string {
	var b strings.Builder
	at := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case at+1+len(word) > width:
			b.WriteString("\n")
			at = 0
		default:
			b.WriteString(" ")
			at++
		}
		b.WriteString(word)
		at += len(word)
	}
	return b.String()
}
