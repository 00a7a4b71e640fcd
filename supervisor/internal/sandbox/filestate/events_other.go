//go:build !linux

package filestate

// ChangeEvents watches nothing on this system, so that every file is checked on each turn.
type ChangeEvents struct{}

// Close does nothing.
func (*ChangeEvents) Close() {}

// EventMarks are the event counts of a set of paths; this system counts none.
type EventMarks struct{}

// WatchPaths returns nil.
func (*ChangeEvents) WatchPaths([]string) *EventMarks { return nil }

// AreQuiet returns false, so that the paths are checked.
func (*EventMarks) AreQuiet() bool { return false }

// RenewedMarks returns nil.
func (*EventMarks) RenewedMarks() *EventMarks { return nil }

// Unwatch does nothing.
func (*EventMarks) Unwatch() {}
