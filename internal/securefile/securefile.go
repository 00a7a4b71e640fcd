package securefile

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/turnstone-repl/turnstone/internal/atomicfile"
)

// Write replaces the file at path by one that contains data, or creates it. Readers see the old or the new
// file.
func Write(path string, data []byte) error {
	temp, err := CreateTemp(filepath.Dir(path), filepath.Base(path)+".new-")
	if err != nil {
		return err
	}
	f := atomicfile.Adopt(temp, path)
	defer f.Abort()
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Commit()
}

// statFileOrDir describes path, and returns an error unless it is a regular file or a directory. A
// link could lead to a file of another user.
func statFileOrDir(path string) (fs.FileInfo, error) {
	i, err := os.Lstat(path)
	if err == nil && !i.IsDir() && !i.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	return i, err
}
