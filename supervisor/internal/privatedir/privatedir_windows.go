package privatedir

import (
	"os"

	"golang.org/x/sys/windows"
)

// IsOwnedByUser reports whether the file belongs to the user of this process. It is true on
// Windows, where the temporary directory is the user's own.
func IsOwnedByUser(os.FileInfo) bool { return true }

// IsWritableByOthers reports whether other users may write to the file. On Windows the
// mode of a file does not show that; the directory decides: see IsOwnedByUser.
func IsWritableByOthers(os.FileInfo) bool { return false }

// DirName returns the name of our directory in the temporary directory, which is
// the user's own.
func DirName() string { return "turnstone" }

// LockFile creates the file if needed and locks it. It fails if another process or holder has the
// lock. Closing the file, or the end of this process, releases it. The file may be removed while
// it is locked.
func LockFile(path string) (*os.File, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	h, err := windows.CreateFile(name, windows.GENERIC_READ|windows.GENERIC_WRITE,
		windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE, nil,
		windows.OPEN_ALWAYS, windows.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	err = windows.LockFileEx(h, windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &windows.Overlapped{})
	if err != nil {
		_ = windows.CloseHandle(h)
		return nil, &os.PathError{Op: "lock", Path: path, Err: err}
	}
	return os.NewFile(uintptr(h), path), nil
}
