package kernelworker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/kernelspec"
	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/wire"
	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/zmtp"
)

const (
	maxSavedOutput = 4 << 10 // bytes of a kernel's own output that are kept

	// maxSocketPath is the longest path that every system takes for a socket.
	maxSocketPath = 100

	// Ports are taken from below those that systems give to outgoing connections.
	firstPort, lastPort = 20000, 32000
)

// A kernelProcess is the process of a kernel and the sockets to it.
type kernelProcess struct {
	connection wire.Connection
	codec      *wire.Codec
	session    string // ours, in headers

	cmd    *exec.Cmd
	exited chan struct{} // closed when the process was reaped
	output *outputTail   // nil when its output goes to the terminal

	*kernelSockets // nil until it is connected

	ports []net.PacketConn // hold its ports, as long as this process lives
}

// kernelSockets are the connections to a kernel.
type kernelSockets struct{ shell, control, stdin, iopub *zmtp.Conn }

// launchKernel starts the kernel of a spec. dir is private, and holds its connection file and sockets.
func launchKernel(spec *kernelspec.Spec, dir string) (*kernelProcess, error) {
	connection, ports, err := newConnection(spec, dir)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "connection.json")
	if err := connection.WriteFile(file); err != nil {
		return nil, err
	}
	k := &kernelProcess{connection: connection, codec: connection.Codec(), session: wire.NewID(), exited: make(chan struct{}), ports: ports}
	words := spec.Command(file)
	k.cmd = exec.Command(words[0], words[1:]...)
	k.cmd.Env = append(os.Environ(), spec.Env(os.Getenv)...)
	k.cmd.Stdin, k.cmd.Stdout, k.cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	var own *os.File
	if printsBanner(spec) {
		k.output = &outputTail{drained: make(chan struct{})}
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		own, k.cmd.Stdout, k.cmd.Stderr = w, w, w
		k.cmd.Env = append(k.cmd.Env, quietDebuggerEnv)
		go k.output.read(r)
	}
	err = k.cmd.Start()
	if own != nil {
		own.Close()
	}
	if err != nil {
		return nil, err
	}
	go func() {
		k.cmd.Wait()
		close(k.exited)
	}()
	return k, nil
}

// quietDebuggerEnv keeps ipykernel's debugger, which it loads at each start, from warning of what only
// concerns people who use it.
const quietDebuggerEnv = "PYDEVD_DISABLE_FILE_VALIDATION=1"

// printsBanner reports whether a kernel catches the output of its children, sends it in messages, and
// writes it once more to where its own output goes. Kernels on ipykernel do, and these are those
// that are Python modules but for xeus'.
func printsBanner(spec *kernelspec.Spec) bool {
	module := spec.PythonModule()
	return module != "" && !strings.HasPrefix(module, "xpython") && !strings.HasPrefix(module, "xeus")
}

// newConnection chooses where the kernel listens. Kernels on ipykernel know sockets in a directory,
// which no other user can reach; others get ports of the loopback, which are returned, too.
func newConnection(spec *kernelspec.Spec, dir string) (wire.Connection, []net.PacketConn, error) {
	c := wire.Connection{
		Transport: "tcp", IP: "127.0.0.1", Key: wire.NewID(), Scheme: wire.Scheme, KernelName: spec.Name,
	}
	ports := []int{1, 2, 3, 4, 5}
	var held []net.PacketConn
	if path := filepath.Join(dir, "k"); printsBanner(spec) && len(path) < maxSocketPath {
		c.Transport, c.IP = "ipc", path
	} else {
		var err error
		if ports, held, err = freePorts(len(ports), firstPort, lastPort); err != nil {
			return c, nil, err
		}
	}
	c.Shell, c.IOPub, c.Stdin, c.Control, c.Heartbeat = ports[0], ports[1], ports[2], ports[3], ports[4]
	return c, held, nil
}

// freePorts finds n ports of the loopback from first to before last at which nobody listens. Nobody
// who calls it gets one of them again while they are held: by the UDP ports of the same numbers, since
// a kernel that starts needs a second until it listens, and starts without an error if it cannot.
func freePorts(n, first, last int) (ports []int, held []net.PacketConn, err error) {
	for tries := 0; len(ports) < n; tries++ {
		port := first + rand.IntN(last-first)
		hold, err := freePort(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			ports, held = append(ports, port), append(held, hold)
		} else if tries == 200 {
			for _, h := range held {
				h.Close()
			}
			return nil, nil, fmt.Errorf("no free ports: %w", err)
		}
	}
	return ports, held, nil
}

// freePort holds a port, unless somebody holds it or listens there.
func freePort(address string) (net.PacketConn, error) {
	hold, err := net.ListenPacket("udp", address)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		hold.Close()
		return nil, err
	}
	l.Close()
	return hold, nil
}

// connectSockets connects to all sockets, as soon as the kernel listens. It ends with ctx.
func (k *kernelProcess) connectSockets(ctx context.Context) (*kernelSockets, error) {
	identity := wire.NewID()
	all := new(kernelSockets)
	for _, socket := range []struct {
		conn **zmtp.Conn
		port int
		kind zmtp.Kind
	}{
		{&all.iopub, k.connection.IOPub, zmtp.Sub}, {&all.shell, k.connection.Shell, zmtp.Dealer},
		{&all.control, k.connection.Control, zmtp.Dealer}, {&all.stdin, k.connection.Stdin, zmtp.Dealer},
	} {
		conn, err := zmtp.Dial(ctx, k.connection.Endpoint(socket.port), socket.kind, identity)
		if err != nil {
			return nil, err
		}
		*socket.conn = conn
	}
	return all, all.iopub.Subscribe("")
}

// receiveMessages hands the messages of a socket to the loop until the socket is closed. A message that is
// malformed or not signed with our key is dropped; of output that is too large a word comes.
func (k *kernelProcess) receiveMessages(conn *zmtp.Conn, to chan<- wire.Message) {
	defer close(to)
	for {
		frames, err := conn.Receive()
		if large, ok := errors.AsType[*zmtp.TooLargeError](err); ok {
			to <- tooLargeMessage(large.Bytes)
			continue
		}
		if err != nil {
			return
		}
		if m, err := k.codec.Decode(frames); err == nil {
			to <- m
		}
	}
}

// tooLargeMessage is the message in the place of one that is too large.
func tooLargeMessage(bytes uint64) wire.Message {
	content, _ := json.Marshal(streamContent{"stderr", fmt.Sprintf("[not shown, too large: a message of %d bytes]\n", bytes)})
	return wire.Message{Header: wire.Header{Type: "stream"}, Content: content}
}

// errUnreachable means that the kernel takes no messages. Its process has ended, or is about to.
var errUnreachable = errors.New("the kernel takes no messages")

// sendMessage sends a message and returns its id. parent is that of a request that it answers, or nil. The
// error is errUnreachable, or that the content cannot be sent.
func (k *kernelProcess) sendMessage(conn *zmtp.Conn, kind string, content any, parent *wire.Header) (string, error) {
	raw, err := json.Marshal(content)
	if err != nil {
		return "", err
	}
	m := wire.Message{Header: wire.NewHeader(k.session, "turnstone", kind), Content: raw}
	if parent != nil {
		m.Parent = *parent
	}
	frames, err := k.codec.Encode(&m)
	if err != nil {
		return "", err
	}
	if err := conn.Send(frames...); err != nil {
		return "", errUnreachable
	}
	return m.Header.ID, nil
}

// lastLines returns the end of what the kernel wrote itself, if that was not shown.
func (k *kernelProcess) lastLines() string {
	if k.output == nil {
		return ""
	}
	select {
	case <-k.output.drained:
	case <-time.After(drainTimeout): // a child holds its output open
	}
	return k.output.String()
}

// An outputTail keeps the end of what is written to it.
type outputTail struct {
	drained chan struct{} // closed when nothing more comes
	mu      sync.Mutex
	text    []byte // guarded by mu
}

func (t *outputTail) read(r io.ReadCloser) {
	_, _ = io.Copy(t, r) // what cannot be read is missing in a report
	r.Close()
	close(t.drained)
}

func (t *outputTail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b[max(0, len(b)-maxSavedOutput):]...)
	t.text = bytes.Clone(t.text[max(0, len(t.text)-maxSavedOutput):])
	return len(b), nil
}

func (t *outputTail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.text), "\uFFFD")
}
