package host

// canSeeReaders is false: macOS does not show what a thread of another process waits for.
func canSeeReaders(int) bool { return false }

func (p *ptyMaster) findReaders(root int, monitor bool) []TerminalReader { return nil }
