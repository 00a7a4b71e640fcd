package pty

// CanSeeReaders is false: macOS does not show what a thread of another process waits for.
func CanSeeReaders(int) bool { return false }

// FindReaders finds none, because they are not seen here.
func (p *Master) FindReaders(root int, monitor bool) []TerminalReader { return nil }

// RefreshReader reports that the thread no longer polls, because none is seen here.
func (p *Master) RefreshReader(r TerminalReader) (TerminalReader, PollState) { return r, PollEnded }
