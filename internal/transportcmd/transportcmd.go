package transportcmd

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// inputCloseGrace is how long a command may take to exit after the end of its input.
	// killTimeout is how long it may take after the request to terminate.
	inputCloseGrace = 200 * time.Millisecond
	killTimeout     = 2 * time.Second

	// drainTimeout bounds how long the output is read after the command has ended: a child of the
	// command may keep the pipe open forever.
	drainTimeout = time.Second
)

// A Command is a transport command to start, without a shell.
type Command struct {
	Words []string
	Env   []string // nil means the environment of this process

	// Terminal is the terminal of the user, on which the command may ask until MarkReady. Without
	// one the command has no terminal at all, and cannot ask.
	Terminal *os.File

	// Stderr receives a copy of the standard error of the command until MarkReady; it may be nil.
	Stderr io.Writer
}

// A Process is a started command, used as a connection. Read and Write use its output and its
// input, each from one goroutine; the other methods are safe for concurrent use. It is a [net.Conn]
// except for the addresses.
type Process struct {
	cmd      *exec.Cmd
	group    *group
	in       *os.File
	out      *os.File
	reader   *bufio.Reader
	deadline deadline
	stderr   *tailBuffer

	closed    atomic.Bool
	ended     chan struct{} // closed once the command and its group have ended
	endOnce   sync.Once
	readyOnce sync.Once
}

// Start starts the command. The error is an [exec.ErrNotFound] if the program is not on PATH.
func (c Command) Start() (*Process, error) {
	p := &Process{ended: make(chan struct{}), stderr: &tailBuffer{passTo: c.Stderr}}
	p.cmd = exec.Command(c.Words[0], c.Words[1:]...)
	p.cmd.Env = c.Env
	var ours, theirs [3]*os.File
	for i := range ours {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(ours, theirs)
			return nil, err
		}
		ours[i], theirs[i] = r, w
		if i == 0 {
			ours[i], theirs[i] = w, r
		}
	}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = theirs[0], theirs[1], theirs[2]
	var err error
	if p.group, err = startGroup(p.cmd, c.Terminal); err != nil {
		closeAll(ours, theirs)
		return nil, err
	}
	closeAll(theirs)
	p.in, p.out = ours[0], ours[1]
	p.reader = bufio.NewReaderSize(commandOutput{p}, 4<<10)
	p.deadline.expire = func() {
		p.closeStreams()
		p.Terminate() // on some systems closing a pipe does not end a read of it
	}
	go p.reapCommand(ours[2])
	return p, nil
}

func closeAll(sets ...[3]*os.File) {
	for _, set := range sets {
		for _, f := range set {
			if f != nil {
				_ = f.Close()
			}
		}
	}
}

// reapCommand waits for the end of the command, and ends the rest of its group.
func (p *Process) reapCommand(stderr *os.File) {
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(p.stderr, stderr)
	}()
	_ = p.cmd.Wait() // ProcessState has the result
	p.group.killRest()
	timer := time.NewTimer(drainTimeout)
	defer timer.Stop()
	select {
	case <-copied:
	case <-timer.C:
	}
	_ = stderr.Close()
	p.MarkReady()
	close(p.ended)
	if p.out.SetReadDeadline(time.Now().Add(drainTimeout)) != nil { // this system has no deadlines for pipes
		time.AfterFunc(drainTimeout, func() { _ = p.out.Close() })
	}
}

// MarkReady notes that the command has connected and asks nothing more. Its standard error is only
// stored for errors from now on, and the terminal belongs to this process again.
func (p *Process) MarkReady() {
	p.readyOnce.Do(func() {
		p.stderr.stopPassing()
		p.group.releaseTerminal()
	})
}

// Done returns a channel that is closed when the command and its group have ended.
func (p *Process) Done() <-chan struct{} { return p.ended }

// ExitState returns the exit state of the command; nil before Done is closed.
func (p *Process) ExitState() *os.ProcessState {
	select {
	case <-p.ended:
		return p.cmd.ProcessState
	default:
		return nil
	}
}

// Stderr returns the last 4 KiB of the standard error of the command, in whole lines.
func (p *Process) Stderr() string { return p.stderr.String() }

// ---- the streams

// LineReader returns the reader behind Read, for callers that read lines.
func (p *Process) LineReader() *bufio.Reader { return p.reader }

// Read reads the output of the command. A child that keeps the output open delays the end by at
// most one second after the end of the command.
func (p *Process) Read(b []byte) (int, error) { return p.reader.Read(b) }

// A commandOutput reads the output pipe of a command, and maps the errors at its end.
type commandOutput struct{ p *Process }

func (o commandOutput) Read(b []byte) (int, error) {
	p := o.p
	n, err := p.out.Read(b)
	if err == nil {
		return n, nil
	}
	if p.deadline.isOver() {
		return n, os.ErrDeadlineExceeded
	}
	if p.ExitState() != nil && !p.closed.Load() {
		err = io.EOF
	}
	return n, err
}

// Write writes to the input of the command.
func (p *Process) Write(b []byte) (int, error) {
	n, err := p.in.Write(b)
	if err != nil && p.deadline.isOver() {
		err = os.ErrDeadlineExceeded
	}
	return n, err
}

// CloseWrite closes the input of the command.
func (p *Process) CloseWrite() error { return p.in.Close() }

// SetDeadline sets the deadline of reads and writes. When it passes, the connection ends.
func (p *Process) SetDeadline(t time.Time) error { return p.deadline.set(t) }

// closeStreams closes both streams, so that all reads and writes fail.
func (p *Process) closeStreams() {
	p.closed.Store(true)
	_ = p.in.Close()
	_ = p.out.Close()
}

// Terminate ends the command and its group. It closes the input, asks the group to terminate 200 ms
// later, and kills it two seconds after that. Terminate returns when no process is left that this user
// may end.
func (p *Process) Terminate() {
	p.endOnce.Do(func() {
		p.deadline.stop()
		p.closeStreams()
		if p.isEnded(inputCloseGrace) {
			return
		}
		p.group.terminate()
		if !p.isEnded(killTimeout) {
			p.group.killAll()
			p.isEnded(killTimeout)
		}
	})
}

// isEnded waits for the end of the command, and returns false after the given time.
func (p *Process) isEnded(within time.Duration) bool {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.ended:
		return true
	case <-timer.C:
		return false
	}
}
