//go:build !linux

package daemonlock

// A Lock does nothing here: a daemon only holds the lock of its socket.
type Lock struct{}

// AcquireLock returns no lock and no error.
func AcquireLock(func(string) string) (*Lock, error) { return nil, nil }

// Release does nothing.
func (*Lock) Release() {}

// ReadEntry returns false: this system has no entries.
func ReadEntry(func(string) string) (LockEntry, bool) { return LockEntry{}, false }

// WriteEntry does nothing, and returns "".
func WriteEntry(func(string) string, string) (string, error) { return "", nil }

// RemoveEntry does nothing.
func RemoveEntry(string) {}

// RequestRenewal returns false: this system has no entries.
func RequestRenewal(func(string) string) bool { return false }
