package namedpipe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// takenTimeout bounds the check whether an existing pipe is served. The name of a pipe stays taken
// until the clients of an ended server have noticed its end.
const takenTimeout = 2 * time.Second

// An InUseError means that another process of this user listens at a pipe.
type InUseError struct {
	Name string
	PID  uint32 // 0 if the process accepts no connections
}

func (e *InUseError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s exists but accepts no connections", e.Name)
	}
	return fmt.Sprintf("process %d already listens at %s", e.PID, e.Name)
}

// A Listener accepts connections at a pipe, only from processes of this user on this machine: the
// kernel refuses all others. It is safe for concurrent use.
type Listener struct {
	name  string
	owner *windows.SECURITY_DESCRIPTOR
	stop  windows.Handle // an event, set by Close

	closing        sync.Once
	mu             sync.Mutex
	connectEvent   windows.Handle     // guarded by mu; an event
	pendingConnect windows.Overlapped // guarded by mu; not on a stack, because the kernel writes to it later
	next           windows.Handle     // guarded by mu; the instance for the next client; 0 when closed
}

// Listen creates the pipe with a name, and never shares it with another process. If a process of
// this user has the name, the error is an *InUseError. That takes 2 s if the process accepts no
// client.
func Listen(name string) (*Listener, error) {
	if err := checkName(name); err != nil {
		return nil, fmt.Errorf("cannot listen at %s: %w", name, err)
	}
	l := &Listener{name: name}
	err := l.prepareListener()
	if err == nil {
		err = l.claimPipe()
	}
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

// prepareListener creates the security descriptor and the events.
func (l *Listener) prepareListener() (err error) {
	if l.owner, err = ownerOnlyDescriptor(); err != nil {
		return fmt.Errorf("cannot restrict the pipe to this user: %w", err)
	}
	for _, event := range []*windows.Handle{&l.stop, &l.connectEvent} {
		if *event, err = windows.CreateEvent(nil, 1, 0, nil); err != nil {
			return err
		}
	}
	return nil
}

// ownerOnlyDescriptor returns a descriptor that allows access to this user only, and makes the user
// the owner. Otherwise an object that an administrator creates would belong to all administrators.
func ownerOnlyDescriptor() (*windows.SECURITY_DESCRIPTOR, error) {
	user, err := currentUser()
	if err != nil {
		return nil, err
	}
	return windows.SecurityDescriptorFromString(fmt.Sprintf("O:%sD:P(A;;GA;;;%s)", user, user))
}

// claimPipe creates the first instance, or finds the process that has it.
func (l *Listener) claimPipe() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), takenTimeout)
	defer cancel()
	for {
		l.next, err = l.newInstance(windows.FILE_CREATE)
		if !errors.Is(err, windows.ERROR_ACCESS_DENIED) && !errors.Is(err, windows.ERROR_PIPE_BUSY) {
			return err
		}
		c, dialErr := openPipe(l.name)
		switch {
		case dialErr == nil:
			served := &InUseError{Name: l.name}
			if raw, err := c.file.SyscallConn(); err == nil {
				_ = raw.Control(func(h uintptr) { _ = windows.GetNamedPipeServerProcessId(windows.Handle(h), &served.PID) })
			}
			_ = c.Close()
			return served
		case errors.Is(dialErr, windows.ERROR_FILE_NOT_FOUND), errors.Is(dialErr, windows.ERROR_PIPE_BUSY):
		default:
			return fmt.Errorf("cannot listen at %s: %w", l.name, dialErr)
		}
		if waitRetry(ctx) {
			continue
		}
		if errors.Is(dialErr, windows.ERROR_PIPE_BUSY) {
			return &InUseError{Name: l.name}
		}
		return err
	}
}

// newInstance creates an instance of the pipe, to which one client can connect: the first one
// (windows.FILE_CREATE), or a further one (windows.FILE_OPEN). CreateNamedPipe would also work, but
// Wine does not know its flag for the first instance.
func (l *Listener) newInstance(disposition uint32) (h windows.Handle, err error) {
	path, err := windows.NewNTUnicodeString(`\??\pipe\` + strings.TrimPrefix(l.name, prefix))
	if err != nil {
		return 0, err
	}
	attributes := windows.OBJECT_ATTRIBUTES{ObjectName: path, Attributes: windows.OBJ_CASE_INSENSITIVE, SecurityDescriptor: l.owner}
	attributes.Length = uint32(unsafe.Sizeof(attributes))
	var status windows.IO_STATUS_BLOCK
	busy := int64(-50 * 10_000) // 50 ms, for clients that use WaitNamedPipe
	err = windows.NtCreateNamedPipeFile(&h,
		windows.GENERIC_READ|windows.GENERIC_WRITE|windows.SYNCHRONIZE, &attributes, &status,
		windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE, disposition, 0, // asynchronous
		windows.FILE_PIPE_BYTE_STREAM_TYPE|windows.FILE_PIPE_REJECT_REMOTE_CLIENTS,
		windows.FILE_PIPE_BYTE_STREAM_MODE, windows.FILE_PIPE_QUEUE_OPERATION,
		math.MaxUint32, pipeBytes, pipeBytes, &busy)
	if failed, ok := errors.AsType[windows.NTStatus](err); ok {
		err = failed.Errno()
	}
	if err != nil {
		return 0, fmt.Errorf("cannot create the pipe %s: %w", l.name, err)
	}
	return h, nil
}

// Addr returns the name of the pipe.
func (l *Listener) Addr() net.Addr { return address(l.name) }

// Accept waits for a client. After Close it fails with [net.ErrClosed]; after any other error it
// can be called again.
func (l *Listener) Accept() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == 0 {
		return nil, net.ErrClosed
	}
	if err := l.connectLocked(); err != nil {
		return nil, err
	}
	// The next instance comes first, so that no other process can take the name.
	another, err := l.newInstance(windows.FILE_OPEN)
	if err != nil {
		_ = windows.DisconnectNamedPipe(l.next)
		return nil, err
	}
	c := newConn(l.next, l.name)
	l.next = another
	return c, nil
}

// connectLocked waits for a client at the next instance. The caller holds l.mu.
func (l *Listener) connectLocked() error {
	for {
		l.pendingConnect = windows.Overlapped{HEvent: l.connectEvent}
		err := windows.ConnectNamedPipe(l.next, &l.pendingConnect)
		if errors.Is(err, windows.ERROR_IO_PENDING) {
			err = l.awaitLocked()
		}
		switch {
		case err == nil, errors.Is(err, windows.ERROR_PIPE_CONNECTED):
			return nil
		case isClosed(err): // a client connected and left again
			_ = windows.DisconnectNamedPipe(l.next)
		case errors.Is(err, net.ErrClosed):
			return err
		default:
			return fmt.Errorf("cannot wait for a client at %s: %w", l.name, err)
		}
	}
}

// awaitLocked waits for the pending connection, or for Close. The caller holds l.mu.
func (l *Listener) awaitLocked() error {
	var n uint32
	got, err := windows.WaitForMultipleObjects([]windows.Handle{l.stop, l.connectEvent}, false, windows.INFINITE)
	if err == nil && got == windows.WAIT_OBJECT_0+1 {
		return windows.GetOverlappedResult(l.next, &l.pendingConnect, &n, false)
	}
	_ = windows.CancelIoEx(l.next, &l.pendingConnect)
	_ = windows.GetOverlappedResult(l.next, &l.pendingConnect, &n, true) // the kernel no longer uses pendingConnect
	if err != nil {
		return err
	}
	return net.ErrClosed
}

// Close ends Accept. Connections stay open, and keep the name taken; another Listen waits for that.
func (l *Listener) Close() error {
	l.closing.Do(func() {
		_ = windows.SetEvent(l.stop)
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, h := range []*windows.Handle{&l.next, &l.connectEvent, &l.stop} {
			if *h != 0 {
				_ = windows.CloseHandle(*h)
			}
			*h = 0
		}
	})
	return nil
}
