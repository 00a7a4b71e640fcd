package host

import "github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"

// canSeeReaders is false: macOS does not show what a thread of another process waits for.
func canSeeReaders(int) bool { return false }

func (p *Master) findReaders(root int, monitor bool) []monitorproto.TerminalReader { return nil }
