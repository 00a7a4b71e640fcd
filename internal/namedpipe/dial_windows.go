package namedpipe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/windows"
)

// busyRetryInterval is the pause between two attempts to connect. A listener has one instance of
// the pipe ready, and creates the next one within microseconds.
const busyRetryInterval = 10 * time.Millisecond

// Dial connects to the pipe with a name. While the listener is busy, it retries until ctx ends.
// Before it writes a byte, it refuses a pipe of another user, and one at which a process of another
// user listens. Errors are *os.PathError; [os.ErrNotExist] means that there is no such pipe.
func Dial(ctx context.Context, name string) (net.Conn, error) {
	for {
		c, err := openPipe(name)
		if !errors.Is(err, windows.ERROR_PIPE_BUSY) {
			if err != nil {
				return nil, &os.PathError{Op: "open", Path: name, Err: err}
			}
			return c, nil
		}
		if !waitRetry(ctx) {
			return nil, &os.PathError{Op: "open", Path: name, Err: fmt.Errorf("pipe exists but accepts no connections: %w", ctx.Err())}
		}
	}
}

// waitRetry waits before the next attempt. It returns false if ctx has ended.
func waitRetry(ctx context.Context) bool {
	timer := time.NewTimer(busyRetryInterval)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// openPipe connects to a pipe that has an instance ready.
func openPipe(name string) (*conn, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	name16, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return nil, err
	}
	// The listener can neither impersonate nor identify this user.
	h, err := windows.CreateFile(name16, windows.GENERIC_READ|windows.GENERIC_WRITE, 0, nil, windows.OPEN_EXISTING,
		windows.FILE_FLAG_OVERLAPPED|windows.SECURITY_SQOS_PRESENT|windows.SECURITY_ANONYMOUS, 0)
	if errors.Is(err, windows.ERROR_ACCESS_DENIED) {
		err = fmt.Errorf("pipe of another user; name another one, for example with TURNSTONE_SOCKET: %w", err)
	}
	if err != nil {
		return nil, err
	}
	err = checkOwner(h)
	if err == nil {
		err = checkServerUser(h)
	}
	if err != nil {
		_ = windows.CloseHandle(h)
		return nil, err
	}
	return newConn(h, name), nil
}

// checkServerUser returns an error if a process of another user listens at a pipe. A process that may
// write to a pipe can also create further instances of it. If the process is elevated and this one
// cannot inspect it, checkServerUser trusts the owner of the pipe, which only processes of this user
// can have created.
func checkServerUser(h windows.Handle) error {
	var pid uint32
	if err := windows.GetNamedPipeServerProcessId(h, &pid); err != nil {
		return fmt.Errorf("unknown process at the other end of the pipe: %w", err)
	}
	owner, err := processUser(pid)
	if errors.Is(err, windows.ERROR_ACCESS_DENIED) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("unknown user of process %d, which listens at the pipe: %w", pid, err)
	}
	user, err := currentUser()
	if err != nil {
		return err
	}
	if !owner.Equals(user) {
		return fmt.Errorf("process %d, which listens at the pipe, belongs to another user (%s); name another pipe, for example with TURNSTONE_SOCKET", pid, owner)
	}
	return nil
}

// processUser returns the user of a process.
func processUser(pid uint32) (*windows.SID, error) {
	process, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, pid)
	if err != nil {
		return nil, err
	}
	defer windows.CloseHandle(process)
	var token windows.Token
	if err := windows.OpenProcessToken(process, windows.TOKEN_QUERY, &token); err != nil {
		return nil, err
	}
	defer token.Close()
	user, err := token.GetTokenUser()
	if err != nil {
		return nil, err
	}
	return user.User.Sid, nil
}

// checkOwner returns an error if this user did not create the pipe, because any user may take a
// free name. Only administrators can give an object to another owner, and they could read this
// process as well.
func checkOwner(h windows.Handle) error {
	d, err := windows.GetSecurityInfo(h, windows.SE_KERNEL_OBJECT, windows.OWNER_SECURITY_INFORMATION)
	if err != nil {
		return fmt.Errorf("unknown owner of the pipe: %w", err)
	}
	owner, _, err := d.Owner()
	if err != nil {
		return fmt.Errorf("unknown owner of the pipe: %w", err)
	}
	user, err := currentUser()
	if err != nil {
		return err
	}
	if !owner.Equals(user) {
		return fmt.Errorf("pipe of another user (%s); name another one, for example with TURNSTONE_SOCKET", owner)
	}
	return nil
}
