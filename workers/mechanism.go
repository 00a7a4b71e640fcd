package workers

import "fmt"

// A Mechanism confines a session less well than the namespaces of Linux do, or has not been
// proven. A session gets one only if its user accepts it by name.
type Mechanism string

const (
	// Landlock needs no user namespaces. It cannot protect a name in a directory that is
	// written, and the session has no loopback, layers or terminals of its own.
	Landlock Mechanism = "landlock"
	// Seatbelt is the sandbox of macOS. Nothing of it has been run on a Mac.
	Seatbelt Mechanism = "seatbelt"
)

// ParseMechanism is the mechanism of that name; "" is none.
func ParseMechanism(name string) (Mechanism, error) {
	switch m := Mechanism(name); m {
	case "", Landlock, Seatbelt:
		return m, nil
	}
	return "", fmt.Errorf("no such mechanism to accept: %q; there is landlock (Linux) and seatbelt (macOS)", name)
}
