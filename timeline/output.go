package timeline

import (
	"fmt"
	"regexp"

	"github.com/turnstone-repl/turnstone/timeline/internal/store"
)

// ErrNoOutput means that there is no output file to read.
var ErrNoOutput = store.ErrNoOutput

// maxReadBytes is roughly the maximum that Lines and Grep return.
const maxReadBytes = 1 << 20

// A Line is one numbered line of the output file.
type Line struct {
	Number int    `json:"number"` // from 1
	Text   string `json:"text"`
}

// LineCount returns the number of finished lines in the output file. The last line counts once
// it, or its turn, has ended.
func (l *Log) LineCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.outputLines
}

// Lines returns the lines from..to of the output file that exist, numbered from 1. It returns
// at most about 1 MiB, and at most 64 KiB of a line.
func (l *Log) Lines(from, to int) ([]string, error) {
	if from < 1 || to < from {
		return nil, fmt.Errorf("timeline: lines %d-%d: want numbers from 1 on, the smaller first", from, to)
	}
	var lines []string
	left := maxReadBytes
	err := l.scanOutput(from, func(n int, text []byte, _ *store.LongLine) bool {
		if n > to || left < len(text) {
			return false
		}
		left -= len(text) + 1
		lines = append(lines, string(text))
		return true
	})
	return lines, err
}

// Grep returns the first max lines of the output file that match, at most about 1 MiB. Of a
// line with more than 64 KiB it returns the text around the match, preceded by "…" if that is
// not the beginning.
func (l *Log) Grep(re *regexp.Regexp, max int) ([]Line, error) {
	var lines []Line
	left := maxReadBytes
	err := l.scanOutput(1, func(n int, text []byte, rest *store.LongLine) bool {
		if len(lines) >= max || left <= 0 {
			return false
		}
		if rest != nil {
			var found bool
			if text, found = rest.Excerpt(re); !found {
				return true
			}
		} else if !re.Match(text) {
			return true
		}
		left -= len(text) + 1
		lines = append(lines, Line{n, string(text)})
		return true
	})
	return lines, err
}

// scanOutput calls line for each finished line of the output file, starting with number from.
// See ScanOutputFile.
func (l *Log) scanOutput(from int, line func(number int, text []byte, rest *store.LongLine) bool) error {
	l.Sync()
	l.mu.Lock()
	path, last, marks := l.outputPathLocked(), l.outputLines, l.lineMarks
	l.mu.Unlock()
	if path == "" {
		return store.ErrNoOutput
	}
	return store.ScanOutputFile(path, last, marks, from, line)
}
