//go:build !linux

package pty

// A ChildWatch does nothing on systems where the readers of a terminal cannot be seen.
type ChildWatch struct{}

// HasNoOtherReader is true, because other readers are not seen here.
func (*ChildWatch) HasNoOtherReader(int, *Terminal) bool { return true }

// Close does nothing.
func (*ChildWatch) Close() {}
