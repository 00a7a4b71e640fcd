package host

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"reflect"
	"sync"
	"syscall"
	"time"

	"github.com/UserExistsError/conpty"
	"golang.org/x/sys/windows"
)

// consoleHeld bounds, in bytes, what is read ahead of a pseudo console. Beyond
// it nothing is read, so whoever writes blocks.
const consoleHeld = 1 << 20

// drainLimit bounds the end of a pseudo console.
const drainLimit = time.Second

// endMark is the mark behind everything that a worker has written.
const endMark = math.MaxUint64

// settleLimit bounds the wait for a mark, which a machine at rest shows within
// milliseconds. A console that has let it pass is not waited for again until it
// shows one.
const settleLimit = time.Second

// A console is the supervisor's side of a pseudo console. Its pipes know only
// blocking reads, so a goroutine reads ahead, from the start to the end.
//
// The library closes its handles in one call, whoever may be using them, and the
// number of a closed handle soon belongs to something else, such as the pipe of
// another session. So its pipes are read and written through handles of ours.
type console struct {
	pty    *conpty.ConPty
	in     *os.File // what the worker's side reads; ours, closed behind pty
	out    *os.File // what it writes; likewise
	outRaw syscall.RawConn
	reset  func() error       // puts modes and unread input back; set once the stage is there
	mark   func(uint64) error // has the stage leave a mark; set with reset
	marks  *marks             // pump only
	pumped chan struct{}      // closed when pump has ended
	ending sync.Once
	ended  error

	using sync.Mutex
	freed bool // pty is being closed; guarded by using

	mu      sync.Mutex
	text    []byte        // guarded by mu
	marked  uint64        // the highest mark that was met; guarded by mu
	asked   uint64        // the highest that settle has asked for; guarded by mu
	unclear bool          // marks do not come through now; guarded by mu
	last    bool          // nobody is left to write, so that little can come; guarded by mu
	over    bool          // pump has ended; guarded by mu
	quit    bool          // nobody wants text any more; guarded by mu
	changed chan struct{} // replaced, and the old one closed, when any of these changes; guarded by mu
}

// openConsole starts a program in a pseudo console of its own.
func openConsole(tag, commandLine string, env []string, s Size) (*console, error) {
	pty, err := conpty.Start(commandLine,
		conpty.ConPtyDimensions(int(s.Cols), int(s.Rows)), conpty.ConPtyEnv(env))
	if err != nil {
		return nil, err
	}
	c := &console{pty: pty, marks: newMarks(tag), pumped: make(chan struct{}), changed: make(chan struct{})}
	if c.in, err = ownEnd(pty, "cmdIn"); err == nil {
		if c.out, err = ownEnd(pty, "cmdOut"); err == nil {
			c.outRaw, err = c.out.SyscallConn()
		}
	}
	if err != nil {
		for _, f := range []*os.File{c.in, c.out} {
			if f != nil {
				_ = f.Close()
			}
		}
		go pty.Close() // nobody reads what it shows, for which it may wait
		return nil, err
	}
	go c.pump()
	return c, nil
}

// ownEnd is a handle of our own for the library's end of one of its pipes, a
// field that it does not give out.
func ownEnd(pty *conpty.ConPty, field string) (*os.File, error) {
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

var errOtherLibrary = errors.New("this program was built with another conpty than v0.1.4: pin that")

func (c *console) pump() {
	defer close(c.pumped)
	b := make([]byte, 32<<10)
	var quiet quieter
	for {
		n, err := c.read(b)
		text := quiet.text(c.marks.cut(b[:n]))
		c.mu.Lock()
		for len(c.text)+len(text) > consoleHeld && !c.last && !c.quit {
			changed := c.changed
			c.mu.Unlock()
			<-changed
			c.mu.Lock()
		}
		if err != nil {
			text, c.over = append(text, c.marks.held...), true
		}
		if !c.quit {
			c.text = append(c.text, text...)
		}
		if c.marks.last > c.marked {
			c.marked, c.unclear = c.marks.last, false
		}
		c.changedLocked()
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// read waits for output. It may be 0 bytes, which whoever wrote them meant; to
// os.File.Read that would be the end.
func (c *console) read(b []byte) (n int, err error) {
	closed := c.outRaw.Read(func(handle uintptr) bool {
		var got uint32
		err = windows.ReadFile(windows.Handle(handle), b, &got, nil)
		n = int(got)
		return true
	})
	return n, cmp.Or(closed, err)
}

func (c *console) changedLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *console) tryRead(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := len(c.text)
	n := copy(b, c.text)
	switch {
	case n > 0:
		c.text = c.text[:copy(c.text, c.text[n:])]
		if held > consoleHeld/2 {
			c.changedLocked() // there is room again
		}
		return n, nil
	case c.over || c.quit:
		return 0, io.EOF
	}
	return 0, nil
}

func (c *console) await(take func() bool) error {
	for {
		c.mu.Lock()
		changed, quit := c.changed, c.quit
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

func (c *console) feed(b []byte, eof bool) error {
	b = keys(b)
	if eof {
		b = append(b, "\x1a\r"...)
	}
	if len(b) == 0 {
		return nil
	}
	if _, err := c.in.Write(b); err != nil {
		return fmt.Errorf("host: feed: %w", err)
	}
	return nil
}

// queued is not known here; restore discards what was not read.
func (c *console) queued() int { return 0 }

func (c *console) restore() error {
	if err := c.reset(); err != nil && !errors.Is(err, ErrEnded) {
		return fmt.Errorf("host: restore the terminal: %w", err)
	}
	return nil
}

func (c *console) settle() {
	c.mu.Lock()
	c.asked++
	mark := c.asked
	c.mu.Unlock()
	if c.mark(mark) == nil {
		c.reach(mark)
	}
}

// reach waits until the console has shown a mark, and what stands before it.
func (c *console) reach(mark uint64) {
	limit := time.NewTimer(settleLimit)
	defer limit.Stop()
	for {
		c.mu.Lock()
		changed := c.changed
		done := c.marked >= mark || c.unclear || c.over || c.quit || len(c.text) > consoleHeld/2
		c.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-limit.C:
			c.mu.Lock()
			c.unclear = true
			c.mu.Unlock()
			return
		}
	}
}

func (c *console) resize(s Size) error {
	c.using.Lock()
	defer c.using.Unlock()
	if c.freed {
		return ErrEnded
	}
	return c.pty.Resize(int(s.Cols), int(s.Rows))
}

// finish ends the pseudo console; what was read of it stays. pump goes on
// meanwhile, because before Windows 11 24H2 a pseudo console does not end before
// its output is read. The library's Close must be called once.
func (c *console) finish() error {
	c.ending.Do(func() {
		c.mu.Lock()
		c.last = true
		c.changedLocked()
		c.mu.Unlock()
		done := make(chan error, 1)
		go func() { done <- c.free() }()
		select {
		case c.ended = <-done:
		case <-time.After(drainLimit):
			c.ended = fmt.Errorf("host: the pseudo console did not end within %s", drainLimit)
		}
	})
	return c.ended
}

// free closes everything. The library closes its ends for the worker's side, so
// that a read and a write in progress end; it may take as long as the console
// likes, and takes its handles and ours with it whenever it is done.
func (c *console) free() error {
	c.using.Lock()
	c.freed = true
	c.using.Unlock()
	err := c.pty.Close()
	<-c.pumped
	return errors.Join(err, c.in.Close(), c.out.Close())
}

// close gives up what is left.
func (c *console) close() error {
	c.mu.Lock()
	c.quit, c.text = true, nil
	c.changedLocked()
	c.mu.Unlock()
	return c.finish()
}
