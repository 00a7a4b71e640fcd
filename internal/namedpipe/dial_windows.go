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

// busyRetryInterval is the pause between two tries to connect. Listeners have one instance of a pipe
// ready, and the next within microseconds.
const busyRetryInterval = 10 * time.Millisecond

// Dial connects to the pipe of that name. If its listener is busy, it tries until ctx ends. It
// refuses a pipe of another user, or at which a process of another user listens, before it writes a
// byte. Errors are *os.PathError; [os.ErrNotExist] when there is no such pipe.
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
			return nil, &os.PathError{Op: "open", Path: name, Err: fmt.Errorf("it is there, and takes nobody: %w", ctx.Err())}
		}
	}
}

// waitRetry waits before a pipe is tried again. It returns false when ctx ended.
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
	// The listener cannot impersonate this user, nor identify them.
	h, err := windows.CreateFile(name16, windows.GENERIC_READ|windows.GENERIC_WRITE, 0, nil, windows.OPEN_EXISTING,
		windows.FILE_FLAG_OVERLAPPED|windows.SECURITY_SQOS_PRESENT|windows.SECURITY_ANONYMOUS, 0)
	if errors.Is(err, windows.ERROR_ACCESS_DENIED) {
		err = fmt.Errorf("it belongs to another user: name another pipe, as with TURNSTONE_SOCKET: %w", err)
	}
	if err != nil {
		return nil, err
	}
	err = checkOwner(h)
	if err == nil {
		err = checkServer(h)
	}
	if err != nil {
		_ = windows.CloseHandle(h)
		return nil, err
	}
	return newConn(h, name), nil
}

// checkServer refuses a pipe at which a process of another user listens: one that may write to a pipe can
// also make further ends of it. An elevated process may be closed to this one, and then the owner of
// the pipe, which only this user's processes can have made, is all that is known.
func checkServer(h windows.Handle) error {
	var pid uint32
	if err := windows.GetNamedPipeServerProcessId(h, &pid); err != nil {
		return fmt.Errorf("the process that listens is not known: %w", err)
	}
	owner, err := processUser(pid)
	if errors.Is(err, windows.ERROR_ACCESS_DENIED) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the user of the process %d, which listens, is not known: %w", pid, err)
	}
	user, err := currentUser()
	if err != nil {
		return err
	}
	if !owner.Equals(user) {
		return fmt.Errorf("the process %d, which listens, belongs to another user (%s): name another pipe, as with TURNSTONE_SOCKET", pid, owner)
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

// checkOwner refuses a pipe that this user has not made, because any user may take a free name.
// Only administrators can give an object to another owner, and they could read this process
// as well.
func checkOwner(h windows.Handle) error {
	d, err := windows.GetSecurityInfo(h, windows.SE_KERNEL_OBJECT, windows.OWNER_SECURITY_INFORMATION)
	if err != nil {
		return fmt.Errorf("its owner is not known: %w", err)
	}
	owner, _, err := d.Owner()
	if err != nil {
		return fmt.Errorf("its owner is not known: %w", err)
	}
	user, err := currentUser()
	if err != nil {
		return err
	}
	if !owner.Equals(user) {
		return fmt.Errorf("it belongs to another user (%s): name another pipe, as with TURNSTONE_SOCKET", owner)
	}
	return nil
}
