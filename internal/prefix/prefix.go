package prefix

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
	// graceTime is how long a command has to end by itself once its input has ended, and
	// killTime once it was told to.
	graceTime = 200 * time.Millisecond
	killTime  = 2 * time.Second

	// drainTime is how long the output of a command that has ended is read: a child of it may
	// hold the pipe open for ever.
	drainTime = time.Second

	// maxKept bounds what is kept of the command's standard error, in bytes.
	maxKept = 4 << 10
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
	cmd    *exec.Cmd
	group  *group
	in     *os.File
	out    *os.File
	reader *bufio.Reader
	limit  limit
	said   *tail

	closed atomic.Bool
	ended  chan struct{} // closed once the command and its group have ended
	ending sync.Once
	ready  sync.Once
}

// Start starts the command. An error of the kind [exec.ErrNotFound] says that it is not on PATH.
func (c Command) Start() (*Process, error) {
	p := &Process{ended: make(chan struct{}), said: &tail{live: c.Stderr}}
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
	p.reader = bufio.NewReaderSize(output{p}, 4<<10)
	p.limit.expire = func() {
		p.hangUp()
		p.End() // where closing a pipe ends no read of it
	}
	go p.reap(ours[2])
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

// reap waits for the end of the command, and ends what it has left.
func (p *Process) reap(stderr *os.File) {
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(p.said, stderr)
	}()
	_ = p.cmd.Wait() // the state says it
	p.group.finish()
	timer := time.NewTimer(drainTime)
	defer timer.Stop()
	select {
	case <-copied:
	case <-timer.C:
	}
	_ = stderr.Close()
	p.Ready()
	close(p.ended)
	if p.out.SetReadDeadline(time.Now().Add(drainTime)) != nil { // this system has none for pipes
		time.AfterFunc(drainTime, func() { _ = p.out.Close() })
	}
}

// Ready says that the command has got through: it has no more to ask, and what it says is kept
// for errors only. The terminal is this process's again.
func (p *Process) Ready() {
	p.ready.Do(func() {
		p.said.quiet()
		p.group.ready()
	})
}

// Ended is closed when the command and its group have ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Status returns how the command ended; nil before Ended.
func (p *Process) Status() *os.ProcessState {
	select {
	case <-p.ended:
		return p.cmd.ProcessState
	default:
		return nil
	}
}

// Said returns the last 4 KiB of the command's standard error, in whole lines.
func (p *Process) Said() string { return p.said.String() }

// ---- the streams

// Lines is Read for who reads lines.
func (p *Process) Lines() *bufio.Reader { return p.reader }

// Read reads what the command prints. A child that has its output does not hold up the end by
// more than a second after the command has ended.
func (p *Process) Read(b []byte) (int, error) { return p.reader.Read(b) }

// An output is that of a command.
type output struct{ p *Process }

func (o output) Read(b []byte) (int, error) {
	p := o.p
	n, err := p.out.Read(b)
	if err == nil {
		return n, nil
	}
	if p.limit.isOver() {
		return n, os.ErrDeadlineExceeded
	}
	if p.Status() != nil && !p.closed.Load() {
		err = io.EOF
	}
	return n, err
}

// Write writes to the command's input.
func (p *Process) Write(b []byte) (int, error) {
	n, err := p.in.Write(b)
	if err != nil && p.limit.isOver() {
		err = os.ErrDeadlineExceeded
	}
	return n, err
}

// CloseWrite ends the command's input.
func (p *Process) CloseWrite() error { return p.in.Close() }

// SetDeadline bounds reading and writing. A bound that is met ends the connection.
func (p *Process) SetDeadline(t time.Time) error { return p.limit.set(t) }

// hangUp closes both streams, so that whoever reads or writes fails.
func (p *Process) hangUp() {
	p.closed.Store(true)
	_ = p.in.Close()
	_ = p.out.Close()
}

// End ends the command and its group: it has a moment after the end of its input, then it is
// told to end, and after two seconds more it is killed. End returns when nothing is left that
// this user may end.
func (p *Process) End() {
	p.ending.Do(func() {
		p.limit.stop()
		p.hangUp()
		if p.isEnded(graceTime) {
			return
		}
		p.group.end()
		if !p.isEnded(killTime) {
			p.group.kill()
			p.isEnded(killTime)
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

// A limit is a deadline. Pipes have none on every system, so this one ends what it bounds.
type limit struct {
	expire func()

	mu    sync.Mutex
	timer *time.Timer // guarded by mu
	over  bool        // guarded by mu
}

func (l *limit) set(t time.Time) error {
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

func (l *limit) stop() { _ = l.set(time.Time{}) }

func (l *limit) isOver() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}

// A tail keeps the end of what is written, and passes it on as it comes until quiet.
type tail struct {
	mu   sync.Mutex
	text []byte    // guarded by mu
	cut  bool      // guarded by mu: something before text was dropped
	live io.Writer // guarded by mu
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b[max(0, len(b)-maxKept):]...)
	if extra := len(t.text) - maxKept; extra > 0 {
		t.text, t.cut = append(t.text[:0], t.text[extra:]...), true
	}
	if t.live != nil {
		_, _ = t.live.Write(b)
	}
	return len(b), nil
}

func (t *tail) quiet() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.live = nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := string(t.text)
	if t.cut {
		if _, rest, ok := strings.Cut(text, "\n"); ok {
			text = rest
		}
	}
	return strings.TrimSpace(strings.ToValidUTF8(text, "?"))
}
