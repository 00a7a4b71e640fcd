//go:build !linux

package confine

// FileEvents watches nothing on this system, so that every file is checked on each turn.
type FileEvents struct{}

// Close does nothing.
func (*FileEvents) Close() {}

type eventMarks struct{}

func (*FileEvents) watchPaths([]string) *eventMarks { return nil }

func (*eventMarks) areQuiet() bool { return false }

func (*eventMarks) renewedMarks() *eventMarks { return nil }

func (*eventMarks) unwatch() {}
