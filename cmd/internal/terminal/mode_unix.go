//go:build unix

package terminal

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A mode is the mode of the terminal at standard input.
type mode struct {
	fd     int
	normal *unix.Termios

	wake   [2]*os.File   // a pipe that ends a wait for keys
	paused chan struct{} // Read sends: it waits for resume
	resume chan struct{}
	over   chan struct{} // closed: there are no more keys
}

// findMode notes the mode that the terminal has now.
func findMode() (*mode, error) {
	fd := int(os.Stdin.Fd())
	normal, err := unix.IoctlGetTermios(fd, getModes)
	if err != nil {
		return nil, err
	}
	m := &mode{fd: fd, normal: normal, paused: make(chan struct{}), resume: make(chan struct{}), over: make(chan struct{})}
	m.wake[0], m.wake[1], err = os.Pipe()
	return m, err
}

// raw delivers each key as it is pressed. Output stays as it was.
func (m *mode) raw() error {
	raw := *m.normal
	raw.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	raw.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	raw.Cflag &^= unix.CSIZE | unix.PARENB
	raw.Cflag |= unix.CS8
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	return unix.IoctlSetTermios(m.fd, setModes, &raw)
}

// exact is like raw, but output is left as programs write it, too.
func (m *mode) exact() error {
	if err := m.raw(); err != nil {
		return err
	}
	modes, err := unix.IoctlGetTermios(m.fd, getModes)
	if err != nil {
		return err
	}
	modes.Oflag &^= unix.OPOST
	return unix.IoctlSetTermios(m.fd, setModes, modes)
}

// restore brings back the mode that findMode has noted.
func (m *mode) restore() error { return unix.IoctlSetTermios(m.fd, setModes, m.normal) }

// isTaken reports whether the terminal is in a mode of ours. A shell that stopped this program has set
// its own.
func (m *mode) isTaken() bool {
	now, err := unix.IoctlGetTermios(m.fd, getModes)
	return err != nil || now.Lflag&unix.ICANON == 0
}

// notifyContinued has c told when this program goes on after a stop.
func notifyContinued(c chan<- os.Signal) { signal.Notify(c, syscall.SIGCONT) }

// keys returns a reader of the keys typed at the terminal.
func (m *mode) keys() io.Reader { return m }

// Read implements io.Reader, for one goroutine and up to its first error. It leaves keys that
// come during a pause to others.
func (m *mode) Read(p []byte) (n int, err error) {
	defer func() {
		if err != nil {
			close(m.over)
		}
	}()
	wake := int(m.wake[0].Fd())
	for {
		var readable unix.FdSet
		readable.Set(m.fd)
		readable.Set(wake)
		_, err := unix.Select(max(m.fd, wake)+1, &readable, nil, nil, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, err
		case readable.IsSet(wake):
			if _, err := m.wake[0].Read(make([]byte, 1)); err != nil {
				return 0, err
			}
			m.paused <- struct{}{}
			<-m.resume
		default:
			return os.Stdin.Read(p)
		}
	}
}

// pause leaves the terminal to another program until resume is called.
func (m *mode) pause() (resume func(), err error) {
	if _, err := m.wake[1].Write([]byte{0}); err != nil {
		return nil, err
	}
	select {
	case <-m.paused:
		return func() { m.resume <- struct{}{} }, nil
	case <-m.over:
		return nil, io.EOF
	}
}

// usualEditor is there on most systems.
const usualEditor = "vi"

// suspends says whether Ctrl-Z gives the terminal back to the shell.
const suspends = true

// canSuspend reports whether a shell could continue this program, as POSIX defines it: there is a
// process of the same session outside of the group whose child belongs to the group. Without one
// the system would not stop the group.
func canSuspend() bool {
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

// stopTime bounds the wait for the system to stop this program.
const stopTime = time.Second

// suspend stops the whole group, as the key would outside of raw mode: a program that has started
// this one, such as a script, waits for us and not for the terminal. It returns when the group is
// continued.
func suspend() {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	if syscall.Kill(0, syscall.SIGTSTP) != nil {
		return
	}
	select {
	case <-continued:
	case <-time.After(stopTime):
	}
}
