package pipe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/windows"
)

// busyPause is how long a client waits before it knocks again where nobody opens.
// Listeners have one instance of a pipe ready, and the next within microseconds.
const busyPause = 10 * time.Millisecond

// Dial connects to the pipe of that name, for as long as ctx if its listener is busy.
// A pipe of somebody else's is refused before a byte is written to it. Errors are
// *os.PathError; [os.ErrNotExist] when there is no such pipe.
func Dial(ctx context.Context, name string) (net.Conn, error) {
	for {
		c, err := open(name)
		if !errors.Is(err, windows.ERROR_PIPE_BUSY) {
			if err != nil {
				return nil, &os.PathError{Op: "open", Path: name, Err: err}
			}
			return c, nil
		}
		if !pause(ctx) {
			return nil, &os.PathError{Op: "open", Path: name, Err: fmt.Errorf("it is there, and takes nobody: %w", ctx.Err())}
		}
	}
}

// pause waits before a pipe is tried again. It returns false when ctx ended.
func pause(ctx context.Context) bool {
	timer := time.NewTimer(busyPause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// open connects to a pipe that has an instance ready.
func open(name string) (*conn, error) {
	if err := check(name); err != nil {
		return nil, err
	}
	name16, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return nil, err
	}
	// Whoever listens cannot act as this user: of that it learns nothing.
	h, err := windows.CreateFile(name16, windows.GENERIC_READ|windows.GENERIC_WRITE, 0, nil, windows.OPEN_EXISTING,
		windows.FILE_FLAG_OVERLAPPED|windows.SECURITY_SQOS_PRESENT|windows.SECURITY_ANONYMOUS, 0)
	if errors.Is(err, windows.ERROR_ACCESS_DENIED) {
		err = fmt.Errorf("it belongs to another user: name another pipe with --socket or REPL_SOCKET: %w", err)
	}
	if err != nil {
		return nil, err
	}
	if err := owned(h); err != nil {
		_ = windows.CloseHandle(h)
		return nil, err
	}
	return newConn(h, name), nil
}

// owned refuses a pipe that this user has not made: anybody may take a name that is
// free. Only administrators can make somebody else the owner of a thing, and they
// could look into this process as well.
func owned(h windows.Handle) error {
	d, err := windows.GetSecurityInfo(h, windows.SE_KERNEL_OBJECT, windows.OWNER_SECURITY_INFORMATION)
	if err != nil {
		return fmt.Errorf("its owner is not known: %w", err)
	}
	owner, _, err := d.Owner()
	if err != nil {
		return fmt.Errorf("its owner is not known: %w", err)
	}
	user, err := self()
	if err != nil {
		return err
	}
	if !owner.Equals(user) {
		return fmt.Errorf("it belongs to another user (%s): name another pipe with --socket or REPL_SOCKET", owner)
	}
	return nil
}
