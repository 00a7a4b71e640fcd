package transportcmd

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// inputCloseGrace is how long a command has to end by itself once its input has ended, and
	// killTimeout once it was told to.
	inputCloseGrace = 200 * time.Millisecond
	killTimeout     = 2 * time.Second

	// drainTimeout is how long the output of a command that has ended is read: a child of it may
	// hold the pipe open for ever.
	drainTimeout = time.Second

	// maxStderrBytes bounds what is kept of the command's standard error, in bytes.
	maxStderrBytes = 4 << 10
)

// A Command says how to start one.
type Command struct {
	Words []string
	Env   []string // nil is that of this process

	// Terminal is the person's, at which the command may ask until Ready. Without one it has
	// no terminal at all, and cannot ask.
	Terminal *os.File

	// Stderr also gets what the command writes to its standard error until Ready, as it comes;
	// nil is nobody.
	Stderr io.Writer
}

// A Process is a command that was started. Read and Write are its output and its input; the rest
// is safe for concurrent use. It is a [net.Conn] but for the addresses.
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

// Start starts the command. An error of the kind [exec.ErrNotFound] says that it is not on PATH.
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
		p.End() // where closing a pipe ends no read of it
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

// reapCommand waits for the end of the command, and ends what it has left.
func (p *Process) reapCommand(stderr *os.File) {
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(p.stderr, stderr)
	}()
	_ = p.cmd.Wait() // the state says it
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
	if p.out.SetReadDeadline(time.Now().Add(drainTimeout)) != nil { // this system has none for pipes
		time.AfterFunc(drainTimeout, func() { _ = p.out.Close() })
	}
}

// MarkReady says that the command has got through: it has no more to ask, and what it says is kept
// for errors only. The terminal is this process's again.
func (p *Process) MarkReady() {
	p.readyOnce.Do(func() {
		p.stderr.stopPassing()
		p.group.releaseTerminal()
	})
}

// Done is closed when the command and its group have ended.
func (p *Process) Done() <-chan struct{} { return p.ended }

// ExitState returns how the command ended; nil before Ended.
func (p *Process) ExitState() *os.ProcessState {
	select {
	case <-p.ended:
		return p.cmd.ProcessState
	default:
		return nil
	}
}

// Stderr returns the last 4 KiB of the command's standard error, in whole lines.
func (p *Process) Stderr() string { return p.stderr.String() }

// ---- the streams

// LineReader is Read for who reads lines.
func (p *Process) LineReader() *bufio.Reader { return p.reader }

// Read reads what the command prints. A child that has its output does not hold up the end by
// more than a second after the command has ended.
func (p *Process) Read(b []byte) (int, error) { return p.reader.Read(b) }

// A commandOutput is that of a command.
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

// Write writes to the command's input.
func (p *Process) Write(b []byte) (int, error) {
	n, err := p.in.Write(b)
	if err != nil && p.deadline.isOver() {
		err = os.ErrDeadlineExceeded
	}
	return n, err
}

// CloseWrite ends the command's input.
func (p *Process) CloseWrite() error { return p.in.Close() }

// SetDeadline bounds reading and writing. A bound that is met ends the connection.
func (p *Process) SetDeadline(t time.Time) error { return p.deadline.set(t) }

// closeStreams closes both streams, so that whoever reads or writes fails.
func (p *Process) closeStreams() {
	p.closed.Store(true)
	_ = p.in.Close()
	_ = p.out.Close()
}

// End ends the command and its group: it has a moment after the end of its input, then it is
// told to end, and after two seconds more it is killed. End returns when nothing is left that
// this user may end.
func (p *Process) End() {
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

// ---- parts

// A deadline is a deadline. Pipes have none on every system, so this one ends what it bounds.
type deadline struct {
	expire func()

	mu    sync.Mutex
	timer *time.Timer // guarded by mu
	over  bool        // guarded by mu
}

func (l *deadline) set(t time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	if l.over {
		return os.ErrDeadlineExceeded
	}
	if !t.IsZero() {
		l.timer = time.AfterFunc(time.Until(t), func() {
			l.mu.Lock()
			l.over = true
			l.mu.Unlock()
			l.expire()
		})
	}
	return nil
}

func (l *deadline) stop() { _ = l.set(time.Time{}) }

func (l *deadline) isOver() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}

// A tailBuffer keeps the end of what is written, and passes it on as it comes until quiet.
type tailBuffer struct {
	mu        sync.Mutex
	text      []byte    // guarded by mu
	truncated bool      // guarded by mu: something before text was dropped
	passTo    io.Writer // guarded by mu
}

func (t *tailBuffer) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b[max(0, len(b)-maxStderrBytes):]...)
	if extra := len(t.text) - maxStderrBytes; extra > 0 {
		t.text, t.truncated = append(t.text[:0], t.text[extra:]...), true
	}
	if t.passTo != nil {
		_, _ = t.passTo.Write(b)
	}
	return len(b), nil
}

func (t *tailBuffer) stopPassing() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.passTo = nil
}

func (t *tailBuffer) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := string(t.text)
	if t.truncated {
		if _, rest, ok := strings.Cut(text, "\n"); ok {
			text = rest
		}
	}
	return strings.TrimSpace(strings.ToValidUTF8(text, "?"))
}
