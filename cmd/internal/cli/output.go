package cli

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

// printJSON prints a value as indented JSON.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// bufferedWriter returns a writer to w with a large buffer, and the function that flushes it.
func bufferedWriter(w io.Writer) (io.Writer, func() error) {
	b := bufio.NewWriterSize(w, 64<<10)
	return b, b.Flush
}

// writeOutputFile writes a file completely or not at all. Our own output, such as /dev/stdout, is
// appended to. Other pipes and devices are written directly, and a link leads to its file.
func writeOutputFile(path string, write func(io.Writer) error) error {
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

// A lineBuilder builds a text line by line.
type lineBuilder struct{ strings.Builder }

// addLine adds a formatted line.
func (b *lineBuilder) addLine(format string, args ...any) { fmt.Fprintf(b, format+"\n", args...) }
