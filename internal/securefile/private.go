package securefile

import (
	"fmt"
	"io/fs"
	"os"
)

// statFileOrDir describes path, and returns an error if it is neither a file nor a directory: a link
// could lead to a file of another user.
func statFileOrDir(path string) (fs.FileInfo, error) {
	i, err := os.Lstat(path)
	if err == nil && !i.IsDir() && !i.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	return i, err
}
