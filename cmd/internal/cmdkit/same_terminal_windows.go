package cmdkit

// HasSameTerminal returns false: whether both use the same console is not known on Windows.
func HasSameTerminal(int) bool { return false }
