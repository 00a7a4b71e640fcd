package private

import (
	"fmt"
	"io/fs"
	"os"
)

// plain returns what path itself is, and an error when that is neither a file nor a
// directory: a link would lead to what somebody else wrote.
func plain(path string) (fs.FileInfo, error) {
	i, err := os.Lstat(path)
	if err == nil && !i.IsDir() && !i.Mode().IsRegular() {
		err = fmt.Errorf("%s is no plain file", path)
	}
	return i, err
}
