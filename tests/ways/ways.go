// Package ways has a way to a daemon that breaks when a test wants it to: as ssh does when a cable
// is pulled, and without a network.
//
// A connection has two goroutines, one for each direction. They end with it.
package ways

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/session"
)

// A Way leads to a daemon as the command of a place does, and breaks when it is told to.
type Way struct {
	socket string

	mu     sync.Mutex
	up     int // bytes to the daemon until the next cut; negative: none
	down   int // bytes from the daemon, likewise
	open   []*leg
	broken bool   // nothing can be dialled
	count  int    // of cuts
	sent   []byte // all that was said to the daemon
	came   []byte // all that reached the client
}

// A leg is one connection over a way.
type leg struct {
	near, far net.Conn
	dark      chan struct{} // guarded by Way.mu; nil, or closed when it carries again
}

func (l *leg) cut() {
	_ = l.near.Close()
	_ = l.far.Close()
}

// New returns a way to the daemon at a socket.
func New(socket string) *Way { return &Way{socket: socket, up: -1, down: -1} }

// Leads has the way lead to another socket from now on.
func (w *Way) Leads(socket string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.socket = socket
}

// String implements client.Dialer.
func (w *Way) String() string { return "gpu (a way that breaks)" }

// Place names the far side.
func (w *Way) Place() string { return "gpu" }

// Dial implements client.Dialer.
func (w *Way) Dial(ctx context.Context) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	failed := func(err error) error {
		return &session.Error{Kind: client.KindUnreachable, Message: "gpu cannot be reached: " + err.Error(), Cause: err}
	}
	if w.broken {
		return nil, failed(errors.New("no route to host"))
	}
	far, err := client.Socket(w.socket).Dial(ctx)
	if err != nil {
		return nil, failed(err)
	}
	near, ours := net.Pipe()
	l := &leg{near: ours, far: far}
	w.open = append(w.open, l)
	go w.carry(l, far, ours, &w.up)
	go w.carry(l, ours, far, &w.down)
	return near, nil
}

// carry copies one direction, and cuts both when as many bytes as are left have passed.
func (w *Way) carry(l *leg, to io.Writer, from io.Reader, left *int) {
	defer l.cut()
	b := make([]byte, 4<<10)
	for {
		n, err := from.Read(b)
		w.mu.Lock()
		dark := l.dark
		if left == &w.up {
			w.sent = append(w.sent, b[:n]...)
		}
		cut := *left >= 0 && n > *left
		if cut {
			n, *left = *left, -1
			w.count++
		} else if *left >= 0 {
			*left -= n
		}
		w.mu.Unlock()
		if dark != nil {
			<-dark
		}
		_, writeErr := to.Write(b[:n])
		if writeErr == nil && left == &w.down {
			w.mu.Lock()
			w.came = append(w.came, b[:n]...)
			w.mu.Unlock()
		}
		if err != nil || writeErr != nil || cut {
			return
		}
	}
}

// CutAfter cuts the way once, after so many bytes in a direction.
func (w *Way) CutAfter(up, down int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.up, w.down = up, down
}

// Sent returns the lines that were sent to the daemon.
func (w *Way) Sent() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Split(strings.TrimSuffix(string(w.sent), "\n"), "\n")
}

// Came reports whether the client was told something with this text.
func (w *Way) Came(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Contains(string(w.came), text)
}

// GoDark has the connections that are there carry nothing more, and leaves them open. New ones
// are not concerned.
func (w *Way) GoDark() (light func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	dark := make(chan struct{})
	for _, l := range w.open {
		l.dark = dark
	}
	return sync.OnceFunc(func() { close(dark) })
}

// BreakDown cuts all connections, and has none made, until it is called with false.
func (w *Way) BreakDown(broken bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = broken
	if broken {
		for _, l := range w.open {
			l.cut()
		}
		w.open = nil
	}
}

// Cuts returns how often the way was cut.
func (w *Way) Cuts() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count
}

// CutAgain cuts the way after so many bytes from the daemon, if no cut is to come already.
func (w *Way) CutAgain(down int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down < 0 {
		w.down = down
	}
}
