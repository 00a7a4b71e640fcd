package terminal

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	// historyLines bounds the lines that are remembered. The file is cut back to it
	// when it has grown to twice as many.
	historyLines = 2000

	// maxHistoryLine bounds one remembered line, in bytes.
	maxHistoryLine = 4096
)

// A history keeps the lines that were typed, oldest first, in a file of the user. Several
// programs may append to it at the same time.
type history struct {
	path string // "" remembers nothing beyond this run
}

// load returns the last historyLines lines. A file that is not there is empty.
func (h history) load() ([]string, error) {
	if h.path == "" {
		return nil, nil
	}
	f, err := os.Open(h.path)
	if os.IsNotExist(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	var lines []string
	total := 0
	in := bufio.NewScanner(f)
	in.Buffer(make([]byte, 0, 4096), 1<<20)
	for in.Scan() {
		if !keep(in.Text()) {
			continue
		}
		total++
		lines = append(lines, in.Text())
		if len(lines) >= 2*historyLines {
			lines = append(lines[:0], lines[historyLines:]...)
		}
	}
	if err := in.Err(); err != nil {
		return nil, err
	}
	lines = lines[max(0, len(lines)-historyLines):]
	_ = f.Close() // Windows cannot replace an open file
	if total >= 2*historyLines {
		return lines, h.rewrite(lines)
	}
	return lines, nil
}

// rewrite replaces the file, whole or not at all.
func (h history) rewrite(lines []string) error {
	f, err := os.CreateTemp(filepath.Dir(h.path), filepath.Base(h.path)+"-") // mode 0600
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, strings.Join(lines, "\n"))
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), h.path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// add appends one line.
func (h history) add(line string) error {
	if h.path == "" || !keep(line) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(h.path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(h.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

// keep reports whether a line is worth remembering.
func keep(line string) bool {
	return strings.TrimSpace(line) != "" && len(line) <= maxHistoryLine
}
