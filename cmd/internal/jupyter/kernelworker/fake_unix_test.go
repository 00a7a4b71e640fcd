//go:build unix

package kernelworker

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/wire"
	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/zmtp"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
)

// A fakeKernel is a kernel for tests. Each word of an input is a command that makes it misbehave.
type fakeKernel struct {
	codec  *wire.Codec
	forger *wire.Codec // with another key

	mu          sync.Mutex
	connChanged *sync.Cond // signals that iopub or stdin was set; its lock is mu
	iopub       *zmtp.Conn
	stdin       *zmtp.Conn
	listeners   []*zmtp.Listener
	answers     chan string
	signals     chan os.Signal
}

// runFakeKernel serves a connection file until it gets a shutdown request.
func runFakeKernel(path string, manners ...string) int {
	for _, m := range manners {
		if m == "dies" {
			fmt.Println("no language today")
			return 7
		}
	}
	c, err := wire.ReadConnection(path)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	k := &fakeKernel{
		codec: c.Codec(), forger: wire.NewCodec("another"),
		answers: make(chan string, 1), signals: make(chan os.Signal, 1),
	}
	k.connChanged = sync.NewCond(&k.mu)
	signal.Notify(k.signals, syscall.SIGINT)
	over := make(chan struct{})
	fmt.Println("noise of the start") // printed before a client can connect, so it is output of the start
	for _, s := range []struct {
		port  int
		kind  zmtp.SocketType
		serve func(*zmtp.Conn)
	}{
		{c.Shell, zmtp.Router, func(conn *zmtp.Conn) { k.serveConn(conn, k.handleShell) }},
		{c.IOPub, zmtp.XPub, func(conn *zmtp.Conn) { k.setConn(&k.iopub, conn); <-conn.Closed() }},
		{c.Stdin, zmtp.Router, func(conn *zmtp.Conn) { k.setConn(&k.stdin, conn); k.serveConn(conn, k.handleInputReply) }},
		{c.Control, zmtp.Router, func(conn *zmtp.Conn) {
			k.serveConn(conn, func(conn *zmtp.Conn, m wire.Message) {
				if m.Header.Type == "shutdown_request" {
					k.sendReply(conn, m, "shutdown_reply", struct{}{})
					close(over)
				}
			})
		}},
	} {
		l, err := zmtp.Listen(c.Endpoint(s.port), s.kind, s.serve)
		if err != nil {
			fmt.Println(err)
			return 1
		}
		k.listeners = append(k.listeners, l)
	}
	<-over
	return 0
}

func (k *fakeKernel) setConn(to **zmtp.Conn, conn *zmtp.Conn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	*to = conn
	k.connChanged.Broadcast()
}

func (k *fakeKernel) awaitConn(from **zmtp.Conn) *zmtp.Conn {
	k.mu.Lock()
	defer k.mu.Unlock()
	return *from
}

// questionConn returns the connection for input requests. A client may open it after the connection for code.
func (k *fakeKernel) questionConn() *zmtp.Conn {
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.stdin == nil {
		k.connChanged.Wait()
	}
	return k.stdin
}

func (k *fakeKernel) serveConn(conn *zmtp.Conn, take func(*zmtp.Conn, wire.Message)) {
	for {
		frames, err := conn.Receive()
		if err != nil {
			return
		}
		if m, err := k.codec.Decode(frames); err == nil {
			take(conn, m)
		}
	}
}

func (k *fakeKernel) handleInputReply(_ *zmtp.Conn, m wire.Message) {
	var c struct{ Value string }
	_ = json.Unmarshal(m.Content, &c)
	k.answers <- c.Value
}

func (k *fakeKernel) sendReply(conn *zmtp.Conn, m wire.Message, kind string, content any) {
	r, err := m.NewReply(kind, content)
	if err != nil {
		panic(err)
	}
	r.Identities = nil // the connection is the peer
	frames, err := k.codec.Encode(&r)
	if err != nil {
		panic(err)
	}
	_ = conn.Send(frames...)
}

// publishMessage sends a message on iopub if a client is connected.
func (k *fakeKernel) publishMessage(m wire.Message, kind string, content any) {
	if conn := k.awaitConn(&k.iopub); conn != nil {
		m.Identities = nil
		k.sendReply(conn, m, kind, content)
	}
}

func (k *fakeKernel) publishStatus(m wire.Message, state string) {
	k.publishMessage(m, "status", map[string]string{"execution_state": state})
}

func (k *fakeKernel) publishText(m wire.Message, text string) {
	k.publishMessage(m, "stream", streamContent{Name: "stdout", Text: text})
}

func (k *fakeKernel) handleShell(conn *zmtp.Conn, m wire.Message) {
	k.publishStatus(m, "busy")
	var c struct{ Code string }
	_ = json.Unmarshal(m.Content, &c)
	switch m.Header.Type {
	case "kernel_info_request":
		k.sendReply(conn, m, "kernel_info_reply", map[string]any{
			"status": "ok", "implementation": "fake", "language_info": map[string]string{"name": "Fake", "version": "1.2"},
		})
	case "is_complete_request":
		k.sendReply(conn, m, "is_complete_reply", map[string]string{"status": map[bool]string{true: "incomplete", false: "complete"}[strings.HasSuffix(c.Code, "(")]})
	case "complete_request": // the cursor is after "é.pri"
		k.sendReply(conn, m, "complete_reply", map[string]any{"status": "ok", "matches": []string{"print"}, "cursor_start": 2, "cursor_end": 5})
	case "inspect_request":
		k.sendReply(conn, m, "inspect_reply", map[string]any{"status": "ok", "found": true, "data": map[string]string{"text/plain": "help"}})
	case "execute_request":
		k.runWords(conn, m, strings.Fields(c.Code))
		return
	}
	k.publishStatus(m, "idle")
}

// runWords carries out the words of an input, and then sends its reply and the idle status.
func (k *fakeKernel) runWords(conn *zmtp.Conn, m wire.Message, words []string) {
	content := map[string]any{"status": "ok"}
	done := []func(){
		func() { k.sendReply(conn, m, "execute_reply", content) },
		func() { k.publishStatus(m, "idle") },
	}
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "print":
			k.publishText(m, value+"\n")
		case "forged":
			r, _ := m.NewReply("stream", streamContent{Name: "stdout", Text: "forged\n"})
			r.Identities = nil
			frames, _ := k.forger.Encode(&r)
			_ = k.awaitConn(&k.iopub).Send(frames...)
		case "idle-first":
			done[0], done[1] = done[1], done[0]
		case "no-idle":
			done = done[:1]
		case "others": // messages whose parent is not a request of the worker
			other := m
			other.Header = wire.NewHeader("x", "x", "execute_request")
			k.publishStatus(other, "idle")
			k.publishText(other, "of another parent\n")
		case "exit":
			code, _ := strconv.Atoi(value)
			fmt.Println("last words")
			os.Exit(code)
		case "killed":
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		case "ask", "secret":
			k.sendReply(k.questionConn(), m, "input_request", inputRequestContent{Prompt: value + "?", Password: name == "secret"})
			select {
			case answer := <-k.answers:
				k.publishText(m, fmt.Sprintf("got %q\n", answer))
			case <-k.signals:
				content = map[string]any{"status": "abort"}
			}
		case "ask-and-die":
			k.sendReply(k.awaitConn(&k.stdin), m, "input_request", inputRequestContent{Prompt: "?"})
			os.Exit(9)
		case "ask_exit":
			content["payload"] = []map[string]any{{"source": "ask_exit", "keepkernel": false}}
		case "page":
			content["payload"] = []map[string]any{{"source": "page", "data": map[string]string{"text/plain": "a page"}}}
		case "fail":
			k.publishMessage(m, "error", errorContent{Name: "Failure", Value: "no", Traceback: []string{"where", "Failure: no"}})
			content = map[string]any{"status": "error", "ename": "Failure", "evalue": "no"}
		case "result":
			k.publishMessage(m, "execute_result", map[string]any{"data": map[string]string{"text/plain": "42", "text/html": "<b>42</b>"}, "metadata": struct{}{}})
		case "updates":
			n, _ := strconv.Atoi(value)
			for i := range n {
				kind := "update_display_data"
				if i == 0 {
					kind = "display_data"
				}
				k.publishMessage(m, kind, map[string]any{"data": map[string]string{"text/plain": strconv.Itoa(i)}, "transient": map[string]string{"display_id": "d"}})
			}
		case "loop":
			k.publishText(m, "loops\n")
			<-k.signals
			content = map[string]any{"status": "error", "ename": "Interrupt"}
		case "stubborn":
			signal.Ignore(syscall.SIGINT)
			k.publishText(m, "stubborn\n")
			testexec.BlockForever()
		case "hang-up":
			k.awaitConn(&k.iopub).Close()
		}
	}
	for _, do := range done {
		do()
	}
}
