//go:build !linux

package confine

// ChangeEvents watches nothing on this system, so that every file is checked on each turn.
type ChangeEvents struct{}

// Close does nothing.
func (*ChangeEvents) Close() {}

type eventMarks struct{}

func (*ChangeEvents) watchPaths([]string) *eventMarks { return nil }

func (*eventMarks) areQuiet() bool { return false }

func (*eventMarks) renewedMarks() *eventMarks { return nil }

func (*eventMarks) unwatch() {}
