// Package faultdial connects to a daemon through a dialer whose connections break when a test wants
// it, as ssh does when a cable is pulled, but without a network.
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

// A FaultyDialer connects to a daemon like the command of a remote, and breaks on demand.
type FaultyDialer struct {
	socket string

	mu          sync.Mutex
	bytesUp     int // bytes to the daemon until the next cut; negative: none
	bytesDown   int // bytes from the daemon, likewise
	connections []*proxiedConn
	broken      bool   // every Dial fails
	cuts        int    // number of cuts
	sent        []byte // everything sent to the daemon
	received    []byte // everything that reached the client
}

// A proxiedConn joins one connection of a client with one to the daemon.
type proxiedConn struct {
	clientConn, daemonConn net.Conn
	paused                 chan struct{} // guarded by Dialer.mu; nil, or closed when traffic continues
}

func (l *proxiedConn) closeBoth() {
	_ = l.clientConn.Close()
	_ = l.daemonConn.Close()
}

// NewDialer returns a Dialer to the daemon at a socket.
func NewDialer(socket string) *FaultyDialer {
	return &FaultyDialer{socket: socket, bytesUp: -1, bytesDown: -1}
}

// SetSocket directs later connections to another socket.
func (w *FaultyDialer) SetSocket(socket string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.socket = socket
}

// String implements client.Dialer.
func (w *FaultyDialer) String() string { return "gpu (a faulty dialer)" }

// DisplayName names the remote.
func (w *FaultyDialer) DisplayName() string { return "gpu" }

// Dial implements client.Dialer.
func (w *FaultyDialer) Dial(ctx context.Context) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	failed := func(err error) error {
		return &session.Error{Kind: client.KindUnreachable, Message: "gpu cannot be reached: " + err.Error(), Cause: err}
	}
	if w.broken {
		return nil, failed(errors.New("no route to host"))
	}
	daemonEnd, err := client.Socket(w.socket).Dial(ctx)
	if err != nil {
		return nil, failed(err)
	}
	clientEnd, ours := net.Pipe()
	l := &proxiedConn{clientConn: ours, daemonConn: daemonEnd}
	w.connections = append(w.connections, l)
	go w.copyBytes(l, daemonEnd, ours, &w.bytesUp)
	go w.copyBytes(l, ours, daemonEnd, &w.bytesDown)
	return clientEnd, nil
}

// copyBytes copies one direction, and cuts both after the number of bytes in left.
func (w *FaultyDialer) copyBytes(l *proxiedConn, to io.Writer, from io.Reader, left *int) {
	defer l.closeBoth()
	b := make([]byte, 4<<10)
	for {
		n, err := from.Read(b)
		w.mu.Lock()
		paused := l.paused
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
		if paused != nil {
			<-paused
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

// CutAfter cuts the connections once, after the given number of bytes in a direction.
func (w *FaultyDialer) CutAfter(up, down int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bytesUp, w.bytesDown = up, down
}

// SentLines returns the lines that were sent to the daemon.
func (w *FaultyDialer) SentLines() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Split(strings.TrimSuffix(string(w.sent), "\n"), "\n")
}

// HasReceived reports whether the client received this text.
func (w *FaultyDialer) HasReceived(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Contains(string(w.received), text)
}

// PauseTraffic stops all traffic on the present connections and leaves them open. It does not
// affect new ones.
func (w *FaultyDialer) PauseTraffic() (resume func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	paused := make(chan struct{})
	for _, l := range w.connections {
		l.paused = paused
	}
	return sync.OnceFunc(func() { close(paused) })
}

// SetBroken(true) cuts all connections and makes every Dial fail, until SetBroken(false).
func (w *FaultyDialer) SetBroken(broken bool) {
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

// CutCount returns how often the connections were cut.
func (w *FaultyDialer) CutCount() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cuts
}

// CutAgain cuts the connections after so many bytes from the daemon, if no cut is pending.
func (w *FaultyDialer) CutAgain(down int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bytesDown < 0 {
		w.bytesDown = down
	}
}
