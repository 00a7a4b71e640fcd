package host

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// StagePID is the process id of a worker's stage.
func StagePID(p *Process) int { return p.carrier.(*staged).pid }

// HandleCount is how many handles this process has.
func HandleCount() (int, error) {
	var n uint32
	ok, _, err := kernel32.NewProc("GetProcessHandleCount").Call(uintptr(windows.CurrentProcess()), uintptr(unsafe.Pointer(&n)))
	if ok == 0 {
		return 0, err
	}
	return int(n), nil
}
