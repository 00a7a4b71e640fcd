package conformance

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/internal/environ"
	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/workers"
)

// maxTerminalBytes bounds the terminal output that is kept, in bytes; the checks print little.
const maxTerminalBytes = 4 << 20

// A workerSession is one worker that is being checked.
type workerSession struct {
	Dialect
	ctx     context.Context // of Run
	spec    workers.Spec
	options *Options
	timeout time.Duration // bounds each step

	*workerLink // nil before start
	cmd         *exec.Cmd
	dir         string // holds the spec's files
	nonce       string // 16 hexadecimal digits
	conn        *ipc.Conn
	frames      chan frame    // closed after the first error
	closing     chan struct{} // closed by close
	exited      chan struct{} // closed when the worker is reaped
	wg          sync.WaitGroup

	ready    ipc.WorkerReady // after handshake
	idle     bool            // from the handshake to the exit, between two checks
	turn     uint64          // number of the last turn
	revision uint64          // number of the last list of functions

	mu        sync.Mutex
	text      []byte        // the terminal's output; guarded by mu
	textGrown chan struct{} // closed and replaced when text grows; guarded by mu
	usedBytes int           // the bytes of text that belong to earlier turns
}

type frame struct {
	message ipc.Message
	err     error
}

// newSession returns a session whose worker is not started yet: a check that the dialect does
// not support reports that first.
func newSession(ctx context.Context, spec workers.Spec, o *Options) *workerSession {
	return &workerSession{
		Dialect:   o.Dialect,
		ctx:       ctx,
		spec:      spec,
		options:   o,
		timeout:   o.Timeout,
		nonce:     newNonce(),
		frames:    make(chan frame),
		closing:   make(chan struct{}),
		exited:    make(chan struct{}),
		textGrown: make(chan struct{}),
	}
}

// startWorker starts the worker in a new session on its own terminal.
func (s *workerSession) startWorker() (err error) {
	defer func() {
		if err != nil {
			os.RemoveAll(s.dir)
			err = fmt.Errorf("conformance: cannot start %s: %w", s.spec.Path, err)
		}
	}()
	spec, err := s.spec.RunPreparations(s.ctx, func(workers.PreparationProgress) {})
	if err != nil {
		return err
	}
	if s.dir, err = writeFiles(spec.Files); err != nil {
		return err
	}
	s.cmd = exec.Command(spec.Path)
	for _, arg := range spec.Args {
		s.cmd.Args = append(s.cmd.Args, strings.ReplaceAll(arg, workers.FilesDir, s.dir))
	}
	s.cmd.Env = workerEnv(slices.Concat(spec.Env, spec.PlainEnv), s.dir)
	s.cmd.Dir = spec.Dir
	if s.workerLink, err = startWorkerProcess(s.cmd, s.nonce); err != nil {
		return err
	}
	s.conn = ipc.NewConn(pipePair{s.fromWorker, s.toWorker}, ipc.FromWorker)
	s.conn.LogTo(s.options.Logger)
	s.wg.Go(s.readFrames)
	s.wg.Go(s.readTerminal)
	s.wg.Go(func() {
		s.cmd.Wait()
		close(s.exited)
	})
	return nil
}

// newNonce returns a random name for one session. On Windows, other processes can see it.
func newNonce() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// pipePair combines the two pipe ends of this side.
type pipePair struct {
	r io.ReadCloser
	w io.WriteCloser
}

func (p pipePair) Read(b []byte) (int, error)  { return p.r.Read(b) }
func (p pipePair) Write(b []byte) (int, error) { return p.w.Write(b) }
func (p pipePair) Close() error                { p.w.Close(); return p.r.Close() }

// maxDirectWriteBytes bounds a frame that TryWrite writes, in bytes.
const maxDirectWriteBytes = 4 << 10

// TryWrite writes a small frame before Send returns: the signal of an interrupt must not
// overtake its frame. It would block on a full pipe, which the small frames of a check do not
// fill.
func (p pipePair) TryWrite(b []byte) (int, error) {
	if len(b) > maxDirectWriteBytes {
		return 0, nil
	}
	n, _ := p.w.Write(b)
	return n, nil // the queue reports errors: a worker that has exited is not a failure here
}

func writeFiles(files map[string][]byte) (dir string, err error) {
	if dir, err = os.MkdirTemp("", "conformance-"); err != nil {
		return "", err
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return dir, err
		}
	}
	return dir, nil
}

// workerEnv returns this process's environment with the spec's changes and the variables that
// every worker gets.
func workerEnv(changes []string, dir string) []string {
	all := []string{"TERM=dumb", "PAGER=cat"}
	for _, change := range changes {
		all = append(all, strings.ReplaceAll(change, workers.FilesDir, dir))
	}
	return environ.Apply(os.Environ(), all)
}

// close kills the remaining processes of the worker, waits for it, and returns the last output
// of the terminal, printable. A session without a worker needs no close.
func (s *workerSession) close() string {
	if s.workerLink == nil {
		return ""
	}
	close(s.closing)
	s.kill()
	s.conn.Close()
	s.terminal.Close()
	s.wg.Wait()
	os.RemoveAll(s.dir)
	s.workerLink, s.idle = nil, false
	text := s.text[max(0, len(s.text)-400):]
	if len(text) == 0 {
		return ""
	}
	return strconv.QuoteToASCII(string(text))
}

func (s *workerSession) readFrames() {
	defer close(s.frames)
	for {
		m, err := s.conn.Receive()
		select {
		case s.frames <- frame{m, err}:
		case <-s.closing:
			return
		}
		if err != nil {
			return
		}
	}
}

func (s *workerSession) readTerminal() {
	buf := make([]byte, 64<<10)
	for {
		n, err := s.terminal.Read(buf)
		s.mu.Lock()
		if room := maxTerminalBytes - len(s.text); room > 0 {
			s.text = append(s.text, buf[:min(n, room)]...)
		}
		close(s.textGrown)
		s.textGrown = make(chan struct{})
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// nextFrame waits for the next frame. io.EOF means that the channel is closed.
func (s *workerSession) nextFrame() (ipc.Message, error) {
	select {
	case f, ok := <-s.frames:
		if !ok {
			return nil, io.EOF
		}
		return f.message, f.err
	case <-time.After(s.timeout):
		return nil, fmt.Errorf("no frame for %v", s.timeout)
	case <-s.ctx.Done():
		return nil, context.Cause(s.ctx)
	}
}

// expectFrame waits for a frame of type M. It skips output and other frames that may arrive at
// any time.
func expectFrame[M ipc.Message](s *workerSession) (M, error) {
	var want M
	for {
		m, err := s.nextFrame()
		if err != nil {
			return want, fmt.Errorf("waiting for %s: %w", want.Type(), err)
		}
		if got, ok := m.(M); ok {
			return got, nil
		}
		switch m.(type) {
		case ipc.Output, ipc.Image, ipc.Display, ipc.Clear, ipc.Progress, ipc.InputLine, ipc.Sigint, ipc.InterruptAck:
		default:
			return want, fmt.Errorf("got %s, want %s", describeMessage(m), want.Type())
		}
	}
}

func describeMessage(m ipc.Message) string { return fmt.Sprintf("%s %+v", m.Type(), m) }

// ensureIdle starts the worker and waits until it is idle for the first time, unless another
// check left it idle.
func (s *workerSession) ensureIdle() error {
	if s.idle {
		return nil
	}
	if err := s.startWorker(); err != nil {
		return err
	}
	m, err := s.nextFrame()
	if err != nil {
		return fmt.Errorf("waiting for the first frame: %w", err)
	}
	ready, ok := m.(ipc.WorkerReady)
	if !ok {
		return fmt.Errorf("the first frame is %s, want worker_ready", describeMessage(m))
	}
	s.ready = ready
	r, err := s.collectTurn(0)
	if err != nil {
		return err
	}
	if r.idle.Outcome != ipc.OutcomeOK {
		return fmt.Errorf("the start-up ended with %s", describeMessage(r.idle))
	}
	s.idle = true
	return nil
}

// A turnReport contains everything that arrived during a turn.
type turnReport struct {
	idle   ipc.Idle
	frames []ipc.Message // idle is the last
	text   string        // output in order; a newline is one byte
}

// startTurn sends a turn_start with these lines.
func (s *workerSession) startTurn(lines ...string) error {
	s.turn++
	return s.conn.Send(ipc.TurnStart{Turn: s.turn, Input: []byte(strings.Join(lines, "\n") + "\n")})
}

// runTurn runs a turn that must succeed.
func (s *workerSession) runTurn(lines ...string) (turnReport, error) {
	if err := s.startTurn(lines...); err != nil {
		return turnReport{}, err
	}
	r, err := s.collectTurn(s.turn)
	if err == nil && r.idle.Outcome != ipc.OutcomeOK {
		err = fmt.Errorf("%q ended with %s", strings.Join(lines, "; "), describeMessage(r.idle))
	}
	return r, err
}

// collectTurn waits for the end of a turn. seen has the frames that arrived before.
func (s *workerSession) collectTurn(turn uint64, seen ...ipc.Message) (turnReport, error) {
	r := turnReport{frames: seen}
	for {
		m, err := s.nextFrame()
		if err != nil {
			return r, fmt.Errorf("waiting for idle of turn %d: %w", turn, err)
		}
		r.frames = append(r.frames, m)
		switch m := m.(type) {
		case ipc.Idle:
			if m.Turn != turn {
				return r, fmt.Errorf("got %s, want turn %d", describeMessage(m), turn)
			}
			r.idle = m
			r.text, err = s.mergeOutput(r)
			return r, err
		case ipc.StdinWait, ipc.SessionEnd, ipc.WorkerReady, ipc.QueryResult:
			return r, fmt.Errorf("got %s, want idle of turn %d", describeMessage(m), turn)
		}
	}
}

// mergeOutput returns the turn's text in order: the terminal's output up to the marker of idle,
// with each frame at the position of its marker.
func (s *workerSession) mergeOutput(r turnReport) (string, error) {
	byMark := map[uint64]ipc.Message{}
	var text strings.Builder
	var last uint64
	for _, m := range r.frames {
		mark := ipc.MarkOf(m)
		if output, ok := m.(ipc.Output); ok && mark == 0 {
			text.Write(output.Data)
		}
		if mark == 0 {
			continue
		}
		if mark <= last {
			return "", fmt.Errorf("mark %d comes after mark %d", mark, last)
		}
		last = mark
		byMark[mark] = m
	}
	if !s.ready.Capabilities.Fence {
		if last != 0 {
			return "", errors.New("a frame has a mark, but the worker does not offer sync markers")
		}
		return text.String(), nil
	}
	if r.idle.Mark == 0 {
		return "", errors.New("idle has no mark, but the worker offers sync markers")
	}
	for {
		body, before, err := s.nextMarker()
		if err != nil {
			return "", fmt.Errorf("the marker of idle (%d) is not in the terminal: %w", r.idle.Mark, err)
		}
		text.WriteString(strings.ReplaceAll(before, "\r\n", "\n"))
		digits, placed := strings.CutPrefix(body, "#")
		if !placed {
			if !slices.Contains([]string{"O", "E", "R", "T"}, body) {
				return "", fmt.Errorf("the terminal has a marker with the body %q", body)
			}
			continue
		}
		mark, err := strconv.ParseUint(digits, 10, 64)
		if err != nil {
			return "", fmt.Errorf("the terminal has a marker with the body %q", body)
		}
		m, ok := byMark[mark]
		if !ok {
			return "", fmt.Errorf("the terminal has a marker %d, but no frame of the turn has it", mark)
		}
		delete(byMark, mark)
		if output, ok := m.(ipc.Output); ok {
			text.Write(output.Data)
		}
		if mark == r.idle.Mark {
			break
		}
	}
	for mark, m := range byMark {
		return "", fmt.Errorf("%s has mark %d, which is not in the terminal before that of idle", m.Type(), mark)
	}
	return text.String(), nil
}

// nextMarker takes the next marker, and the text before it, from the terminal's output.
func (s *workerSession) nextMarker() (body, before string, err error) {
	begin, end := []byte("\x1b_"+s.nonce+";"), []byte("\x1b\\")
	deadline := time.After(s.timeout)
	for {
		s.mu.Lock()
		text, more := s.text[s.usedBytes:], s.textGrown
		s.mu.Unlock()
		if at := bytes.Index(text, begin); at >= 0 {
			rest := text[at+len(begin):]
			if n := bytes.Index(rest, end); n >= 0 {
				s.usedBytes += at + len(begin) + n + len(end)
				return string(rest[:n]), string(text[:at]), nil
			}
		}
		select {
		case <-more:
		case <-deadline:
			return "", "", fmt.Errorf("not within %v", s.timeout)
		case <-s.ctx.Done():
			return "", "", context.Cause(s.ctx)
		}
	}
}

// waitForInput waits until the runtime asks for input. It also returns earlier frames.
func (s *workerSession) waitForInput() (ipc.StdinWait, []ipc.Message, error) {
	var seen []ipc.Message
	for {
		m, err := s.nextFrame()
		if err != nil {
			return ipc.StdinWait{}, nil, fmt.Errorf("waiting for stdin_wait: %w", err)
		}
		seen = append(seen, m)
		switch m := m.(type) {
		case ipc.StdinWait:
			if m.Turn != s.turn {
				return m, seen, fmt.Errorf("got %s, want turn %d", describeMessage(m), s.turn)
			}
			return m, seen, nil
		case ipc.Idle, ipc.SessionEnd:
			return ipc.StdinWait{}, nil, fmt.Errorf("got %s, want stdin_wait", describeMessage(m))
		}
	}
}

// waitForOutput waits until the turn has printed text, and returns the frames that arrived
// before.
func (s *workerSession) waitForOutput(text string) ([]ipc.Message, error) {
	var seen []ipc.Message
	deadline := time.After(s.timeout)
	for {
		s.mu.Lock()
		found, more := bytes.Contains(s.text[s.usedBytes:], []byte(text)), s.textGrown
		s.mu.Unlock()
		if found {
			return seen, nil
		}
		select {
		case f := <-s.frames:
			if f.err != nil || f.message == nil {
				return seen, fmt.Errorf("waiting for the turn to print %q: %w", text, cmp.Or(f.err, io.EOF))
			}
			seen = append(seen, f.message)
			if output, ok := f.message.(ipc.Output); ok && bytes.Contains(output.Data, []byte(text)) {
				return seen, nil
			}
		case <-more:
		case <-deadline:
			return seen, fmt.Errorf("the turn did not print %q within %v", text, s.timeout)
		case <-s.ctx.Done():
			return seen, context.Cause(s.ctx)
		}
	}
}

// minRetryDelay and maxRetryDelay bound the pauses before an interrupt is repeated.
const (
	minRetryDelay = 30 * time.Millisecond
	maxRetryDelay = time.Second
)

// interruptTurn interrupts a turn as a supervisor does, and returns everything up to its idle. It
// sends the first interrupt several times at once, as times says.
func (s *workerSession) interruptTurn(turn uint64, times int, seen ...ipc.Message) (turnReport, error) {
	for range times {
		if err := s.sendInterrupt(turn, 1, true); err != nil {
			return turnReport{}, err
		}
	}
	stopRepeating := s.repeatInterrupt(turn, minRetryDelay)
	defer stopRepeating()
	var r turnReport
	started := time.Now() // every retry may cause one more frame, so frames do not bound the time
	for acked := false; !acked || r.idle.Outcome == ""; {
		m, err := s.nextFrame()
		if err != nil {
			return r, fmt.Errorf("waiting for interrupt_ack and idle of turn %d: %w", turn, err)
		}
		if time.Since(started) > s.timeout {
			return r, fmt.Errorf("turn %d is not interrupted after %v; the last frame is %s", turn, s.timeout, describeMessage(m))
		}
		seen = append(seen, m)
		switch m := m.(type) {
		case ipc.InterruptAck:
			// A repeated interrupt may arrive after the turn but before its idle.
			late := acked || r.idle.Outcome != ""
			if m.Turn != turn || m.Seq != 1 || m.Result == ipc.InterruptStale && !late {
				return r, fmt.Errorf("got %s, want interrupt_ack for turn %d", describeMessage(m), turn)
			}
			acked = acked || m.Result != ipc.InterruptPending
		case ipc.Idle:
			if m.Turn != turn || m.Outcome != ipc.OutcomeInterrupted {
				return r, fmt.Errorf("got %s, want turn %d interrupted", describeMessage(m), turn)
			}
			r = turnReport{idle: m, frames: slices.Clone(seen)}
			if r.text, err = s.mergeOutput(r); err != nil {
				return r, err
			}
			stopRepeating()
		case ipc.StdinWait, ipc.SessionEnd:
			return r, fmt.Errorf("got %s, want interrupt_ack and idle", describeMessage(m))
		}
	}
	return r, nil
}

// repeatInterrupt repeats an interrupt, first after pause, until the returned function is
// called: the worker may miss a signal just before it blocks.
func (s *workerSession) repeatInterrupt(turn uint64, pause time.Duration) (stop func()) {
	repeat, cancel := context.WithCancel(s.ctx)
	var repeating sync.WaitGroup
	repeating.Go(func() {
		for ; ; pause = min(2*pause, maxRetryDelay) {
			select {
			case <-time.After(pause):
				s.sendInterrupt(turn, 1, false) // an error shows later, as a missing frame
			case <-repeat.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		repeating.Wait()
	}
}

// sendInterrupt sends the frame and then, if the worker wants one, the signal.
func (s *workerSession) sendInterrupt(turn, seq uint64, group bool) error {
	if err := s.conn.Send(ipc.Interrupt{Turn: turn, Seq: seq, Level: 1}); err != nil {
		return err
	}
	if s.ready.Capabilities.Interrupt == ipc.InterruptBySignal {
		return s.workerLink.sendSignal(group)
	}
	return nil
}

// waitForExit waits until the worker has exited. It skips frames until session_end; any frame
// after that is an error. The result is nil if there was no session_end.
func (s *workerSession) waitForExit() (*ipc.SessionEnd, error) {
	s.idle = false
	var last *ipc.SessionEnd
	for {
		m, err := s.nextFrame()
		switch {
		case err == io.EOF:
			select {
			case <-s.exited:
				return last, nil
			case <-time.After(s.timeout):
				return last, fmt.Errorf("the channel is closed, but the process is still running after %v", s.timeout)
			case <-s.ctx.Done():
				return last, context.Cause(s.ctx)
			}
		case err != nil:
			return last, fmt.Errorf("waiting for the end: %w", err)
		case last != nil:
			return last, fmt.Errorf("got %s after session_end", describeMessage(m))
		}
		if end, ok := m.(ipc.SessionEnd); ok {
			last = &end
		}
	}
}
