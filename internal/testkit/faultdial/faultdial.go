// Package faultdial connects to a daemon through a dialer whose connections break on demand,
// without a network. They break as connections of ssh do when a cable is pulled.
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
	paused                 chan struct{} // guarded by FaultyDialer.mu; nil, or closed when traffic continues
}

func (c *proxiedConn) closeBoth() {
	_ = c.clientConn.Close()
	_ = c.daemonConn.Close()
}

// NewDialer returns a FaultyDialer to the daemon at a socket.
func NewDialer(socket string) *FaultyDialer {
	return &FaultyDialer{socket: socket, bytesUp: -1, bytesDown: -1}
}

// SetSocket directs later connections to another socket.
func (d *FaultyDialer) SetSocket(socket string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.socket = socket
}

// String implements client.Dialer.
func (d *FaultyDialer) String() string { return "gpu (a faulty dialer)" }

// DisplayName names the remote.
func (d *FaultyDialer) DisplayName() string { return "gpu" }

// Dial implements client.Dialer.
func (d *FaultyDialer) Dial(ctx context.Context) (net.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	failed := func(err error) error {
		return &session.Error{Kind: session.KindUnreachable, Message: "gpu cannot be reached: " + err.Error(), Cause: err}
	}
	if d.broken {
		return nil, failed(errors.New("no route to host"))
	}
	daemonEnd, err := client.Socket(d.socket).Dial(ctx)
	if err != nil {
		return nil, failed(err)
	}
	clientEnd, ours := net.Pipe()
	l := &proxiedConn{clientConn: ours, daemonConn: daemonEnd}
	d.connections = append(d.connections, l)
	go d.copyBytes(l, daemonEnd, ours, &d.bytesUp)
	go d.copyBytes(l, ours, daemonEnd, &d.bytesDown)
	return clientEnd, nil
}

// copyBytes copies one direction, and cuts both after the number of bytes in left.
func (d *FaultyDialer) copyBytes(l *proxiedConn, to io.Writer, from io.Reader, left *int) {
	defer l.closeBoth()
	b := make([]byte, 4<<10)
	for {
		n, err := from.Read(b)
		d.mu.Lock()
		paused := l.paused
		if left == &d.bytesUp {
			d.sent = append(d.sent, b[:n]...)
		}
		cut := *left >= 0 && n > *left
		if cut {
			n, *left = *left, -1
			d.cuts++
		} else if *left >= 0 {
			*left -= n
		}
		d.mu.Unlock()
		if paused != nil {
			<-paused
		}
		_, writeErr := to.Write(b[:n])
		if writeErr == nil && left == &d.bytesDown {
			d.mu.Lock()
			d.received = append(d.received, b[:n]...)
			d.mu.Unlock()
		}
		if err != nil || writeErr != nil || cut {
			return
		}
	}
}

// CutAfter cuts the connections once, after the given number of bytes in a direction.
func (d *FaultyDialer) CutAfter(up, down int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.bytesUp, d.bytesDown = up, down
}

// SentLines returns the lines that were sent to the daemon.
func (d *FaultyDialer) SentLines() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Split(strings.TrimSuffix(string(d.sent), "\n"), "\n")
}

// HasReceived reports whether the client received this text.
func (d *FaultyDialer) HasReceived(text string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Contains(string(d.received), text)
}

// PauseTraffic stops all traffic on the present connections and leaves them open. It does not
// affect new ones.
func (d *FaultyDialer) PauseTraffic() (resume func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	paused := make(chan struct{})
	for _, l := range d.connections {
		l.paused = paused
	}
	return sync.OnceFunc(func() { close(paused) })
}

// SetBroken cuts all connections and makes every Dial fail, until it is called with false.
func (d *FaultyDialer) SetBroken(broken bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.broken = broken
	if broken {
		for _, l := range d.connections {
			l.closeBoth()
		}
		d.connections = nil
	}
}

// CutCount returns how often the connections were cut.
func (d *FaultyDialer) CutCount() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cuts
}

// CutAgain cuts the connections after so many bytes from the daemon, if no cut is pending.
func (d *FaultyDialer) CutAgain(down int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.bytesDown < 0 {
		d.bytesDown = down
	}
}
