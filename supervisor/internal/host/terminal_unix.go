//go:build linux || darwin

package host

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

// feedLimit is how long Feed waits for a reader to take something.
const feedLimit = time.Second

// feedAhead is how much may be fed before a reader has taken all of it. The
// kernel keeps 4095 bytes and silently spoils a longer line.
const feedAhead = 4000

// pseudo is the master of a pseudo terminal.
//
// Its modes are unusual: EXTPROC says that this side does what a terminal
// driver does to input. So the kernel neither echoes nor interprets what is
// fed, control characters included; a reader gets what is there, as from a
// pipe, and a lone VEOF is end of file. ECHO and ICANON are on nevertheless,
// for one reason: a program that asks for a password clears ECHO, and that can
// be seen. OPOST is off, so output is the bytes that were written.
type pseudo struct {
	master *os.File // nonblocking, in the poller
	raw    syscall.RawConn
	name   string       // of the slave
	slave  unix.Stat_t  // of the slave: who has it open?
	modes  unix.Termios // at the start
	fed    atomic.Bool  // input may be unread
	toFore func() error // gives the terminal to the worker's group; nil: cannot

	feeding sync.Mutex // held over one piece, never while waiting for a reader
	round   int        // counts Restores: what is fed belongs to one of them
	ahead   int        // bytes fed since the queue was last seen empty
	group   int        // the worker's process group
}

// openPseudo returns a terminal and its slave, which belongs to the caller.
func openPseudo(size Size) (_ *pseudo, slave *os.File, err error) {
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
	p := &pseudo{name: slave.Name()}
	fd := int(slave.Fd())
	if err := unix.Fstat(fd, &p.slave); err != nil {
		return nil, nil, err
	}
	modes, err := unix.IoctlGetTermios(fd, getModes)
	if err != nil {
		return nil, nil, err
	}
	modes.Oflag &^= unix.OPOST
	modes.Iflag &^= unix.IXON | unix.IXANY
	modes.Lflag |= unix.EXTPROC | unix.ECHO | unix.ICANON | unix.ISIG
	modes.Cc[unix.VSUSP] = 0
	if err := unix.IoctlSetTermios(fd, setModes, modes); err != nil {
		return nil, nil, err
	}
	// What the kernel made of it is what Restore compares with.
	if modes, err = unix.IoctlGetTermios(fd, getModes); err != nil {
		return nil, nil, err
	}
	p.modes = *modes

	// The library's file is in blocking mode, whose Read Close cannot end.
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
		err = p.resize(size)
	}
	if err != nil {
		p.master.Close()
		return nil, nil, err
	}
	return p, slave, nil
}

func (p *pseudo) settle() {}

func (p *pseudo) close() error { return p.master.Close() }

// control runs f on the master's descriptor, which stays open meanwhile.
func (p *pseudo) control(f func(fd int) error) error {
	var err error
	if closed := p.raw.Control(func(fd uintptr) {
		err = again(func() error { return f(int(fd)) })
	}); closed != nil {
		return closed
	}
	return err
}

// again repeats what a signal interrupted; the runtime sends itself many.
func again(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}

func (p *pseudo) tryRead(b []byte) (n int, err error) {
	err = p.control(func(fd int) (err error) {
		n, err = unix.Read(fd, b)
		return err
	})
	switch {
	case err == nil && n > 0:
		return n, nil
	case errors.Is(err, unix.EAGAIN):
		return 0, nil
	case err == nil, errors.Is(err, unix.EIO), errors.Is(err, os.ErrClosed):
		return 0, io.EOF // Linux says EIO when the last slave was closed
	}
	return 0, err
}

func (p *pseudo) await(take func() bool) error {
	if p.raw.Read(func(uintptr) bool { return take() }) != nil {
		return io.EOF
	}
	return nil
}

func (p *pseudo) resize(s Size) error {
	return p.control(func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: s.Rows, Col: s.Cols})
	})
}

func (p *pseudo) feed(b []byte, eof bool) error {
	p.feeding.Lock()
	round, ahead := p.round, p.ahead
	p.feeding.Unlock()
	p.fed.Store(true)
	push := textNeedsPush && len(b) > 0 && b[len(b)-1] != '\n'
	for total := len(b); len(b) > 0; {
		if ahead+len(b) > feedAhead && !p.awaitEmpty(round) {
			return fmt.Errorf("host: feed: the reader took only %d of %d bytes within %s", total-len(b), total, feedLimit)
		}
		n, err := p.write(b[:min(len(b), feedAhead)], round)
		if err != nil {
			return fmt.Errorf("host: feed: %w", err)
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
	if !p.awaitEmpty(round) { // a reader must find the character alone
		return fmt.Errorf("host: feed: the reader did not take the text before the end of file within %s", feedLimit)
	}
	return p.writeEOF(round)
}

func (p *pseudo) writeEOF(round int) error {
	modes, err := p.currentModes()
	if err == nil {
		_, err = p.write([]byte{modes.Cc[unix.VEOF]}, round)
	}
	if err != nil {
		return fmt.Errorf("host: feed: end of file: %w", err)
	}
	return nil
}

// errRestored ends a feed that a Restore made pointless.
var errRestored = errors.New("the terminal was restored meanwhile")

// write does not wait: there is room, or it is an error.
func (p *pseudo) write(b []byte, round int) (int, error) {
	p.feeding.Lock()
	defer p.feeding.Unlock()
	if p.round != round {
		return 0, errRestored
	}
	if err := p.master.SetWriteDeadline(time.Now().Add(feedLimit)); err != nil {
		return 0, err
	}
	n, err := p.master.Write(b)
	p.ahead += n
	return n, err
}

// awaitEmpty waits until everything was read. It gives up when the queue has
// not moved for feedLimit.
func (p *pseudo) awaitEmpty(round int) bool {
	queued := p.queued()
	wait := 20 * time.Microsecond
	for moved := time.Now(); queued > 0; {
		if time.Since(moved) > feedLimit {
			return false
		}
		time.Sleep(wait) // the kernel does not tell when input was read
		wait = min(2*wait, time.Millisecond)
		if now := p.queued(); now != queued {
			queued, moved = now, time.Now()
		}
	}
	p.feeding.Lock()
	defer p.feeding.Unlock()
	if p.round == round {
		p.ahead = 0
	}
	return true
}

func (p *pseudo) queued() int {
	if !p.fed.Load() {
		return 0
	}
	n := 0
	_ = p.onSlave(func(fd int) (err error) {
		n, err = unread(fd)
		return err
	})
	return max(n, 0)
}

// unread counts the input of a slave. What was written to the master arrives
// there a moment later; poll of an empty queue waits for that, the count alone
// does not. So 0 is exact, and more may be more.
func unread(fd int) (int, error) {
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return unix.IoctlGetInt(fd, queuedInput)
}

// onSlave opens the slave for a moment: kept open, it would hide the moment
// when the worker's side has closed.
func (p *pseudo) onSlave(f func(fd int) error) error {
	var fd int
	err := again(func() (err error) {
		fd, err = unix.Open(p.name, unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return again(func() error { return f(fd) })
}

func (p *pseudo) currentModes() (*unix.Termios, error) {
	var modes *unix.Termios
	err := p.control(func(fd int) (err error) {
		modes, err = unix.IoctlGetTermios(fd, getModes)
		return err
	})
	return modes, err
}

// secret: a reader of lines that does not want them seen.
func (p *pseudo) secret() bool {
	m, err := p.currentModes()
	return err == nil && m.Lflag&unix.ECHO == 0 && m.Lflag&unix.ICANON != 0
}

func (p *pseudo) restore() error {
	group := p.group
	err := p.control(func(fd int) (err error) {
		if p.toFore != nil {
			group, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		}
		return err
	})
	if err == nil && group != p.group {
		err = p.toFore()
	}
	modes, merr := p.currentModes()
	if merr == nil && *modes != p.modes {
		merr = p.control(func(fd int) error { return unix.IoctlSetTermios(fd, setModes, &p.modes) })
	}
	if err = errors.Join(err, merr, p.flush()); err != nil {
		return fmt.Errorf("host: restore the terminal: %w", err)
	}
	return nil
}

// flush discards unread input. It must go through the slave: on the master it
// would discard output.
func (p *pseudo) flush() error {
	if !p.fed.Load() {
		return nil
	}
	p.feeding.Lock()
	defer p.feeding.Unlock()
	p.round++
	err := p.onSlave(func(fd int) error {
		n, err := unread(fd)
		if err != nil || n == 0 {
			return err
		}
		return discardInput(fd)
	})
	if err == nil {
		p.fed.Store(false)
		p.ahead = 0
	}
	return err
}
