package reply

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/internal/mcpserver/clientprofile"
	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/timeline"
)

// maxLineChars bounds one shown line.
const maxLineChars = 2_000

// ContinuationHint says how to read the rest of a line.
func ContinuationHint(number, next, all int) string {
	return fmt.Sprintf(`%d more characters: lines "%d:%d"`, all-next+1, number, next)
}

// A NumberedLines is the text of the numbered lines that fit the budget.
type NumberedLines struct {
	Text  string
	Count int // of the lines, at least one
}

// NumberLines numbers lines, as many as fit the budget.
func NumberLines(lines []timeline.Line, most clientprofile.TextBudget) NumberedLines {
	var b strings.Builder
	chars := ReservedStateChars
	for i, l := range lines {
		text := fmt.Sprintf("%d: %s", l.Number, shortenLine(l))
		chars += utf8.RuneCountInString(text) + 1
		full := chars > most.Chars || most.Bytes > 0 && b.Len()+len(text) > most.Bytes-ReservedStateChars
		if i > 0 && full {
			return NumberedLines{b.String(), i}
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(text)
	}
	return NumberedLines{b.String(), len(lines)}
}

// ExcerptAround cuts the start of a very long line, up to shortly before the match.
func ExcerptAround(s string, re *regexp.Regexp) string {
	const before = 200 // bytes
	at := re.FindStringIndex(s)
	if at == nil || at[0] <= before || len(s) <= maxLineChars {
		return s
	}
	return "…" + strings.ToValidUTF8(s[at[0]-before:], "")
}

// shortenLine cuts a very long line. If the line is shown from its start, it adds how to read the
// rest.
func shortenLine(l timeline.Line) string {
	chars := utf8.RuneCountInString(l.Text)
	if chars <= maxLineChars {
		return l.Text
	}
	begin := text.Shorten(l.Text, maxLineChars)
	if strings.HasPrefix(begin, "…") { // the text around a match
		return begin
	}
	return begin + " [" + ContinuationHint(l.Number, maxLineChars+1, chars) + "]"
}
