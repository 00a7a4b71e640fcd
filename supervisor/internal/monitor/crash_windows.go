package monitor

import (
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
	"github.com/turnstone-repl/turnstone/supervisor/internal/winpipe"
	"golang.org/x/sys/windows"
)

// maxCrashLogBytes is the number of bytes that are kept from the end of a crash log.
const maxCrashLogBytes = 16 << 10

// crashLogTimeout bounds the wait for the end of a crash log when the worker is gone.
const crashLogTimeout = time.Second

// crashPipeName returns the name of the pipe for a worker's crash log.
func crashPipeName(nonce string) string { return `\\.\pipe\turnstone-crash-` + nonce }

// A crashLog keeps what a worker writes about exceptions in its machine code. Windows reports each
// of them to a program before any handler has handled it (Microsoft, "Vectored Exception
// Handling"). The program cannot know whether it will survive. So the text is shown or dropped only
// once the worker has ended.
type crashLog struct {
	pipe      *winpipe.Pipe
	connected atomic.Bool   // the worker has connected
	done      chan struct{} // closed when no more text can follow

	mu   sync.Mutex
	text []byte // guarded by mu
}

func newCrashLog(nonce string) (*crashLog, error) {
	p, err := winpipe.ListenAt(crashPipeName(nonce), windows.PIPE_ACCESS_INBOUND)
	if err != nil {
		return nil, err
	}
	c := &crashLog{pipe: p, done: make(chan struct{})}
	go c.read() // ends with the worker, if it connects, or with the monitor
	return c, nil
}

func (c *crashLog) read() {
	defer close(c.done)
	if c.pipe.AwaitClient(func(int) bool { return true }, time.Time{}) != nil { // it may be behind a launcher
		return
	}
	c.connected.Store(true)
	b := make([]byte, 4<<10)
	for {
		n, err := c.pipe.File.Read(b)
		c.mu.Lock()
		c.text = append(c.text, b[:n]...)
		c.text = c.text[max(0, len(c.text)-maxCrashLogBytes):]
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// discardText discards the text so far, because the worker has survived.
func (c *crashLog) discardText() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text = nil
}

// writeIfCrashed writes the text to out if the worker died of a crash.
func (c *crashLog) writeIfCrashed(out *os.File, status int) {
	if !isCrash(status) || !c.connected.Load() {
		return
	}
	select {
	case <-c.done: // the text is complete
	case <-time.After(crashLogTimeout):
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = out.Write(c.text)
}

// isCrash reports whether an exit status means a crash. 3 is the status of abort in Microsoft's C
// library.
func isCrash(status int) bool { return status > monitorproto.MaxExitStatus || status == 3 }
