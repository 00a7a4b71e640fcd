package stdio

import (
	"errors"

	"golang.org/x/sys/windows"
)

// openProcess returns a function that waits for the end of a process; nil if there is none. The
// handle keeps to its process, even after the number belongs to another one.
func openProcess(pid int) (wait func(), err error) {
	h, err := windows.OpenProcess(windows.SYNCHRONIZE, false, uint32(pid))
	if errors.Is(err, windows.ERROR_INVALID_PARAMETER) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return func() { _, _ = windows.WaitForSingleObject(h, windows.INFINITE) }, nil
}
