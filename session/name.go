package session

import "github.com/turnstone-repl/turnstone/internal/text"

// maxNameBytes bounds the name of a session, in bytes.
const maxNameBytes = 64

var namePattern = text.Pattern(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// IsValidName reports whether a session may have this name: 1 to 64 letters, digits, dots, dashes
// and underscores, beginning with a letter or digit.
func IsValidName(name string) bool {
	return len(name) <= maxNameBytes && namePattern().MatchString(name)
}
