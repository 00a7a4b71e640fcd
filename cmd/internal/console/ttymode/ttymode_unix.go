//go:build unix

package ttymode

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A TTY switches the modes of the terminal at standard input.
type TTY struct {
	fd           int
	savedTermios *unix.Termios

	wakePipe [2]*os.File   // interrupts a wait for keys
	paused   chan struct{} // Read sends before it waits for resume
	resume   chan struct{}
	closed   chan struct{} // closed when no more keys come
}

// Open records the current mode of the terminal.
func Open() (*TTY, error) {
	fd := int(os.Stdin.Fd())
	normal, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return nil, err
	}
	m := &TTY{fd: fd, savedTermios: normal, paused: make(chan struct{}), resume: make(chan struct{}), closed: make(chan struct{})}
	m.wakePipe[0], m.wakePipe[1], err = os.Pipe()
	return m, err
}

// SetRaw delivers each key as it is pressed. The output mode does not change.
func (t *TTY) SetRaw() error {
	raw := *t.savedTermios
	raw.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	raw.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	raw.Cflag &^= unix.CSIZE | unix.PARENB
	raw.Cflag |= unix.CS8
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	return unix.IoctlSetTermios(t.fd, setTermios, &raw)
}

// SetFullyRaw is like SetRaw, but it also passes output through unprocessed.
func (t *TTY) SetFullyRaw() error {
	if err := t.SetRaw(); err != nil {
		return err
	}
	modes, err := unix.IoctlGetTermios(t.fd, getTermios)
	if err != nil {
		return err
	}
	modes.Oflag &^= unix.OPOST
	return unix.IoctlSetTermios(t.fd, setTermios, modes)
}

// RestoreMode restores the mode that Open recorded.
func (t *TTY) RestoreMode() error { return unix.IoctlSetTermios(t.fd, setTermios, t.savedTermios) }

// IsRaw reports whether the terminal is in one of the modes of repl. A shell that stopped
// this program has set its own.
func (t *TTY) IsRaw() bool {
	now, err := unix.IoctlGetTermios(t.fd, getTermios)
	return err != nil || now.Lflag&unix.ICANON == 0
}

// NotifyContinued sends to c when this program continues after a stop.
func NotifyContinued(c chan<- os.Signal) { signal.Notify(c, syscall.SIGCONT) }

func (t *TTY) InputReader() io.Reader { return t }

// Read implements io.Reader, for one goroutine and up to its first error. During a pause it leaves
// the keys to other programs.
func (t *TTY) Read(p []byte) (n int, err error) {
	defer func() {
		if err != nil {
			close(t.closed)
		}
	}()
	wake := int(t.wakePipe[0].Fd())
	for {
		var readable unix.FdSet
		readable.Set(t.fd)
		readable.Set(wake)
		_, err := unix.Select(max(t.fd, wake)+1, &readable, nil, nil, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, err
		case readable.IsSet(wake):
			if _, err := t.wakePipe[0].Read(make([]byte, 1)); err != nil {
				return 0, err
			}
			t.paused <- struct{}{}
			<-t.resume
		default:
			return os.Stdin.Read(p)
		}
	}
}

// PauseReading leaves the input of the terminal to another program until resume is called.
func (t *TTY) PauseReading() (resume func(), err error) {
	if _, err := t.wakePipe[1].Write([]byte{0}); err != nil {
		return nil, err
	}
	select {
	case <-t.paused:
		return func() { t.resume <- struct{}{} }, nil
	case <-t.closed:
		return nil, io.EOF
	}
}

// DefaultEditor exists on most systems.
const DefaultEditor = "vi"

// CtrlZSuspends says whether Ctrl-Z gives the terminal back to the shell.
const CtrlZSuspends = true

// CanSuspend reports whether a shell could continue this program, as POSIX defines it. The group
// needs a member whose parent is in the same session and in another group. Without one, the system
// would not stop the group.
func CanSuspend() bool {
	group := unix.Getpgrp()
	session, err := unix.Getsid(0)
	if err != nil {
		return false
	}
	for pid := os.Getppid(); pid > 0; pid = parentOf(pid) {
		if s, err := unix.Getsid(pid); err != nil || s != session {
			return false
		}
		if g, err := unix.Getpgid(pid); err != nil || g != group {
			return err == nil
		}
	}
	return false
}

// stopTimeout bounds the wait for the system to stop this program.
const stopTimeout = time.Second

// SuspendProcessGroup stops the whole process group, as Ctrl-Z does outside raw mode. A program
// that started this one, such as a script, waits for this program and not for the terminal. It
// returns when the group is continued.
func SuspendProcessGroup() {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	if syscall.Kill(0, syscall.SIGTSTP) != nil {
		return
	}
	select {
	case <-continued:
	case <-time.After(stopTimeout):
	}
}
