package workers

import "fmt"

// A SandboxMechanism confines a session less well than the namespaces of Linux do. A session gets one
// only if its user accepts it by name.
type SandboxMechanism string

const (
	// Landlock needs no user namespaces. It cannot protect a name in a directory that is
	// written, and the session has no loopback, layers or terminals of its own.
	Landlock SandboxMechanism = "landlock"
)

// ParseSandboxMechanism is the mechanism of that name; "" is none.
func ParseSandboxMechanism(name string) (SandboxMechanism, error) {
	switch m := SandboxMechanism(name); m {
	case "", Landlock:
		return m, nil
	}
	return "", fmt.Errorf("no such mechanism to accept: %q; there is landlock (Linux)", name)
}
