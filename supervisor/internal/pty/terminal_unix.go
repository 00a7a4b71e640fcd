//go:build linux || darwin

package pty

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// inputTimeout bounds the time that WriteInput waits for a reader to take some input.
const inputTimeout = time.Second

// maxUnreadInput bounds the bytes that may be unread at once. The kernel holds 4095 and silently
// truncates a longer line.
const maxUnreadInput = 4000

// A Master is the master end of a worker's pseudo terminal.
//
// Its modes are unusual. EXTPROC tells the kernel that this side processes input as a terminal
// driver would. So the kernel neither echoes nor interprets input, not even control characters.
// A reader gets the available bytes, as from a pipe, and a lone VEOF is end of file. ECHO and
// ICANON are on for one reason only: a program that asks for a password clears ECHO, and that
// is visible. OPOST is off, so output arrives as it was written.
//
// An interactive terminal has OPOST on, because a program that draws decides by it how to reach the
// next line. On such a terminal, the kernel also reports each change of the modes to this side in a
// packet (TIOCPKT). It does so only for a terminal with EXTPROC.
type Master struct {
	master        *os.File // nonblocking, in the poller
	raw           syscall.RawConn
	name          string       // of the slave
	slave         unix.Stat_t  // of the slave: finds the processes that have it open
	modes         unix.Termios // at the start
	mayHaveInput  atomic.Bool  // input may be unread
	SetForeground func() error // gives the terminal to the worker's group; nil: not possible
	packetMode    bool         // the terminal is interactive
	rawMode       atomic.Bool  // a program reads single keys; only known in packet mode

	inputMu      sync.Mutex // held while one piece is written, never while waiting for a reader
	restoreCount int        // counts Restores; a WriteInput ends when it changes
	bytesAhead   int        // bytes written since the queue was last seen empty
	WorkerGroup  int        // the worker's process group
}

// OpenMaster opens a terminal, interactive or not. It also returns the slave, which the caller must close.
func OpenMaster(size TerminalSize, interactive bool) (_ *Master, slave *os.File, err error) {
	blocking, slave, err := pty.Open()
	if err != nil {
		return nil, nil, err
	}
	defer blocking.Close()
	defer func() {
		if err != nil {
			slave.Close()
		}
	}()
	p := &Master{name: slave.Name(), packetMode: interactive}
	fd := int(slave.Fd())
	if err := unix.Fstat(fd, &p.slave); err != nil {
		return nil, nil, err
	}
	modes, err := unix.IoctlGetTermios(fd, ioctlGetModes)
	if err != nil {
		return nil, nil, err
	}
	if !interactive {
		modes.Oflag &^= unix.OPOST
	}
	modes.Iflag &^= unix.IXON | unix.IXANY
	modes.Iflag |= unix.IGNBRK // has no effect here, and tells whether a program has made the terminal raw
	modes.Lflag |= unix.EXTPROC | unix.ECHO | unix.ICANON | unix.ISIG
	modes.Cc[unix.VSUSP] = 0
	if err := unix.IoctlSetTermios(fd, ioctlSetModes, modes); err != nil {
		return nil, nil, err
	}
	// Restore compares with these modes, as the kernel has set them.
	if modes, err = unix.IoctlGetTermios(fd, ioctlGetModes); err != nil {
		return nil, nil, err
	}
	p.modes = *modes

	// The library's file is in blocking mode, in which Close cannot end a Read.
	master, err := unix.FcntlInt(blocking.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	if err := unix.SetNonblock(master, true); err != nil {
		unix.Close(master)
		return nil, nil, err
	}
	p.master = os.NewFile(uintptr(master), "terminal")
	if p.raw, err = p.master.SyscallConn(); err == nil {
		err = p.setSize(size)
	}
	if err == nil && interactive {
		err = p.withMasterFD(func(fd int) error { return unix.IoctlSetPointerInt(fd, unix.TIOCPKT, 1) })
	}
	if err != nil {
		p.master.Close()
		return nil, nil, err
	}
	return p, slave, nil
}

func (p *Master) syncOutput() {}

// Close closes the master; calls in progress return.
func (p *Master) Close() error { return p.master.Close() }

// withMasterFD runs f on the master's descriptor, which stays open until f returns.
func (p *Master) withMasterFD(f func(fd int) error) error {
	var err error
	if closed := p.raw.Control(func(fd uintptr) {
		err = retryEINTR(func() error { return f(int(fd)) })
	}); closed != nil {
		return closed
	}
	return err
}

// retryEINTR repeats a call that a signal interrupted; the Go runtime sends itself many.
func retryEINTR(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}

func (p *Master) tryRead(b []byte) (n int, err error) {
	err = p.withMasterFD(func(fd int) (err error) {
		n, err = unix.Read(fd, b)
		for p.packetMode && err == nil && n > 0 && !p.unpackPacket(b, &n) {
			n, err = unix.Read(fd, b)
		}
		return err
	})
	switch {
	case err == nil && n > 0:
		return n, nil
	case errors.Is(err, unix.EAGAIN):
		return 0, nil
	case err == nil, errors.Is(err, unix.EIO), errors.Is(err, os.ErrClosed):
		return 0, io.EOF // Linux returns EIO once the last slave was closed
	}
	return 0, err
}

func (p *Master) awaitOutput(take func() bool) error {
	if p.raw.Read(func(uintptr) bool { return take() }) != nil {
		return io.EOF
	}
	return nil
}

func (p *Master) setSize(s TerminalSize) error {
	return p.withMasterFD(func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: s.Rows, Col: s.Cols})
	})
}

func (p *Master) writeInput(b []byte, eof bool) error {
	p.inputMu.Lock()
	round, ahead := p.restoreCount, p.bytesAhead
	p.inputMu.Unlock()
	p.mayHaveInput.Store(true)
	push := needsPushAfterText && len(b) > 0 && b[len(b)-1] != '\n'
	for total := len(b); len(b) > 0; {
		if ahead+len(b) > maxUnreadInput && !p.awaitEmpty(round) {
			return fmt.Errorf("pty: write input: the reader took only %d of %d bytes within %s", total-len(b), total, inputTimeout)
		}
		n, err := p.write(b[:min(len(b), maxUnreadInput)], round)
		if err != nil {
			return fmt.Errorf("pty: write input: %w", err)
		}
		b = b[n:]
		ahead = n
	}
	if push {
		if err := p.writeEOF(round); err != nil {
			return err
		}
	}
	if !eof {
		return nil
	}
	if !p.awaitEmpty(round) { // a reader must get the VEOF character alone
		return fmt.Errorf("pty: write input: the reader did not take the text before the end of file within %s", inputTimeout)
	}
	return p.writeEOF(round)
}

func (p *Master) writeEOF(round int) error {
	modes, err := p.currentModes()
	if err == nil {
		_, err = p.write([]byte{modes.Cc[unix.VEOF]}, round)
	}
	if err != nil {
		return fmt.Errorf("pty: write input: end of file: %w", err)
	}
	return nil
}

// errRestored ends a WriteInput that a Restore made pointless.
var errRestored = errors.New("the terminal was restored in the meantime")

// write writes b at once: it fails if there is no room for inputTimeout.
func (p *Master) write(b []byte, round int) (int, error) {
	p.inputMu.Lock()
	defer p.inputMu.Unlock()
	if p.restoreCount != round {
		return 0, errRestored
	}
	if err := p.master.SetWriteDeadline(time.Now().Add(inputTimeout)); err != nil {
		return 0, err
	}
	n, err := p.master.Write(b)
	p.bytesAhead += n
	return n, err
}

// awaitEmpty waits until all input was read. It returns false if nothing was read for
// inputTimeout.
func (p *Master) awaitEmpty(round int) bool {
	queued := p.unreadInput()
	interval := 20 * time.Microsecond
	for moved := time.Now(); queued > 0; {
		if time.Since(moved) > inputTimeout {
			return false
		}
		time.Sleep(interval) // the kernel sends no event when input was read
		interval = min(2*interval, time.Millisecond)
		if now := p.unreadInput(); now != queued {
			queued, moved = now, time.Now()
		}
	}
	p.inputMu.Lock()
	defer p.inputMu.Unlock()
	if p.restoreCount == round {
		p.bytesAhead = 0
	}
	return true
}

func (p *Master) unreadInput() int {
	if !p.mayHaveInput.Load() {
		return 0
	}
	n := 0
	_ = p.withSlaveFD(func(fd int) (err error) {
		n, err = countUnread(fd)
		return err
	})
	return max(n, 0)
}

// countUnread counts the unread input bytes of a slave. Bytes that were written to the master
// arrive there a moment later. Polling an empty queue waits for them; counting does not.
// So 0 is exact, and any other count may be too low.
func countUnread(fd int) (int, error) {
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return unix.IoctlGetInt(fd, ioctlUnreadInput)
}

// withSlaveFD opens the slave only for one call of f. If a slave stayed open here, this side would
// not see that the worker's side has closed.
func (p *Master) withSlaveFD(f func(fd int) error) error {
	var fd int
	err := retryEINTR(func() (err error) {
		fd, err = unix.Open(p.name, unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return retryEINTR(func() error { return f(fd) })
}

func (p *Master) currentModes() (*unix.Termios, error) {
	var modes *unix.Termios
	err := p.withMasterFD(func(fd int) (err error) {
		modes, err = unix.IoctlGetTermios(fd, ioctlGetModes)
		return err
	})
	return modes, err
}

// isEchoOff reports whether the terminal takes lines without showing them, such as a password.
func (p *Master) isEchoOff() bool {
	m, err := p.currentModes()
	return err == nil && m.Lflag&unix.ECHO == 0 && m.Lflag&unix.ICANON != 0
}

func (p *Master) restoreState() error {
	group := p.WorkerGroup
	err := p.withMasterFD(func(fd int) (err error) {
		if p.SetForeground != nil {
			group, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		}
		return err
	})
	if err == nil && group != p.WorkerGroup {
		err = p.SetForeground()
	}
	modes, merr := p.currentModes()
	if merr == nil && *modes != p.modes {
		merr = p.withMasterFD(func(fd int) error { return unix.IoctlSetTermios(fd, ioctlSetModes, &p.modes) })
	}
	if err = errors.Join(err, merr, p.discardUnread()); err != nil {
		return fmt.Errorf("pty: restore the terminal: %w", err)
	}
	return nil
}

// discardUnread discards unread input. It uses the slave, because on the master it would
// discard output.
func (p *Master) discardUnread() error {
	if !p.mayHaveInput.Load() {
		return nil
	}
	p.inputMu.Lock()
	defer p.inputMu.Unlock()
	p.restoreCount++
	err := p.withSlaveFD(func(fd int) error {
		n, err := countUnread(fd)
		if err != nil || n == 0 {
			return err
		}
		return discardInput(fd)
	})
	if err == nil {
		p.mayHaveInput.Store(false)
		p.bytesAhead = 0
	}
	return err
}
