package session

import "regexp"

// maxName bounds the name of a session, in bytes.
const maxName = 64

var nameShape = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// IsName reports whether a session may have this name: 1 to 64 letters, digits, dots, dashes and
// underscores, beginning with a letter or digit.
func IsName(name string) bool { return len(name) <= maxName && nameShape.MatchString(name) }
