package text

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// QuoteName quotes a name that could be mistaken for something else because it has spaces or
// invisible characters.
func QuoteName(name string) string {
	quoted := strconv.Quote(name)
	quoted = EscapeInvisible(quoted[1 : len(quoted)-1])
	if quoted == name && !strings.ContainsRune(name, ' ') {
		return name
	}
	return `"` + quoted + `"`
}

// EscapeInvisible replaces all characters that a reader cannot see by escape codes. These are
// control characters, invisible and blank characters except spaces, characters that change the text
// direction, and bytes that are not valid UTF-8. A combining mark at the beginning is replaced, too,
// because it would change the text before it.
func EscapeInvisible(text string) string {
	var b strings.Builder
	for left := text; left != ""; {
		r, n := utf8.DecodeRuneInString(left)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, left[0])
		case isVisible(r) && (b.Len() > 0 || !unicode.Is(unicode.M, r)):
			b.WriteString(left[:n])
		default:
			code := strconv.QuoteRuneToASCII(r)
			b.WriteString(code[1 : len(code)-1])
		}
		left = left[n:]
	}
	return b.String()
}

// blankRunes are characters that look like spaces although Unicode classifies them as symbols,
// letters or marks.
const blankRunes = "\u2800\ufffc\U00013441\U00013442\U00016fe4\U0001d159"

func isVisible(r rune) bool {
	return strconv.IsPrint(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) && !strings.ContainsRune(blankRunes, r)
}
