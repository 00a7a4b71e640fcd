package monitorproto

import "golang.org/x/sys/windows"

// Causes of a failed start that a hint explains.
const (
	errNotDirectory = windows.ERROR_DIRECTORY
	errExecFormat   = windows.ERROR_BAD_EXE_FORMAT
	errTooLong      = windows.ERROR_FILENAME_EXCED_RANGE
)
