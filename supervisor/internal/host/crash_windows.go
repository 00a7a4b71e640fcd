package host

import (
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/windows"
)

// maxCrashLogBytes bounds, in bytes, what is kept of a crash log: its end.
const maxCrashLogBytes = 16 << 10

// crashLogTimeout bounds the wait for the end of a crash log when the worker is gone.
const crashLogTimeout = time.Second

// crashPipeName returns the name of the pipe for a worker's crash log.
func crashPipeName(nonce string) string { return `\\.\pipe\turnstone-crash-` + nonce }

// A crashLog keeps what a worker says of exceptions of its machine code. Windows tells a program of
// each of them first, before anybody has handled it (Microsoft, "Vectored Exception Handling"), and
// the program cannot know whether it will survive. So it is only known when the worker has ended
// whether this is to be shown.
type crashLog struct {
	pipe      *pipe
	connected atomic.Bool   // the worker has connected
	done      chan struct{} // closed when nothing comes any more

	mu   sync.Mutex
	text []byte // guarded by mu
}

func newCrashLog(nonce string) (*crashLog, error) {
	p, err := listenPipeAt(crashPipeName(nonce), windows.PIPE_ACCESS_INBOUND)
	if err != nil {
		return nil, err
	}
	c := &crashLog{pipe: p, done: make(chan struct{})}
	go c.read() // ends with the worker, if it connects, or with the stage
	return c, nil
}

func (c *crashLog) read() {
	defer close(c.done)
	if c.pipe.accept(func(int) bool { return true }, time.Time{}) != nil { // it may be behind a launcher
		return
	}
	c.connected.Store(true)
	b := make([]byte, 4<<10)
	for {
		n, err := c.pipe.file.Read(b)
		c.mu.Lock()
		c.text = append(c.text, b[:n]...)
		c.text = c.text[max(0, len(c.text)-maxCrashLogBytes):]
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// discardText forgets what was said: the worker goes on.
func (c *crashLog) discardText() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text = nil
}

// writeIfCrashed writes what was said if the worker died of it.
func (c *crashLog) writeIfCrashed(out *os.File, status int) {
	if !isCrash(status) || !c.connected.Load() {
		return
	}
	select {
	case <-c.done: // all of it has come
	case <-time.After(crashLogTimeout):
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = out.Write(c.text)
}

// isCrash reports whether a status is that of a crash. 3 is that of abort, in Microsoft's
// C library.
func isCrash(status int) bool { return status > maxExitStatus || status == 3 }
