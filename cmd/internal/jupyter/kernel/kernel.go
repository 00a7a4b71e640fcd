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
	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/zsock"
	"github.com/turnstone-repl/turnstone/session"
)

// A Language is what front ends want to know of one.
type Language struct {
	Name        string `json:"name"`
	Version     string `json:"version"`
	MIME        string `json:"mimetype"`
	Extension   string `json:"file_extension"` // with its dot
	Lexer       string `json:"pygments_lexer"`
	Mode        string `json:"codemirror_mode"`
	NBConverter string `json:"nbconvert_exporter"`

	// Show is code that shows the value of an expression, which stands for %s. "" means that the
	// expression alone does.
	Show string `json:"-"`
}

// Options say how a kernel runs.
type Options struct {
	Connection wire.Connection

	// Open returns the session, which it makes if there is none. It is called at the start, and
	// again when the session has ended and a request needs one.
	Open func(context.Context) (session.Session, session.Info, error)

	// Language describes a language by its name in session.Info.
	Language func(name string) Language

	Version string // of this program

	// EndsSession makes a shutdown end the session; otherwise it leaves it. ResetsSession makes a
	// restart reset it; otherwise a restart is one of the kernel's process alone.
	EndsSession, ResetsSession bool

	// ByHand is the command with which a person answers what the session asks; "" for none.
	ByHand string

	// Interrupts are signals that interrupt, as interrupt requests do.
	Interrupts <-chan os.Signal

	Notes io.Writer // what a person should read
}

// maxRefusals bounds the refused messages that are noted, since strangers may send them.
const maxRefusals = 10

// lastWords bounds the time in which peers are told that the kernel leaves.
const lastWords = time.Second

// A kernel serves one connection file.
type kernel struct {
	o     Options
	codec *wire.Codec
	id    string // of the kernel in headers
	ctx   context.Context
	stop  context.CancelFunc
	tasks sync.WaitGroup // all goroutines but those of listeners

	sessions sessions
	shell    shell
	subs     subscribers
	inputs   inputs
	past     past

	mu      sync.Mutex
	refused int
}

// Run serves the connection until a shutdown request, or until ctx ends, and then leaves the
// session as it is. An error is that a socket or the session cannot be had at the start.
func Run(ctx context.Context, o Options) error {
	k := &kernel{o: o, codec: o.Connection.Codec(), id: wire.NewID()}
	k.ctx, k.stop = context.WithCancel(ctx)
	defer k.stop()
	k.sessions.init(k)
	k.shell.init(k)
	k.subs.init(k)
	k.inputs.init(k)
	listeners, err := k.listen()
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
	if _, err := k.sessions.get(k.ctx); err != nil && k.ctx.Err() == nil {
		return err
	}
	k.tasks.Go(k.shell.run)
	k.tasks.Go(k.signals)
	k.tasks.Go(k.watchParent)
	<-k.ctx.Done()
	k.subs.drain(lastWords)
	return nil
}

// listen opens the five sockets.
func (k *kernel) listen() (listeners []*zsock.Listener, err error) {
	c := &k.o.Connection
	for _, socket := range []struct {
		name  string
		port  int
		kind  zsock.Kind
		serve func(*zsock.Conn)
	}{
		{"shell", c.Shell, zsock.Router, func(conn *zsock.Conn) { k.serve(conn, k.shellRequest) }},
		{"control", c.Control, zsock.Router, func(conn *zsock.Conn) { k.serve(conn, k.controlRequest) }},
		{"stdin", c.Stdin, zsock.Router, k.inputs.serve},
		{"iopub", c.IOPub, zsock.XPub, k.subs.serve},
		{"heartbeat", c.Heartbeat, zsock.Router, echo},
	} {
		l, err := zsock.Listen(c.Endpoint(socket.port), socket.kind, socket.serve)
		if err != nil {
			return listeners, fmt.Errorf("the %s socket: %w", socket.name, err)
		}
		listeners = append(listeners, l)
	}
	return listeners, nil
}

// echo is the heartbeat.
func echo(conn *zsock.Conn) {
	for {
		frames, err := conn.Recv()
		if err != nil || conn.Post(frames...) != nil {
			return
		}
	}
}

// A request is a message with the connection that it came on.
type request struct {
	wire.Message
	conn *zsock.Conn
}

// serve hands each request of a peer on, and leaves the peer when one is refused for good.
func (k *kernel) serve(conn *zsock.Conn, handle func(*request) error) {
	for {
		frames, err := conn.Recv()
		if err != nil {
			return
		}
		m, err := k.codec.Decode(frames)
		if err != nil {
			k.refuse(err)
			continue
		}
		if err := handle(&request{m, conn}); err != nil {
			k.refuse(err)
			return
		}
	}
}

// refuse notes that a message was not taken.
func (k *kernel) refuse(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refused++
	switch {
	case k.refused < maxRefusals:
		k.note("a message was refused: %v", err)
	case k.refused == maxRefusals:
		k.note("a message was refused: %v; no more of them are reported", err)
	}
}

func (k *kernel) note(format string, args ...any) {
	if k.o.Notes != nil {
		fmt.Fprintf(k.o.Notes, "repl: "+format+"\n", args...)
	}
}

// reply answers a request on its own connection.
func (k *kernel) reply(r *request, kind string, content any, metadata []byte) {
	m, err := r.Reply(kind, content)
	if err != nil {
		k.note("%v", err)
		return
	}
	m.Header = wire.NewHeader(k.id, r.Header.Username, kind)
	m.Metadata = metadata
	frames, err := k.codec.Encode(&m)
	if err == nil {
		err = r.conn.Post(frames...)
	}
	if errors.Is(err, zsock.ErrSlow) {
		k.note("%v", err)
	}
}

// answer answers a request that needs no turn, between the two statuses.
func (k *kernel) answer(r *request, kind string, content any) {
	k.busy(&r.Header)
	k.reply(r, kind, content, nil)
	k.idle(&r.Header)
}

func (k *kernel) busy(parent *wire.Header) { k.subs.tell(parent, "status", status{"busy"}) }
func (k *kernel) idle(parent *wire.Header) { k.subs.tell(parent, "status", status{"idle"}) }

type status struct {
	State string `json:"execution_state"`
}

// signals interrupts for each signal.
func (k *kernel) signals() {
	for {
		select {
		case <-k.o.Interrupts:
			k.interrupt()
		case <-k.ctx.Done():
			return
		}
	}
}

// watchParent leaves when the process that started the kernel is gone: nobody would end it then.
func (k *kernel) watchParent() {
	parent, ticker := os.Getppid(), time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if os.Getppid() != parent {
				k.note("the front end is gone; the session goes on")
				k.stop()
				return
			}
		case <-k.ctx.Done():
			return
		}
	}
}
