package transportcmd

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kballard/go-shellquote"
)

// SplitWords splits a command into words as a shell would, with its quotes. No shell runs it, so it
// rejects characters with which a shell would expand a word or run a second command.
func SplitWords(command string) ([]string, error) {
	if c, ok := specialCharacter(command); ok {
		return nil, fmt.Errorf("%q: no shell reads this, so %q does nothing; put it in single quotes, as in sh -c '…'", command, c)
	}
	words, err := shellquote.Split(command)
	switch {
	case errors.Is(err, shellquote.UnterminatedSingleQuoteError), errors.Is(err, shellquote.UnterminatedDoubleQuoteError):
		return nil, fmt.Errorf("%q: a quote is not closed", command)
	case errors.Is(err, shellquote.UnterminatedEscapeError):
		return nil, fmt.Errorf(`%q: nothing follows the last \; write it as \\, or in single quotes`, command)
	case err != nil:
		return nil, fmt.Errorf("%q: %w", command, err)
	case len(words) == 0 || words[0] == "":
		return nil, fmt.Errorf("no command in %q", command)
	case strings.ContainsRune(command, 0):
		return nil, fmt.Errorf("%q: a command must not contain a zero byte", command)
	}
	return words, nil
}

// JoinWords returns the command that SplitWords splits into these words.
func JoinWords(words []string) string { return shellquote.Join(words...) }

// specialCharacter returns the first character on which a shell would act.
func specialCharacter(command string) (string, bool) {
	quote := rune(0)
	escaped := false
	for _, c := range command {
		switch {
		case escaped:
			escaped = false
		case quote == '\'':
			if c == '\'' {
				quote = 0
			}
		case c == '\\':
			escaped = true
		case c == '$' || c == '`', quote == 0 && strings.ContainsRune("|&;<>()\n", c):
			return string(c), true
		case c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		}
	}
	return "", false
}

// plainCharacters are the characters of words that have the same meaning with and without a shell.
const plainCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./=-"

// IsPlainWord reports whether a word may be sent to the remote end unquoted: some commands pass
// their words to a shell there, and others do not.
func IsPlainWord(word string) bool { return word != "" && strings.Trim(word, plainCharacters) == "" }
