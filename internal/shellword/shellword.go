// Package shellword quotes words of commands that a person pastes into a shell.
//
// It has no goroutines.
package shellword

import (
	"fmt"
	"strings"

	"github.com/turnstone-repl/turnstone/timeline"
)

// plain are the characters that need no quotes.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:@%+,"

// Quote quotes a word for sh, bash and zsh. It is one line of characters that a person sees: one with others is
// written by printf, since not every sh knows $'…'.
func Quote(word string) string {
	switch {
	case word != "" && word[0] != '=' && strings.Trim(word, plain) == "": // zsh replaces =ls
		return word
	case timeline.EscapeInvisible(word) == word:
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	if strings.HasSuffix(word, "\n") { // a shell drops newlines at the end of an output; as a path it is the same
		word += "/."
	}
	var b strings.Builder
	for _, c := range strings.SplitAfter(word, "") {
		if timeline.EscapeInvisible(c) == c && !strings.Contains(`'\!`, c) { // inside of "…", ! is bash's history
			b.WriteString(c)
			continue
		}
		for i := range len(c) {
			fmt.Fprintf(&b, `\0%03o`, c[i])
		}
	}
	return `"$(printf %b '` + b.String() + `')"`
}
