package cmdkit

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Streams holds the three standard streams of a command.
type Streams struct {
	In       *os.File
	Out, Err io.Writer
}

// StreamOrNull returns a standard stream, or the null device if it does not exist. On Windows, a
// program without a console may start others without streams. Elsewhere the Go runtime does this.
func StreamOrNull(f *os.File) *os.File {
	if _, err := f.Stat(); err == nil {
		return f
	}
	if empty, err := os.OpenFile(os.DevNull, os.O_RDWR, 0); err == nil {
		return empty
	}
	return f
}

// IsBrokenPipe reports whether err comes from writing to w after its reader is gone, as with head.
func IsBrokenPipe(w io.Writer, err error) bool {
	file, isFile := w.(*os.File)
	pathErr, ok := errors.AsType[*fs.PathError](err)
	return ok && isFile && pathErr.Path == file.Name() && errors.Is(pathErr, syscall.EPIPE)
}
