package cli

// isWithin reports whether this program runs at the same console as a process, which is not known here.
func isWithin(int) bool { return false }
