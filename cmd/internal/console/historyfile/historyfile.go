// Package historyfile stores the inputs that a user has typed, for later runs of the program. A
// file belongs to one user, and several programs may use it at the same time. The package knows no
// terminal and no language, and starts no goroutines.
package historyfile

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/atomicfile"
	"github.com/turnstone-repl/turnstone/internal/paths"
)

const (
	// MaxTexts bounds the remembered texts. A file with twice as many texts is trimmed to MaxTexts.
	MaxTexts = 2000

	// maxTextBytes bounds one remembered text, in bytes.
	maxTextBytes = 64 << 10

	// continuationMark begins each further line of a text in the file. No text contains it, because
	// no key produces it.
	continuationMark = "\x1f"
)

// A TextFile stores the texts that were typed, oldest first, in a file of the user. Several
// programs may append to it at the same time. A text of one line is a line of the file.
type TextFile struct {
	Path string // "" remembers nothing after this run
}

// LoadTexts returns the last MaxTexts texts, the oldest first. A missing file counts as empty. It
// may return texts together with an error, if only the trimming of the file failed.
func (h TextFile) LoadTexts() ([]string, error) {
	if h.Path == "" {
		return nil, nil
	}
	f, err := os.Open(h.Path)
	if os.IsNotExist(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	var texts []string
	total := 0
	in := bufio.NewReaderSize(f, maxTextBytes+2)
	for {
		line, err := readLine(in)
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if more, ok := strings.CutPrefix(line, continuationMark); ok && len(texts) > 0 {
			texts[len(texts)-1] += "\n" + more
			continue
		}
		total++
		if texts = append(texts, line); len(texts) > 2*MaxTexts {
			texts = append(texts[:0], texts[MaxTexts:]...)
		}
	}
	texts = slices.DeleteFunc(texts, func(t string) bool { return !isWorthSaving(t) })
	texts = texts[max(0, len(texts)-MaxTexts):]
	_ = f.Close() // Windows cannot replace an open file
	if total >= 2*MaxTexts {
		return texts, h.rewriteFile(texts)
	}
	return texts, nil
}

// readLine returns a line. A line longer than any of our texts gets a mark that no text has, so it
// is ignored.
func readLine(in *bufio.Reader) (string, error) {
	line, long, err := in.ReadLine()
	text := strings.ToValidUTF8(string(line), "\ufffd") // the editor compares the texts that it has found
	for long && err == nil {
		text = text[:1] + continuationMark
		_, long, err = in.ReadLine()
	}
	return text, err
}

// encodeEntry returns the form of a text in the file.
func encodeEntry(text string) string {
	return strings.ReplaceAll(text, "\n", "\n"+continuationMark) + "\n"
}

// rewriteFile replaces the file atomically.
func (h TextFile) rewriteFile(texts []string) error {
	path, err := paths.Real(h.Path) // a symbolic link stays a link
	if err != nil {
		return err
	}
	var all strings.Builder
	for _, text := range texts {
		all.WriteString(encodeEntry(text))
	}
	return atomicfile.Write(path, []byte(all.String()), 0o600)
}

// AppendText appends one text, and creates the file and its directory if necessary. It ignores a
// text that is blank or has more than 64 KiB.
func (h TextFile) AppendText(text string) error {
	if h.Path == "" || !isWorthSaving(text) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(h.Path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(h.Path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(lineEnd(f) + encodeEntry(text))
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

// lineEnd returns "\n" if the last line of the file is incomplete, as after a full disk; otherwise "".
func lineEnd(f *os.File) string {
	last := make([]byte, 1)
	if i, err := f.Stat(); err == nil && i.Size() > 0 {
		if _, err := f.ReadAt(last, i.Size()-1); err == nil && last[0] != '\n' {
			return "\n"
		}
	}
	return ""
}

// isWorthSaving reports whether a text is worth remembering in the file.
func isWorthSaving(text string) bool {
	return strings.TrimSpace(text) != "" && len(text) <= maxTextBytes && !strings.Contains(text, continuationMark)
}
