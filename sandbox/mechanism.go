package sandbox

import "fmt"

// A Mechanism is a sandbox implementation weaker than Linux namespaces. A session gets
// one only if its user accepts it by name.
type Mechanism string

const (
	// Landlock needs no user namespaces. It cannot protect a name in a writable directory, and
	// the session has no private loopback, layers or terminals.
	Landlock Mechanism = "landlock"
)

// ParseMechanism returns the mechanism with this name; "" is none.
func ParseMechanism(name string) (Mechanism, error) {
	switch m := Mechanism(name); m {
	case "", Landlock:
		return m, nil
	}
	return "", fmt.Errorf("unknown sandbox mechanism %q; available: landlock (Linux)", name)
}
