// Package shellword quotes words of commands that a user pastes into a shell.
//
// The package starts no goroutines.
package shellword

import (
	"fmt"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/text"
)

// plain are the characters that need no quotes.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:@%+,"

// Quote quotes a word for sh, bash and zsh, as one line of visible characters. A word with other
// characters is produced by printf, since not every sh supports $'…'.
func Quote(word string) string {
	switch {
	case word != "" && word[0] != '=' && strings.Trim(word, plain) == "": // zsh replaces =ls
		return word
	case text.EscapeInvisible(word) == word:
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	if strings.HasSuffix(word, "\n") { // a shell drops trailing newlines of output; as a path the word stays the same
		word += "/."
	}
	var b strings.Builder
	for _, c := range strings.SplitAfter(word, "") {
		if text.EscapeInvisible(c) == c && !strings.Contains(`'\!`, c) { // inside "…", ! is history expansion in bash
			b.WriteString(c)
			continue
		}
		for i := range len(c) {
			fmt.Fprintf(&b, `\0%03o`, c[i])
		}
	}
	return `"$(printf %b '` + b.String() + `')"`
}
