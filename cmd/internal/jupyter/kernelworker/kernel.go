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
	maxSavedOutput = 4 << 10 // bytes of a kernel's own output that are saved

	// maxSocketPath is the longest path that every system accepts for a socket.
	maxSocketPath = 100

	// Ports are chosen below the range that systems use for outgoing connections.
	firstPort, lastPort = 20000, 32000
)

// A kernelProcess is the process of a kernel and the sockets to it.
type kernelProcess struct {
	connection wire.Connection
	codec      *wire.Codec
	session    string // of this worker, in headers

	cmd    *exec.Cmd
	exited chan struct{} // closed when the process was reaped
	output *outputTail   // nil if its output goes to the terminal

	*kernelSockets // nil until it is connected

	ports []net.PacketConn // reserve its ports as long as this process lives
}

// kernelSockets are the four connections to a kernel.
type kernelSockets struct{ shell, control, stdin, iopub *zmtp.Conn }

// launchKernel starts the kernel of a spec. dir is a private directory for the connection file and sockets.
func launchKernel(spec *kernelspec.KernelSpec, dir string) (*kernelProcess, error) {
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
	if echoesOutput(spec) {
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

// quietDebuggerEnv suppresses a warning of ipykernel's debugger, which is loaded at each start. The
// warning concerns only users of the debugger.
const quietDebuggerEnv = "PYDEVD_DISABLE_FILE_VALIDATION=1"

// echoesOutput reports whether a kernel captures the output of its children, sends it in messages, and
// also writes it to its own output. Kernels based on ipykernel do: all Python modules except
// kernels based on xeus.
func echoesOutput(spec *kernelspec.KernelSpec) bool {
	module := spec.PythonModule()
	return module != "" && !strings.HasPrefix(module, "xpython") && !strings.HasPrefix(module, "xeus")
}

// newConnection chooses where the kernel listens. Kernels based on ipykernel support sockets in a
// directory, which no other user can reach. Other kernels get ports of the loopback interface.
// newConnection also returns the reservations of these ports.
func newConnection(spec *kernelspec.KernelSpec, dir string) (wire.Connection, []net.PacketConn, error) {
	c := wire.Connection{
		Transport: "tcp", IP: "127.0.0.1", Key: wire.NewID(), Scheme: wire.Scheme, KernelName: spec.Name,
	}
	ports := []int{1, 2, 3, 4, 5}
	var reservations []net.PacketConn
	if path := filepath.Join(dir, "k"); echoesOutput(spec) && len(path) < maxSocketPath {
		c.Transport, c.IP = "ipc", path
	} else {
		var err error
		if ports, reservations, err = freePorts(len(ports), firstPort, lastPort); err != nil {
			return c, nil, err
		}
	}
	c.Shell, c.IOPub, c.Stdin, c.Control, c.Heartbeat = ports[0], ports[1], ports[2], ports[3], ports[4]
	return c, reservations, nil
}

// freePorts reserves n ports of the loopback interface, in the range [first, last), at which no
// process listens. The UDP ports with the same numbers reserve them against other callers of
// freePorts. A reservation is needed because a kernel takes a second until it listens, and reports
// no error if it cannot listen.
func freePorts(n, first, last int) (ports []int, reservations []net.PacketConn, err error) {
	for tries := 0; len(ports) < n; tries++ {
		port := first + rand.IntN(last-first)
		reservation, err := reservePort(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			ports, reservations = append(ports, port), append(reservations, reservation)
		} else if tries == 200 {
			for _, r := range reservations {
				r.Close()
			}
			return nil, nil, fmt.Errorf("no free ports: %w", err)
		}
	}
	return ports, reservations, nil
}

// reservePort reserves a port. It fails if the port is reserved or a process listens there.
func reservePort(address string) (net.PacketConn, error) {
	reservation, err := net.ListenPacket("udp", address)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		reservation.Close()
		return nil, err
	}
	l.Close()
	return reservation, nil
}

// connectSockets connects to all sockets as soon as the kernel listens, or fails when ctx ends.
func (k *kernelProcess) connectSockets(ctx context.Context) (*kernelSockets, error) {
	identity := wire.NewID()
	all := new(kernelSockets)
	for _, socket := range []struct {
		conn **zmtp.Conn
		port int
		kind zmtp.SocketType
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

// receiveMessages passes the messages of a socket to the loop until the socket is closed. It drops a
// message that is malformed or not signed with the key of the connection, and replaces one that is
// too large by a note.
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

// tooLargeMessage returns the message that replaces one that is too large.
func tooLargeMessage(bytes uint64) wire.Message {
	content, _ := json.Marshal(streamContent{"stderr", fmt.Sprintf("[not shown, too large: a message of %d bytes]\n", bytes)})
	return wire.Message{Header: wire.Header{Type: "stream"}, Content: content}
}

// errUnreachable means that the kernel accepts no messages. Its process has ended, or is about to.
var errUnreachable = errors.New("the kernel accepts no messages")

// sendMessage sends a message and returns its id. parent is the header of the request that it answers,
// or nil. The error is errUnreachable, or says why the content cannot be encoded.
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

// lastLines returns the end of the kernel's own output, or "" if that went to the terminal.
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

// An outputTail saves the last maxSavedOutput bytes that are written to it.
type outputTail struct {
	drained chan struct{} // closed when no more output can follow
	mu      sync.Mutex
	text    []byte // guarded by mu
}

func (t *outputTail) read(r io.ReadCloser) {
	_, _ = io.Copy(t, r) // unreadable output is missing in the report
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
