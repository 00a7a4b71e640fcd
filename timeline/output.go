package timeline

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"sort"
)

const (
	maxReadBytes = 1 << 20  // what Lines and Grep return at most, about
	maxCutBytes  = 64 << 10 // of one line in what they return
)

// A Line is a line of the output file.
type Line struct {
	Number int // from 1
	Text   string
}

// ErrNoOutput says that there is no output file to read.
var ErrNoOutput = errors.New("timeline: no output file: the log is in memory only, or its disk was full")

// LineCount is the number of finished lines in the output file. The line that is
// being written is not among them until it is finished or its turn ends.
func (l *Log) LineCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines
}

// Lines returns these lines of the output file, numbered from 1, both included:
// those that exist, about 1 MiB at most, each up to 64 KiB.
func (l *Log) Lines(from, to int) ([]string, error) {
	if from < 1 || to < from {
		return nil, fmt.Errorf("timeline: lines %d-%d: want numbers from 1 on, the smaller first", from, to)
	}
	var lines []string
	left := maxReadBytes
	err := l.scan(from, func(n int, text []byte) bool {
		if n > to || left < len(text) {
			return false
		}
		left -= len(text) + 1
		lines = append(lines, string(text))
		return true
	})
	return lines, err
}

// Grep returns the lines of the output file that match, the first max of them,
// about 1 MiB at most. Only the first 64 KiB of a line are looked at.
func (l *Log) Grep(re *regexp.Regexp, max int) ([]Line, error) {
	var lines []Line
	left := maxReadBytes
	err := l.scan(1, func(n int, text []byte) bool {
		if len(lines) >= max || left <= 0 {
			return false
		}
		if re.Match(text) {
			left -= len(text) + 1
			lines = append(lines, Line{n, string(text)})
		}
		return true
	})
	return lines, err
}

// scan hands over the finished lines of the output file from one on, each up to
// maxCutBytes. The text is valid during the call only.
func (l *Log) scan(from int, line func(number int, text []byte) bool) error {
	l.Sync()
	l.mu.Lock()
	path, last, marks := l.outputPathLocked(), l.lines, l.marks
	l.mu.Unlock()
	if path == "" {
		return ErrNoOutput
	}
	start := lineMark{line: 1}
	if i := sort.Search(len(marks), func(i int) bool { return marks[i].line > from }); i > 0 {
		start = marks[i-1]
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("timeline: output file: %w", err)
	}
	defer f.Close()
	if _, err := f.Seek(start.offset, io.SeekStart); err != nil {
		return fmt.Errorf("timeline: output file: %w", err)
	}
	r := bufio.NewReaderSize(f, maxCutBytes+1)
	for n := start.line; n <= last; n++ {
		text, err := r.ReadSlice('\n')
		if err == nil {
			text = text[:len(text)-1]
		} else if err == bufio.ErrBufferFull {
			text = append([]byte(nil), text[:maxCutBytes]...)
			for err == bufio.ErrBufferFull {
				_, err = r.ReadSlice('\n')
			}
		}
		if err != nil {
			return fmt.Errorf("timeline: output file: line %d: %w", n, err)
		}
		if n >= from && !line(n, text) {
			return nil
		}
	}
	return nil
}
