package winpipe

import (
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// BufferBytes is the size of the buffer of each pipe in bytes.
const BufferBytes = 64 << 10

// ErrAcceptStopped is returned by Pipe.AwaitClient if one of its stops was signalled.
var ErrAcceptStopped = errors.New("no process connected")

// A Pipe is this side's end of a one-way named pipe for exactly one process. Only the user's own
// processes on this machine can connect, and AwaitClient rejects all but the right one.
type Pipe struct {
	Name       string
	Handle     windows.Handle     // owned until File is set
	File       *os.File           // set by AwaitClient, from then on the owner of Handle
	overlapped windows.Overlapped // here, not on a stack: the kernel writes to it later
}

// ListenAt creates a pipe with this path; access is the direction from this side's view.
func ListenAt(path string, access uint32) (*Pipe, error) {
	owner, err := OwnerOnlySecurity()
	if err != nil {
		return nil, err
	}
	p := &Pipe{Name: path}
	name, err := windows.UTF16PtrFromString(p.Name)
	if err != nil {
		return nil, err
	}
	p.Handle, err = windows.CreateNamedPipe(name,
		access|windows.FILE_FLAG_OVERLAPPED|windows.FILE_FLAG_FIRST_PIPE_INSTANCE,
		windows.PIPE_TYPE_BYTE|windows.PIPE_READMODE_BYTE|windows.PIPE_WAIT|windows.PIPE_REJECT_REMOTE_CLIENTS,
		1, BufferBytes, BufferBytes, 0, owner)
	if err != nil {
		return nil, fmt.Errorf("create a named pipe: %w", err)
	}
	return p, nil
}

// OwnerOnlySecurity returns security attributes that allow access to the user of this process only.
func OwnerOnlySecurity() (*windows.SecurityAttributes, error) {
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return nil, fmt.Errorf("get the user of this process: %w", err)
	}
	descriptor, err := windows.SecurityDescriptorFromString("D:P(A;;GA;;;" + user.User.Sid.String() + ")")
	if err != nil {
		return nil, err
	}
	sa := &windows.SecurityAttributes{SecurityDescriptor: descriptor}
	sa.Length = uint32(unsafe.Sizeof(*sa))
	return sa, nil
}

// AwaitClient waits until a process for which belongs is true has connected. It fails at the
// deadline (zero: none), or when one of stops is signalled.
func (p *Pipe) AwaitClient(belongs func(pid int) bool, deadline time.Time, stops ...windows.Handle) error {
	event, err := windows.CreateEvent(nil, 1, 0, nil)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(event)
	for {
		p.overlapped = windows.Overlapped{HEvent: event}
		err := windows.ConnectNamedPipe(p.Handle, &p.overlapped)
		switch {
		case err == nil, errors.Is(err, windows.ERROR_PIPE_CONNECTED):
		case errors.Is(err, windows.ERROR_IO_PENDING):
			if err := p.awaitConnection(event, deadline, stops); err != nil {
				return err
			}
		case errors.Is(err, windows.ERROR_NO_DATA): // a client connected and left again
			_ = windows.DisconnectNamedPipe(p.Handle)
			continue
		default:
			return fmt.Errorf("wait for a client: %w", err)
		}
		var pid uint32
		if windows.GetNamedPipeClientProcessId(p.Handle, &pid) == nil && belongs(int(pid)) {
			p.File = os.NewFile(uintptr(p.Handle), p.Name)
			return nil
		}
		_ = windows.DisconnectNamedPipe(p.Handle)
	}
}

// awaitConnection waits for the connection that has been started.
func (p *Pipe) awaitConnection(event windows.Handle, deadline time.Time, stops []windows.Handle) error {
	limit := uint32(windows.INFINITE)
	if !deadline.IsZero() {
		limit = uint32(max(0, time.Until(deadline).Milliseconds()))
	}
	got, err := windows.WaitForMultipleObjects(append([]windows.Handle{event}, stops...), false, limit)
	var n uint32
	if err == nil && got == windows.WAIT_OBJECT_0 {
		return windows.GetOverlappedResult(p.Handle, &p.overlapped, &n, false)
	}
	_ = windows.CancelIoEx(p.Handle, &p.overlapped)
	if windows.GetOverlappedResult(p.Handle, &p.overlapped, &n, true) == nil {
		return nil // connected at the last moment
	}
	switch {
	case got == uint32(windows.WAIT_TIMEOUT):
		return os.ErrDeadlineExceeded
	case err != nil:
		return err
	}
	return ErrAcceptStopped
}

// Close closes the pipe.
func (p *Pipe) Close() error {
	if p.File != nil {
		return p.File.Close()
	}
	return windows.CloseHandle(p.Handle)
}
