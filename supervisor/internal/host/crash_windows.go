package host

import (
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/windows"
)

// maxCrash bounds, in bytes, what is kept of a crash log: its end.
const maxCrash = 16 << 10

// crashLimit bounds the wait for the end of a crash log when the worker is gone.
const crashLimit = time.Second

// crashName returns the name of the pipe for a worker's crash log.
func crashName(nonce string) string { return `\\.\pipe\turnstone-crash-` + nonce }

// A crashLog keeps what a worker says of exceptions of its machine code. Windows tells a program of
// each of them first, before anybody has handled it (Microsoft, "Vectored Exception Handling"), and
// the program cannot know whether it will survive. So it is only known when the worker has ended
// whether this is to be shown.
type crashLog struct {
	pipe *pipe
	used atomic.Bool   // the worker has connected
	over chan struct{} // closed when nothing comes any more

	mu   sync.Mutex
	text []byte // guarded by mu
}

func newCrashLog(nonce string) (*crashLog, error) {
	p, err := listenAt(crashName(nonce), windows.PIPE_ACCESS_INBOUND)
	if err != nil {
		return nil, err
	}
	c := &crashLog{pipe: p, over: make(chan struct{})}
	go c.read() // ends with the worker, if it connects, or with the stage
	return c, nil
}

func (c *crashLog) read() {
	defer close(c.over)
	if c.pipe.accept(func(int) bool { return true }, time.Time{}) != nil { // it may be behind a launcher
		return
	}
	c.used.Store(true)
	b := make([]byte, 4<<10)
	for {
		n, err := c.pipe.file.Read(b)
		c.mu.Lock()
		c.text = append(c.text, b[:n]...)
		c.text = c.text[max(0, len(c.text)-maxCrash):]
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// survived forgets what was said: the worker goes on.
func (c *crashLog) survived() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text = nil
}

// show writes what was said if the worker died of it.
func (c *crashLog) show(out *os.File, status int) {
	if !isCrash(status) || !c.used.Load() {
		return
	}
	select {
	case <-c.over: // all of it has come
	case <-time.After(crashLimit):
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = out.Write(c.text)
}

// isCrash reports whether a status is that of a crash. 3 is that of abort, in Microsoft's
// C library.
func isCrash(status int) bool { return status > maxStatus || status == 3 }
