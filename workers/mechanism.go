package workers

import "fmt"

// A SandboxMechanism is a sandbox implementation weaker than Linux namespaces. A session gets
// one only if its user accepts it by name.
type SandboxMechanism string

const (
	// Landlock needs no user namespaces. It cannot protect a name in a writable directory, and
	// the session has no private loopback, layers or terminals.
	Landlock SandboxMechanism = "landlock"
)

// ParseSandboxMechanism returns the mechanism with this name; "" is none.
func ParseSandboxMechanism(name string) (SandboxMechanism, error) {
	switch m := SandboxMechanism(name); m {
	case "", Landlock:
		return m, nil
	}
	return "", fmt.Errorf("unknown sandbox mechanism %q; available: landlock (Linux)", name)
}
