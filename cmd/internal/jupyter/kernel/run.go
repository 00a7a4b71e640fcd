package kernel

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/wire"
	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/zmtp"
)

// drainTimeout bounds the time to send the last messages to peers when the kernel ends.
const drainTimeout = time.Second

// Run serves the connection until a shutdown request, or until ctx ends; in the latter case the session
// stays open. It returns an error if a socket or the session cannot be opened at the start.
func Run(ctx context.Context, o Options) error {
	k := &kernel{options: o, codec: o.Connection.Codec(), id: wire.NewID()}
	k.ctx, k.stop = context.WithCancel(ctx)
	defer k.stop()
	k.sessions.initKernel(k)
	k.shell.initKernel(k)
	k.subs.initKernel(k)
	k.inputs.initKernel(k)
	listeners, err := k.listenSockets()
	defer func() {
		k.stop()
		for _, l := range listeners {
			l.Close()
		}
		k.tasks.Wait()
	}()
	if err != nil {
		return err
	}
	if _, err := k.sessions.ensureSession(k.ctx); err != nil && k.ctx.Err() == nil {
		return err
	}
	k.tasks.Go(k.shell.runQueue)
	k.tasks.Go(k.handleSignals)
	k.tasks.Go(k.watchParent)
	<-k.ctx.Done()
	k.subs.awaitSent(drainTimeout)
	return nil
}

// listenSockets opens the five sockets.
func (k *kernel) listenSockets() (listeners []*zmtp.Listener, err error) {
	c := &k.options.Connection
	for _, socket := range []struct {
		name  string
		port  int
		kind  zmtp.SocketType
		serve func(*zmtp.Conn)
	}{
		{"shell", c.Shell, zmtp.Router, func(conn *zmtp.Conn) { k.servePeer(conn, k.handleShellRequest) }},
		{"control", c.Control, zmtp.Router, func(conn *zmtp.Conn) { k.servePeer(conn, k.handleControlRequest) }},
		{"stdin", c.Stdin, zmtp.Router, k.inputs.servePeer},
		{"iopub", c.IOPub, zmtp.XPub, k.subs.servePeer},
		{"heartbeat", c.Heartbeat, zmtp.Router, serveHeartbeat},
	} {
		l, err := zmtp.Listen(c.Endpoint(socket.port), socket.kind, socket.serve)
		if err != nil {
			return listeners, fmt.Errorf("%s socket: %w", socket.name, err)
		}
		listeners = append(listeners, l)
	}
	return listeners, nil
}

// serveHeartbeat sends each message back to its peer.
func serveHeartbeat(conn *zmtp.Conn) {
	for {
		frames, err := conn.Receive()
		if err != nil || conn.Enqueue(frames...) != nil {
			return
		}
	}
}

// handleSignals interrupts for each signal.
func (k *kernel) handleSignals() {
	for {
		select {
		case <-k.options.Interrupts:
			k.interruptCurrent()
		case <-k.ctx.Done():
			return
		}
	}
}

// watchParent ends the kernel when the process that started it is gone. Otherwise the kernel would run forever.
func (k *kernel) watchParent() {
	parent, ticker := os.Getppid(), time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if os.Getppid() != parent {
				k.printNotice("the front end has ended; the session continues")
				k.stop()
				return
			}
		case <-k.ctx.Done():
			return
		}
	}
}
