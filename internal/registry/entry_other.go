//go:build !linux

package registry

// A Lock does nothing here: a daemon holds the lock of its socket alone.
type Lock struct{}

// Hold returns no lock.
func Hold(func(string) string) (*Lock, error) { return nil, nil }

// Release does nothing.
func (*Lock) Release() {}

// Read returns nothing: there are no entries here.
func Read(func(string) string) (Entry, bool) { return Entry{}, false }

// Write does nothing, and returns "".
func Write(func(string) string, string) (string, error) { return "", nil }

// Remove does nothing.
func Remove(string) {}

// Ask reports false: there are no entries here.
func Ask(func(string) string) bool { return false }
