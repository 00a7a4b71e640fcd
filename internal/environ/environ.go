// Package environ reads and changes environments: lists of entries NAME=VALUE, as [os.Environ]
// returns them. If a name is repeated, the last entry counts, as it does for the program that gets
// the list. On Windows the case of names does not matter. The package starts no goroutines.
package environ

import (
	"slices"
	"strings"
)

// Split returns the name and the value of an entry. ok is false if the text is not an entry, because no
// program could read it. A name may begin with "=": Windows keeps the current directory of each drive
// that way.
func Split(entry string) (name, value string, ok bool) {
	if entry == "" {
		return "", "", false
	}
	i := strings.IndexByte(entry[1:], '=')
	if i < 0 {
		return "", "", false
	}
	return entry[:i+1], entry[i+2:], true
}

// Key returns a name in the form for comparisons.
func Key(name string) string {
	if IgnoresCase {
		return strings.ToUpper(name)
	}
	return name
}

// Lookup returns the value of a variable, and whether it is set.
func Lookup(env []string, name string) (value string, ok bool) {
	key := Key(name)
	for _, entry := range slices.Backward(env) {
		if n, v, ok := Split(entry); ok && Key(n) == key {
			return v, true
		}
	}
	return "", false
}

// Get returns the value of a variable; "" if it is not set.
func Get(env []string, name string) string {
	value, _ := Lookup(env, name)
	return value
}

// Getenv returns a function that reads variables of env, as [os.Getenv] reads those of this
// process.
func Getenv(env []string) func(name string) string {
	return func(name string) string { return Get(env, name) }
}

// Without returns a copy of env without some variables.
func Without(env []string, names ...string) []string {
	rest := make([]string, 0, len(env))
	for _, entry := range env {
		n, _, ok := Split(entry)
		if !ok || !slices.ContainsFunc(names, func(name string) bool { return Key(name) == Key(n) }) {
			rest = append(rest, entry)
		}
	}
	return rest
}

// Apply returns a copy of env with changes made in order: "NAME=VALUE" sets a variable, at the end of the
// list, and "NAME" alone removes it.
func Apply(env, changes []string) []string {
	env = slices.Clone(env)
	for _, change := range changes {
		name, _, set := Split(change)
		if !set {
			name = change
		}
		env = Without(env, name)
		if set {
			env = append(env, change)
		}
	}
	return env
}
