//go:build !linux

package confine

// FileEvents watches nothing here.
type FileEvents struct{}

// Close does nothing.
func (*FileEvents) Close() {}

type fileMarks struct{}

func (*FileEvents) mark([]string) *fileMarks { return nil }

func (*fileMarks) areQuiet() bool { return false }

func (*fileMarks) renewed() *fileMarks { return nil }

func (*fileMarks) end() {}
