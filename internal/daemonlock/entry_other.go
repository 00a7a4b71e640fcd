//go:build !linux

package daemonlock

// A Lock does nothing here: a daemon holds the lock of its socket alone.
type Lock struct{}

// AcquireLock returns no lock.
func AcquireLock(func(string) string) (*Lock, error) { return nil, nil }

// Release does nothing.
func (*Lock) Release() {}

// ReadEntry returns nothing: there are no entries here.
func ReadEntry(func(string) string) (Entry, bool) { return Entry{}, false }

// WriteEntry does nothing, and returns "".
func WriteEntry(func(string) string, string) (string, error) { return "", nil }

// RemoveEntry does nothing.
func RemoveEntry(string) {}

// RequestRenewal reports false: there are no entries here.
func RequestRenewal(func(string) string) bool { return false }
