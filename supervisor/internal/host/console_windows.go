package host

import (
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"github.com/UserExistsError/conpty"
)

// consoleHeld bounds, in bytes, what is read ahead of a pseudo console. Beyond
// it nothing is read, so whoever writes blocks.
const consoleHeld = 1 << 20

// drainLimit bounds the end of a pseudo console.
const drainLimit = time.Second

// endMark is the mark behind everything that a worker has written.
const endMark = math.MaxUint64

// settleLimit bounds the wait for a mark. A console that has let it pass once is
// not waited for again.
const settleLimit = 100 * time.Millisecond

// A console is the supervisor's side of a pseudo console. Its pipes know only
// blocking reads, so a goroutine reads ahead, from the start to the end.
type console struct {
	pty    *conpty.ConPty
	reset  func() error       // puts modes and unread input back; set once the stage is there
	mark   func(uint64) error // has the stage leave a mark; set with reset
	marks  *marks             // pump only
	pumped chan struct{}      // closed when pump has ended
	ending sync.Once
	ended  error

	mu      sync.Mutex
	text    []byte        // guarded by mu
	marked  uint64        // the highest mark that was met; guarded by mu
	asked   uint64        // the highest that settle has asked for; guarded by mu
	unclear bool          // marks do not come through; guarded by mu
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
	go c.pump()
	return c, nil
}

func (c *console) pump() {
	defer close(c.pumped)
	b := make([]byte, 32<<10)
	var quiet quieter
	for {
		n, err := c.pty.Read(b)
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
		c.marked = c.marks.last
		c.changedLocked()
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
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
	if _, err := c.pty.Write(b); err != nil {
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

func (c *console) resize(s Size) error { return c.pty.Resize(int(s.Cols), int(s.Rows)) }

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
		go func() { done <- c.pty.Close() }()
		select {
		case c.ended = <-done:
			<-c.pumped
		case <-time.After(drainLimit):
			c.ended = fmt.Errorf("host: the pseudo console did not end within %s", drainLimit)
		}
	})
	return c.ended
}

// close gives up what is left.
func (c *console) close() error {
	c.mu.Lock()
	c.quit, c.text = true, nil
	c.changedLocked()
	c.mu.Unlock()
	return c.finish()
}
