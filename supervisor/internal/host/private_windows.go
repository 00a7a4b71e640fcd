package host

import (
	"os"

	"golang.org/x/sys/windows"
)

// FoldEnv says whether the names of environment variables are compared
// without case.
const FoldEnv = true

// What a start may fail of.
const (
	errNotDirectory = windows.ERROR_DIRECTORY
	errNoProgram    = windows.ERROR_BAD_EXE_FORMAT
	errTooLong      = windows.ERROR_FILENAME_EXCED_RANGE
)

// OwnedByUs reports whether the file belongs to the user of this process. The
// temporary directory of Windows is the user's own.
func OwnedByUs(os.FileInfo) bool { return true }

// Lock opens a file, which it makes, unless somebody has it open: on Windows an
// open file cannot be removed, which is all that the lock is for.
func Lock(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
}
