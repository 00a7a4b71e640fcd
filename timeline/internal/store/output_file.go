package store

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"sort"
	"unicode/utf8"
)

// maxReturnedLineBytes bounds one line that is returned.
const maxReturnedLineBytes = 64 << 10

// ErrNoOutput means that there is no output file to read.
var ErrNoOutput = errors.New("timeline: no output file: the log is in memory only, the disk was full, or the file was removed")

const (
	excerptBytes       = 4 << 10 // approximate length of the shown part of a long line
	excerptBytesBefore = 200     // the part of it before the match
)

// A LongLine is a line that is too long to be returned whole. It is read rune by rune.
type LongLine struct {
	head   []byte        // the part that was read from the file
	file   *bufio.Reader // the rest
	ended  bool          // its newline has been read
	err    error         // of the file
	random io.ReaderAt   // the file again, for the text around a match
	offset int64         // of the line in random
}

// ReadRune implements io.RuneReader.
func (l *LongLine) ReadRune() (rune, int, error) {
	for !utf8.FullRune(l.head) && l.readByte() { // the rest of the rune is in the file
	}
	if len(l.head) == 0 {
		return 0, 0, io.EOF
	}
	c, n := utf8.DecodeRune(l.head)
	l.head = l.head[n:]
	return c, n, nil
}

// readByte reads one more byte of the line into head.
func (l *LongLine) readByte() bool {
	if l.ended || l.err != nil {
		return false
	}
	b, err := l.file.ReadByte()
	switch {
	case err != nil:
		l.err = err
		return false
	case b == '\n':
		l.ended = true
		return false
	}
	l.head = append(l.head, b)
	return true
}

// Excerpt returns the text around the first match. It must be called before the line is read.
func (l *LongLine) Excerpt(re *regexp.Regexp) (text []byte, found bool) {
	at := re.FindReaderIndex(l)
	if at == nil {
		return nil, false
	}
	from := max(0, at[0]-excerptBytesBefore)
	text = make([]byte, excerptBytes)
	n, err := l.random.ReadAt(text, l.offset+int64(from))
	if err != nil && err != io.EOF {
		l.err = err
	}
	text = text[:n]
	if end := bytes.IndexByte(text, '\n'); end >= 0 {
		text = text[:end]
	}
	if from > 0 {
		text = append([]byte("…"), text...)
	}
	return text, true
}

// skipRest reads up to the end of the line.
func (l *LongLine) skipRest() error {
	for !l.ended && l.err == nil {
		_, err := l.file.ReadSlice('\n')
		if err == nil {
			l.ended = true
		} else if err != bufio.ErrBufferFull {
			l.err = err
		}
	}
	return l.err
}

// ScanOutputFile calls line for each line of the output file up to last, starting with number from.
// marks are the known positions of some lines. text has at most maxReturnedLineBytes; a longer line
// also comes as rest. Both are valid only during the call.
func ScanOutputFile(path string, last int, marks []LineMark, from int, line func(number int, text []byte, rest *LongLine) bool) error {
	start := LineMark{line: 1}
	if i := sort.Search(len(marks), func(i int) bool { return marks[i].line > from }); i > 0 {
		start = marks[i-1]
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s was removed", ErrNoOutput, path)
	}
	if err != nil {
		return fmt.Errorf("timeline: output file: %w", err)
	}
	defer f.Close()
	if _, err := f.Seek(start.offset, io.SeekStart); err != nil {
		return fmt.Errorf("timeline: output file: %w", err)
	}
	position := &countingReader{r: f, bytesRead: start.offset}
	r := bufio.NewReaderSize(position, maxReturnedLineBytes+1)
	for n := start.line; n <= last; n++ {
		offset := position.bytesRead - int64(r.Buffered())
		text, err := r.ReadSlice('\n')
		var rest *LongLine
		switch err {
		case nil:
			text = text[:len(text)-1]
		case bufio.ErrBufferFull:
			text = append([]byte(nil), text...)
			rest = &LongLine{head: text, file: r, random: f, offset: offset}
			text, err = text[:maxReturnedLineBytes:maxReturnedLineBytes], nil
		}
		if err != nil {
			return fmt.Errorf("timeline: output file: line %d: %w", n, err)
		}
		if n >= from && !line(n, text, rest) {
			return nil
		}
		if rest != nil {
			if err := rest.skipRest(); err != nil {
				return fmt.Errorf("timeline: output file: line %d: %w", n, err)
			}
		}
	}
	return nil
}

// A countingReader counts the bytes that were read from a file.
type countingReader struct {
	r         io.Reader
	bytesRead int64
}

func (r *countingReader) Read(b []byte) (int, error) {
	n, err := r.r.Read(b)
	r.bytesRead += int64(n)
	return n, err
}
