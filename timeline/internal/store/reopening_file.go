package store

import (
	"fmt"
	"io"
	"os"
)

// CreateFunc creates a file. Tests replace it to simulate failing disks.
type CreateFunc func(path string) (io.WriteCloser, error)

// A reopeningFile is a file that is open only while it is written. There are many sessions,
// most of them idle, and a program may have only so many open files.
type reopeningFile struct {
	path    string
	created os.FileInfo // of the file as it was created
	size    int64       // bytes written to it
	file    *os.File    // nil while closed
}

// CreateFile creates or empties a file that only the user can read. It is the CreateFunc of a log.
func CreateFile(path string) (io.WriteCloser, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	made, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &reopeningFile{path: path, created: made, file: f}, nil
}

// Write appends b. It returns an error if the path no longer names the file that was created.
func (r *reopeningFile) Write(b []byte) (int, error) {
	if r.file == nil && len(b) > 0 {
		f, err := os.OpenFile(r.path, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return 0, err
		}
		now, err := f.Stat()
		if err == nil && (!os.SameFile(r.created, now) || now.Size() != r.size) { // an inode number may be reused
			err = fmt.Errorf("%s was replaced", r.path)
		}
		if err != nil {
			f.Close()
			return 0, err
		}
		r.file = f
	}
	if len(b) == 0 {
		return 0, nil
	}
	n, err := r.file.Write(b)
	r.size += int64(n)
	return n, err
}

// closeUntilWrite closes the file until the next Write.
func (r *reopeningFile) closeUntilWrite() { _ = r.Close() }

func (r *reopeningFile) Close() error {
	if r.file == nil {
		return nil
	}
	f := r.file
	r.file = nil
	return f.Close()
}
