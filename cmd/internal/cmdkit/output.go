package cmdkit

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/atomicfile"
	"github.com/turnstone-repl/turnstone/internal/paths"
)

// PrintJSON prints a value as indented JSON.
func PrintJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// BufferedWriter returns a writer to w with a large buffer, and the function that flushes it.
func BufferedWriter(w io.Writer) (io.Writer, func() error) {
	b := bufio.NewWriterSize(w, 64<<10)
	return b, b.Flush
}

// WriteOutputFile writes a file completely or not at all. Our own output, such as /dev/stdout, is
// appended to. Other pipes and devices are written directly, and a link leads to its file.
func WriteOutputFile(path string, write func(io.Writer) error) error {
	info, err := os.Stat(path)
	if stdout, e := os.Stdout.Stat(); err == nil && e == nil && os.SameFile(info, stdout) {
		return write(os.Stdout)
	}
	if err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		err = write(f)
		return errors.Join(err, f.Close())
	}
	f, err := atomicfile.Create(paths.RealOrSame(path), 0o600)
	if err != nil {
		return err
	}
	defer f.Abort()
	if err := write(f); err != nil {
		return err
	}
	return f.Commit()
}

// A LineBuilder builds a text line by line.
type LineBuilder struct{ strings.Builder }

// AddLine adds a formatted line.
func (b *LineBuilder) AddLine(format string, args ...any) { fmt.Fprintf(b, format+"\n", args...) }
