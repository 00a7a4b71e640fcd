// Package ways has a way to a daemon that breaks when a test wants it to: as ssh does when a cable
// is pulled, and without a network.
//
// A connection has two goroutines, one for each direction. They end with it.
package faultdial

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

// A Dialer leads to a daemon as the command of a place does, and breaks when it is told to.
type Dialer struct {
	socket string

	mu          sync.Mutex
	bytesUp     int // bytes to the daemon until the next cut; negative: none
	bytesDown   int // bytes from the daemon, likewise
	connections []*proxiedConn
	broken      bool   // nothing can be dialled
	cuts        int    // of cuts
	sent        []byte // all that was said to the daemon
	received    []byte // all that reached the client
}

// A proxiedConn is one connection over a way.
type proxiedConn struct {
	clientConn, daemonConn net.Conn
	paused                 chan struct{} // guarded by Way.mu; nil, or closed when it carries again
}

func (l *proxiedConn) closeBoth() {
	_ = l.clientConn.Close()
	_ = l.daemonConn.Close()
}

// NewDialer returns a way to the daemon at a socket.
func NewDialer(socket string) *Dialer { return &Dialer{socket: socket, bytesUp: -1, bytesDown: -1} }

// SetSocket has the way lead to another socket from now on.
func (w *Dialer) SetSocket(socket string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.socket = socket
}

// String implements client.Dialer.
func (w *Dialer) String() string { return "gpu (a way that breaks)" }

// Place names the far side.
func (w *Dialer) Place() string { return "gpu" }

// Dial implements client.Dialer.
func (w *Dialer) Dial(ctx context.Context) (net.Conn, error) {
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
	l := &proxiedConn{clientConn: ours, daemonConn: far}
	w.connections = append(w.connections, l)
	go w.copyBytes(l, far, ours, &w.bytesUp)
	go w.copyBytes(l, ours, far, &w.bytesDown)
	return near, nil
}

// copyBytes copies one direction, and cuts both when as many bytes as are left have passed.
func (w *Dialer) copyBytes(l *proxiedConn, to io.Writer, from io.Reader, left *int) {
	defer l.closeBoth()
	b := make([]byte, 4<<10)
	for {
		n, err := from.Read(b)
		w.mu.Lock()
		dark := l.paused
		if left == &w.bytesUp {
			w.sent = append(w.sent, b[:n]...)
		}
		cut := *left >= 0 && n > *left
		if cut {
			n, *left = *left, -1
			w.cuts++
		} else if *left >= 0 {
			*left -= n
		}
		w.mu.Unlock()
		if dark != nil {
			<-dark
		}
		_, writeErr := to.Write(b[:n])
		if writeErr == nil && left == &w.bytesDown {
			w.mu.Lock()
			w.received = append(w.received, b[:n]...)
			w.mu.Unlock()
		}
		if err != nil || writeErr != nil || cut {
			return
		}
	}
}

// CutAfter cuts the way once, after so many bytes in a direction.
func (w *Dialer) CutAfter(up, down int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bytesUp, w.bytesDown = up, down
}

// SentLines returns the lines that were sent to the daemon.
func (w *Dialer) SentLines() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Split(strings.TrimSuffix(string(w.sent), "\n"), "\n")
}

// HasReceived reports whether the client was told something with this text.
func (w *Dialer) HasReceived(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Contains(string(w.received), text)
}

// PauseTraffic has the connections that are there carry nothing more, and leaves them open. New ones
// are not concerned.
func (w *Dialer) PauseTraffic() (light func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	dark := make(chan struct{})
	for _, l := range w.connections {
		l.paused = dark
	}
	return sync.OnceFunc(func() { close(dark) })
}

// SetBroken cuts all connections, and has none made, until it is called with false.
func (w *Dialer) SetBroken(broken bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = broken
	if broken {
		for _, l := range w.connections {
			l.closeBoth()
		}
		w.connections = nil
	}
}

// CutCount returns how often the way was cut.
func (w *Dialer) CutCount() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cuts
}

// CutAgain cuts the way after so many bytes from the daemon, if no cut is to come already.
func (w *Dialer) CutAgain(down int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bytesDown < 0 {
		w.bytesDown = down
	}
}
