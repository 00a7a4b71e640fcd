package cli

import (
	"fmt"
	"strings"
)

// helpText returns the full description of a command for a terminal.
func (c commandInfo) helpText() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%s\n", c.usageLine(), c.summary)
	if c.details != "" {
		fmt.Fprintf(&b, "\n%s\n", c.details)
	}
	for i, o := range c.flagOptions() {
		if i == 0 {
			b.WriteString("\n")
		}
		b.WriteString(helpEntry(o.typedForm(), o.usage, 24))
	}
	if c.group == groupSessions {
		b.WriteString("\nMore: repl help sessions\n")
	}
	return b.String()
}

// helpEntry returns a term and its meaning, in lines of 80 characters. The meaning starts at a
// column, on the next line if the term is too long.
func helpEntry(term, means string, column int) string {
	lines := strings.ReplaceAll(wrapText(means, 80-column), "\n", "\n"+strings.Repeat(" ", column))
	if term = "  " + term; len(term) > column-2 {
		return term + "\n" + strings.Repeat(" ", column) + lines + "\n"
	}
	return fmt.Sprintf("%-*s%s\n", column, term, lines)
}

// wrapText wraps a text at width characters.
func wrapText(text string, width int) string {
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
