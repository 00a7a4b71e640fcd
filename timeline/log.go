package timeline

import (
	"context"
	"iter"
	"regexp"
)

// Options are the bounds and the place of a Log.
type Options struct {
	// MemoryBytes bounds what is kept in memory. 0 means 4 MiB.
	MemoryBytes int64
	// Dir is a private directory for the files "events" and "output.txt".
	// "" means memory only.
	Dir string
	// FileBytes bounds each of the two files. 0 means 256 MiB.
	FileBytes int64
}

// A Log is the ordered, bounded record of one session.
type Log struct{}

// New makes an empty Log. nil means all defaults.
func New(opts *Options) (*Log, error) { return &Log{}, nil }

func (l *Log) Append(e Event) Event    { return e }
func (l *Log) Last() Seq               { return 0 }
func (l *Log) Since(after Seq) []Event { return nil }
func (l *Log) Follow(ctx context.Context, after Seq) iter.Seq[Event] {
	return func(func(Event) bool) {}
}
func (l *Log) Window(after Seq, headBytes, tailBytes int) []Event { return nil }
func (l *Log) Sync()                                              {}
func (l *Log) OutputPath() string                                 { return "" }
func (l *Log) Lines(from, to int) ([]string, error)               { return nil, nil }
func (l *Log) Grep(re *regexp.Regexp, max int) ([]Line, error)    { return nil, nil }
func (l *Log) LineCount() int                                     { return 0 }
func (l *Log) Close() error                                       { return nil }

// A Line is one line of the output file.
type Line struct {
	Number int // from 1
	Text   string
}
