package install

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/windows"
)

// copyAccess gives a new file the permissions of the old one, which may be stricter than those
// inherited from its directory.
func copyAccess(f *os.File, old fileSnapshot) error {
	const rights = windows.DACL_SECURITY_INFORMATION
	d, err := windows.GetNamedSecurityInfo(old.target, windows.SE_FILE_OBJECT, rights)
	if err != nil {
		return err
	}
	if acl, _, err := d.DACL(); err != nil || acl == nil {
		return nil // a file system without permissions
	}
	name, err := windows.UTF16PtrFromString(f.Name())
	if err != nil {
		return err
	}
	h, err := windows.CreateFile(name, windows.WRITE_DAC,
		windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE, nil,
		windows.OPEN_EXISTING, windows.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(h)
	return windows.SetKernelObjectSecurity(h, rights, d)
}

// wouldGarble reports whether a program would receive a changed word: cmd.exe runs batch files and
// interprets these characters anywhere.
func wouldGarble(program, word string) bool {
	ext := strings.ToLower(filepath.Ext(program))
	return (ext == ".cmd" || ext == ".bat") && strings.ContainsAny(word, "%&|<>^!()\r\n")
}

// isInUse reports whether an error means that another program has the file open. For the target
// of a rename, Windows calls that access denied.
func isInUse(err error) bool {
	_, renaming := errors.AsType[*os.LinkError](err)
	return errors.Is(err, windows.ERROR_SHARING_VIOLATION) || renaming && errors.Is(err, windows.ERROR_ACCESS_DENIED)
}

// lockDir keeps our other processes from replacing files, until unlock is called by the same
// goroutine or this process ends. Directories cannot be locked, so all share one lock.
func lockDir(string) (unlock func(), err error) {
	name, err := windows.UTF16PtrFromString(`Local\turnstone-install`)
	if err != nil {
		return nil, err
	}
	h, err := windows.CreateMutex(nil, false, name)
	if err != nil && !errors.Is(err, windows.ERROR_ALREADY_EXISTS) {
		return nil, err
	}
	runtime.LockOSThread() // a mutex belongs to a thread
	got, err := windows.WaitForSingleObject(h, uint32(inUseTimeout.Milliseconds()))
	if err == nil && got != windows.WAIT_OBJECT_0 && got != windows.WAIT_ABANDONED {
		err = errChanged
	}
	if err != nil {
		runtime.UnlockOSThread()
		return nil, errors.Join(err, windows.CloseHandle(h))
	}
	return func() {
		_ = windows.ReleaseMutex(h)
		runtime.UnlockOSThread()
		_ = windows.CloseHandle(h)
	}, nil
}
