package kernel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/wire"
	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/zmtp"
	"github.com/turnstone-repl/turnstone/session"
)

// A LanguageInfo describes the session's language to front ends, as in a kernel_info reply.
type LanguageInfo struct {
	Name        string `json:"name"`
	Version     string `json:"version"`
	MIME        string `json:"mimetype"`
	Extension   string `json:"file_extension"` // with its dot
	Lexer       string `json:"pygments_lexer"`
	Mode        string `json:"codemirror_mode"`
	NBConverter string `json:"nbconvert_exporter"`

	// PrintFormat is code that prints the value of an expression, which replaces its %s. "" means that
	// the expression alone prints its value.
	PrintFormat string `json:"-"`
}

// Options say what a kernel serves, and how it uses its session.
type Options struct {
	Connection wire.Connection

	// Open returns the session, and creates it if necessary. It is called at the start, and again when
	// the session has ended and a request needs one.
	Open func(context.Context) (session.Session, session.Info, error)

	// Language describes a language by its name in session.Info.
	Language func(name string) LanguageInfo

	Version string // of this program

	// EndsSession makes a shutdown end the session; otherwise the session stays open. ResetsSession
	// makes a restart reset it; otherwise only the kernel's process is restarted.
	EndsSession, ResetsSession bool

	// PermissionHint names the command with which a user answers permission requests of the session, or "".
	PermissionHint string

	// Interrupts delivers signals that interrupt the session, like interrupt requests.
	Interrupts <-chan os.Signal

	Notes io.Writer // for notices to the user; nil discards them
}

// maxReportedErrors bounds the notices about rejected messages, since any program may send such messages.
const maxReportedErrors = 10

// drainTimeout bounds the time to send the last messages to peers when the kernel ends.
const drainTimeout = time.Second

// A kernel serves the sockets of one connection file.
type kernel struct {
	options Options
	codec   *wire.Codec
	id      string // of the kernel in headers
	ctx     context.Context
	stop    context.CancelFunc
	tasks   sync.WaitGroup // all goroutines except those of listeners

	sessions   currentSession
	shell      requestQueue
	subs       subscribers
	inputs     stdinChannel
	pastInputs executionHistory

	mu               sync.Mutex
	rejectedMessages int
}

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

// serveHeartbeat sends back what a peer sends.
func serveHeartbeat(conn *zmtp.Conn) {
	for {
		frames, err := conn.Receive()
		if err != nil || conn.Enqueue(frames...) != nil {
			return
		}
	}
}

// A peerRequest is a message with the connection that it came on.
type peerRequest struct {
	wire.Message
	conn *zmtp.Conn
}

// servePeer handles the requests of a peer, and disconnects it if handle returns an error.
func (k *kernel) servePeer(conn *zmtp.Conn, handle func(*peerRequest) error) {
	for {
		frames, err := conn.Receive()
		if err != nil {
			return
		}
		m, err := k.codec.Decode(frames)
		if err != nil {
			k.reportRejected(err)
			continue
		}
		if err := handle(&peerRequest{m, conn}); err != nil {
			k.reportRejected(err)
			return
		}
	}
}

// reportRejected prints a notice about a rejected message.
func (k *kernel) reportRejected(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rejectedMessages++
	switch {
	case k.rejectedMessages < maxReportedErrors:
		k.printNotice("message rejected: %v", err)
	case k.rejectedMessages == maxReportedErrors:
		k.printNotice("message rejected: %v; further ones are not reported", err)
	}
}

func (k *kernel) printNotice(format string, args ...any) {
	if k.options.Notes != nil {
		fmt.Fprintf(k.options.Notes, "repl: "+format+"\n", args...)
	}
}

// sendReply answers a request on its own connection.
func (k *kernel) sendReply(r *peerRequest, kind string, content any, metadata []byte) {
	m, err := r.NewReply(kind, content)
	if err != nil {
		k.printNotice("%v", err)
		return
	}
	m.Header = wire.NewHeader(k.id, r.Header.Username, kind)
	m.Metadata = metadata
	frames, err := k.codec.Encode(&m)
	if err == nil {
		err = r.conn.Enqueue(frames...)
	}
	if errors.Is(err, zmtp.ErrSlowPeer) {
		k.printNotice("%v", err)
	}
}

// sendPlainReply answers a request that needs no turn, between the statuses busy and idle.
func (k *kernel) sendPlainReply(r *peerRequest, kind string, content any) {
	k.publishBusy(&r.Header)
	k.sendReply(r, kind, content, nil)
	k.publishIdle(&r.Header)
}

func (k *kernel) publishBusy(parent *wire.Header) {
	k.subs.publish(parent, "status", statusContent{"busy"})
}
func (k *kernel) publishIdle(parent *wire.Header) {
	k.subs.publish(parent, "status", statusContent{"idle"})
}

type statusContent struct {
	State string `json:"execution_state"`
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

// watchParent ends the kernel when the process that started it is gone, because nothing else would.
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
