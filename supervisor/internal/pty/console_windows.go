package pty

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/UserExistsError/conpty"
	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
	"golang.org/x/sys/windows"
)

// maxConsoleText bounds, in bytes, the output of a pseudo console that is read ahead. At the bound,
// reading stops and the writers block.
const maxConsoleText = 1 << 20

// drainTimeout bounds the time that a pseudo console may take to end.
const drainTimeout = time.Second

// markerTimeout bounds the wait for a marker, which appears within milliseconds on an idle
// machine. Once a console has missed it, nothing waits for that console's markers until it
// shows one.
const markerTimeout = time.Second

// A Console is the supervisor's end of a pseudo console. Its pipes have only blocking reads,
// so a goroutine reads ahead, from start to end. Another does so for the pipe that programs may
// have for their output instead of the pseudo console.
//
// The library closes its handles in one call, even while they are in use. Windows soon reuses the
// number of a closed handle, for example for the pipe of another session. Typed text could then
// reach that session. So the pipes are read and written through our own copies of the handles. The
// copies need two unexported fields of the library. With a version without these fields, each start
// fails and names the version to pin.
//
// A lock around reading, writing and closing was rejected. A read blocks until there is output, so
// the close would wait for the read that it must end. A pseudo console without the library was
// rejected: it takes 80 lines in which every handle, and every mistake, is ours.
type Console struct {
	pty           *conpty.ConPty
	in            *os.File // input for the worker's side; our copy, closed after pty
	out           *os.File // its output; likewise
	outRaw        syscall.RawConn
	RequestReset  func() error       // restores modes and discards unread input; set once the monitor runs
	RequestMarker func(uint64) error // requests a marker from the monitor; set with RequestReset
	outputPipe    *os.File           // output that is not drawn, or nil; its owner closes it after the console
	endOnce       sync.Once
	endErr        error

	ptyMu   sync.Mutex
	isFreed bool // pty is being closed; guarded by ptyMu

	mu              sync.Mutex
	text            []byte          // guarded by mu
	sources         []*outputSource // where text comes from; guarded by mu
	requestedMarker uint64          // the highest marker that syncOutput has requested; guarded by mu
	markerTimedOut  bool            // the last wait for a marker timed out; guarded by mu
	writersGone     bool            // all writers are gone, so little text can follow; guarded by mu
	isClosed        bool            // text is no longer wanted; guarded by mu
	changed         chan struct{}   // replaced, and the old one closed, when any of these changes; guarded by mu
}

// An outputSource is a stream of output, either from the pseudo console or from a pipe.
type outputSource struct {
	filter      *markerFilter // used only by pumpOutput
	shownMarker uint64        // the highest marker that was shown; guarded by console.mu
	ended       bool          // no more text can follow; guarded by console.mu
	pumpDone    chan struct{} // closed when pumpOutput has ended
}

// OpenConsole starts a program in a new pseudo console.
func OpenConsole(tag, commandLine string, env []string, s TerminalSize) (*Console, error) {
	pty, err := conpty.Start(commandLine,
		conpty.ConPtyDimensions(int(s.Cols), int(s.Rows)), conpty.ConPtyEnv(env))
	if err != nil {
		return nil, err
	}
	c := &Console{pty: pty, changed: make(chan struct{})}
	if c.in, err = duplicateEnd(pty, "cmdIn"); err == nil {
		if c.out, err = duplicateEnd(pty, "cmdOut"); err == nil {
			c.outRaw, err = c.out.SyscallConn()
		}
	}
	if err != nil {
		for _, f := range []*os.File{c.in, c.out} {
			if f != nil {
				_ = f.Close()
			}
		}
		go pty.Close() // may block, because nothing reads its output
		return nil, err
	}
	var quiet noiseFilter
	c.startPump(tag, c.read, func(b []byte) []byte {
		text, answer := quiet.stripNoise(b)
		if len(answer) > 0 {
			_, _ = c.in.Write(answer) // fails when the console ends
		}
		return text
	})
	return c, nil
}

// ProcessID returns the process id of the program that was started in the console.
func (c *Console) ProcessID() int { return c.pty.Pid() }

// ReadPiped starts to read output from a pipe as well.
func (c *Console) ReadPiped(tag string, pipe *os.File) {
	c.outputPipe = pipe
	c.startPump(tag, pipe.Read, func(b []byte) []byte { return b })
}

func (c *Console) startPump(tag string, read func([]byte) (int, error), clean func([]byte) []byte) {
	s := &outputSource{filter: newMarkerFilter(tag), pumpDone: make(chan struct{})}
	c.mu.Lock()
	c.sources = append(c.sources, s)
	c.mu.Unlock()
	go c.pumpOutput(s, read, clean)
}

// duplicateEnd returns our own copy of the library's end of one of its pipes. The library
// keeps it in an unexported field.
func duplicateEnd(pty *conpty.ConPty, field string) (*os.File, error) {
	end := reflect.ValueOf(pty).Elem().FieldByName(field)
	if !end.IsValid() || end.Kind() != reflect.Pointer || end.IsNil() || end.Elem().Kind() != reflect.Struct {
		return nil, errOtherLibrary
	}
	theirs := end.Elem().FieldByName("handle")
	if !theirs.IsValid() || theirs.Kind() != reflect.Uintptr {
		return nil, errOtherLibrary
	}
	var ours windows.Handle
	self := windows.CurrentProcess()
	if err := windows.DuplicateHandle(self, windows.Handle(theirs.Uint()), self, &ours, 0, false, windows.DUPLICATE_SAME_ACCESS); err != nil {
		return nil, fmt.Errorf("duplicate a handle of the pseudo console: %w", err)
	}
	return os.NewFile(uintptr(ours), field), nil
}

var errOtherLibrary = errors.New("this program was built with a conpty other than v0.1.4; pin that version")

func (c *Console) pumpOutput(s *outputSource, read func([]byte) (int, error), clean func([]byte) []byte) {
	defer close(s.pumpDone)
	b := make([]byte, 32<<10)
	for {
		n, err := read(b)
		text := clean(s.filter.stripMarkers(b[:n]))
		c.mu.Lock()
		for len(c.text)+len(text) > maxConsoleText && !c.writersGone && !c.isClosed {
			changed := c.changed
			c.mu.Unlock()
			<-changed
			c.mu.Lock()
		}
		if err != nil {
			text, s.ended = append(text, s.filter.pending...), true
		}
		if !c.isClosed {
			c.text = append(c.text, text...)
		}
		if s.filter.lastMarker > s.shownMarker {
			s.shownMarker, c.markerTimedOut = s.filter.lastMarker, false
		}
		c.notifyLocked()
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// read waits for output. A program may write 0 bytes on purpose, which os.File.Read
// would take for the end.
func (c *Console) read(b []byte) (n int, err error) {
	closed := c.outRaw.Read(func(handle uintptr) bool {
		var got uint32
		err = windows.ReadFile(windows.Handle(handle), b, &got, nil)
		n = int(got)
		return true
	})
	return n, cmp.Or(closed, err)
}

// isMarkerShownLocked reports whether every source has shown a marker, or ended.
func (c *Console) isMarkerShownLocked(marker uint64) bool {
	return !slices.ContainsFunc(c.sources, func(s *outputSource) bool { return s.shownMarker < marker && !s.ended })
}

func (c *Console) hasEndedLocked() bool {
	return !slices.ContainsFunc(c.sources, func(s *outputSource) bool { return !s.ended })
}

func (c *Console) notifyLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *Console) tryRead(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := len(c.text)
	n := copy(b, c.text)
	switch {
	case n > 0:
		c.text = c.text[:copy(c.text, c.text[n:])]
		if before > maxConsoleText/2 {
			c.notifyLocked() // there is room again
		}
		return n, nil
	case c.hasEndedLocked() || c.isClosed:
		return 0, io.EOF
	}
	return 0, nil
}

func (c *Console) awaitOutput(take func() bool) error {
	for {
		c.mu.Lock()
		changed, quit := c.changed, c.isClosed
		c.mu.Unlock()
		if quit {
			return io.EOF
		}
		if take() {
			return nil
		}
		<-changed
	}
}

func (c *Console) writeInput(b []byte, eof bool) error {
	b = toKeystrokes(b)
	if eof {
		b = append(b, "\x1a\r"...)
	}
	if len(b) == 0 {
		return nil
	}
	if _, err := c.in.Write(b); err != nil {
		return fmt.Errorf("pty: write input: %w", err)
	}
	return nil
}

// unreadInput returns 0, because the number is unknown; restoreState discards unread input anyway.
func (c *Console) unreadInput() int { return 0 }

// isRawMode is false: a pseudo console does not report how its programs read.
func (c *Console) isRawMode() bool { return false }

func (c *Console) isEchoOff() bool { return false }

func (c *Console) readsKeys() bool { return false }

// returnsOnNewline is true; the pseudo console writes both characters.
func (c *Console) returnsOnNewline() bool { return true }

// answerQuery sends nothing: the pseudo console itself answers its programs.
func (c *Console) answerQuery([]byte) int { return 0 }

func (c *Console) hasForegroundJob() bool { return false }

func (c *Console) typeKeys(b []byte) error { return c.writeInput(b, false) }

func (c *Console) restoreState() error {
	if err := c.RequestReset(); err != nil && !errors.Is(err, monitorproto.ErrEnded) {
		return fmt.Errorf("pty: restore the terminal: %w", err)
	}
	return nil
}

func (c *Console) syncOutput() {
	c.mu.Lock()
	c.requestedMarker++
	marker := c.requestedMarker
	c.mu.Unlock()
	if c.RequestMarker(marker) == nil {
		c.AwaitMarker(marker)
	}
}

// AwaitMarker waits until the console has shown a marker, and so all text before it.
func (c *Console) AwaitMarker(marker uint64) {
	limit := time.NewTimer(markerTimeout)
	defer limit.Stop()
	for {
		c.mu.Lock()
		changed := c.changed
		done := c.isMarkerShownLocked(marker) || c.markerTimedOut || c.isClosed || len(c.text) > maxConsoleText/2
		c.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-limit.C:
			c.mu.Lock()
			c.markerTimedOut = true
			c.mu.Unlock()
			return
		}
	}
}

func (c *Console) setSize(s TerminalSize) error {
	c.ptyMu.Lock()
	defer c.ptyMu.Unlock()
	if c.isFreed {
		return monitorproto.ErrEnded
	}
	return c.pty.Resize(int(s.Cols), int(s.Rows))
}

// EndConsole ends the pseudo console; text that was read stays. pumpOutput continues in the
// meantime, because before Windows 11 24H2 a pseudo console ends only once its output is read.
// The library's Close must be called only once.
func (c *Console) EndConsole() error {
	c.endOnce.Do(func() {
		c.mu.Lock()
		c.writersGone = true
		c.notifyLocked()
		c.mu.Unlock()
		done := make(chan error, 1)
		go func() { done <- c.releaseConsole() }()
		select {
		case c.endErr = <-done:
		case <-time.After(drainTimeout):
			c.endErr = fmt.Errorf("pty: the pseudo console did not end within %s", drainTimeout)
		}
	})
	return c.endErr
}

// releaseConsole closes everything. The library closes its ends for the worker's side, which ends
// a read and a write in progress. That may take arbitrarily long; afterwards the library's handles
// and our copies are closed.
func (c *Console) releaseConsole() error {
	c.ptyMu.Lock()
	c.isFreed = true
	c.ptyMu.Unlock()
	err := c.pty.Close()
	if c.outputPipe != nil { // read what is in the pipe; a process may hold its other end open forever
		_ = c.outputPipe.SetReadDeadline(time.Now().Add(drainTimeout))
	}
	c.mu.Lock()
	sources := slices.Clone(c.sources)
	c.mu.Unlock()
	for _, s := range sources {
		<-s.pumpDone
	}
	return errors.Join(err, c.in.Close(), c.out.Close())
}

// Close discards the remaining text and ends the console.
func (c *Console) Close() error {
	c.mu.Lock()
	c.isClosed, c.text = true, nil
	c.notifyLocked()
	c.mu.Unlock()
	return c.EndConsole()
}
