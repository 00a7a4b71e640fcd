package escapes

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// clientCode defines the functions that the tests run in a session.
const clientCode = `
import socket, subprocess, errno
def get(host, port, timeout=None, family=socket.AF_INET):
    with socket.socket(family) as s:
        s.settimeout(timeout)
        s.connect((host, port))
        return s.makefile().read()
def tries(f, *a, **k):
    try: return str(f(*a, **k))
    except OSError as e: return errno.errorcode.get(e.errno, str(e))
def datagram(host, port, family=socket.AF_INET):
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.settimeout(5)
        s.connect((host, port))
        s.send(b"hello")
        return s.recv(100)
`

func (i *testInternet) runCode(t *testing.T, r *sessionkit.TestSession, code string) string {
	t.Helper()
	return strings.TrimSpace(r.RunCode(t, code).OutputText(timeline.Stdout, timeline.Stderr))
}

// wantOutput runs each line of code in the session, and compares its output.
func (i *testInternet) wantOutput(t *testing.T, r *sessionkit.TestSession, rows ...[2]string) {
	t.Helper()
	for _, row := range rows {
		if got := i.runCode(t, r, "print("+row[0]+")"); got != row[1] {
			t.Errorf("%s: got %q, want %q", row[0], got, row[1])
		}
	}
}

// wantReachable fails the test if an address does not answer without a sandbox, because then the
// test proves nothing.
func wantReachable(t *testing.T, address string) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatalf("without a sandbox: %v", err)
	}
	_ = c.Close()
}

func readRefusedHosts(res []timeline.Event) (hosts []string) {
	for _, e := range res {
		if d, ok := e.Body.(timeline.AccessDenied); ok {
			hosts = append(hosts, d.Host)
		}
	}
	return hosts
}

func TestNetwork_ListedHost(t *testing.T) {
	n := newInternet(t)
	if n == nil {
		return
	}
	for _, name := range []string{"example.org", "a.b.example.net", "example.net", "other.org"} {
		n.setAddresses(name, hostAddress)
	}
	for _, port := range []string{":80", ":81", ":5432"} {
		n.newServer(t, hostAddress+port, newGreeter("hello"+port))
	}
	wantReachable(t, hostAddress+":81")
	r := n.openSession(t, "example.org:80", "*.example.net")
	n.wantOutput(t, r,
		[2]string{"get('example.org', 80)", "hello:80"},
		[2]string{"get('EXAMPLE.org.', 80, 5)", "hello:80"},
		[2]string{"get('a.b.example.net', 5432, 5)", "hello:5432"},
		[2]string{"get('::ffff:' + socket.gethostbyname('example.org'), 80, None, socket.AF_INET6)", "hello:80"},
		[2]string{"socket.getfqdn(socket.gethostbyname('example.org'))", "example.org"},
		[2]string{"tries(get, 'example.org', 81)", "EACCES"},
		[2]string{"tries(get, 'example.org', 81, 5)", "EACCES"},
		[2]string{"tries(get, 'example.net', 80)", "EACCES"},
		[2]string{"tries(get, 'other.org', 80)", "EACCES"},
		[2]string{"tries(get, '" + hostAddress + "', 80)", "EACCES"},
	)
	res := r.RunCode(t, "tries(get, 'other.org', 443)")
	if got := readRefusedHosts(res.Events); !slices.Equal(got, []string{"other.org:443"}) {
		t.Errorf("the timeline has the denials %q", got)
	}
	reached := map[string]session.Destination{}
	destinations, err := r.Destinations(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, destination := range destinations {
		reached[destination.Address] = destination
	}
	if p := reached["example.org:80"]; p.Connections < 3 || p.Received < 24 || p.Refused != 0 {
		t.Errorf("got %+v", p)
	}
	if p := reached["other.org:80"]; p.Connections != 0 || p.Refused != 1 {
		t.Errorf("got %+v", p)
	}
}

// An allowed name may resolve to any address, and to another one a moment later.
func TestNetwork_InternalAddress(t *testing.T) {
	n := newInternet(t)
	if n == nil {
		return
	}
	for name, address := range map[string]string{"inner.org": intranet, "cloud.org": metadata, "loop.org": "127.0.0.1", "own.org": userAddress, "meant.org": intranet} {
		n.setAddresses(name, address)
	}
	n.setAddresses("turns.org", hostAddress, metadata)
	for _, a := range []string{hostAddress, intranet, metadata} {
		n.newServer(t, a+":80", newGreeter("hello from "+a))
		wantReachable(t, a+":80")
	}
	for _, a := range []string{"127.0.0.1:80", userAddress + ":80"} {
		l, err := net.Listen("tcp", a)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		wantReachable(t, a)
	}
	r := n.openSession(t, "inner.org", "cloud.org", "loop.org", "own.org", "turns.org")
	n.wantOutput(t, r,
		[2]string{"tries(get, 'inner.org', 80)", "EACCES"},
		[2]string{"tries(get, 'cloud.org', 80)", "EACCES"},
		[2]string{"tries(get, 'loop.org', 80)", "EACCES"},
		[2]string{"tries(get, 'own.org', 80)", "EACCES"},
		[2]string{"tries(get, 'inner.org', 80, 5)", "ECONNRESET"},
		[2]string{"tries(get, '" + intranet + "', 80)", "EACCES"},
		[2]string{"tries(get, '" + metadata + "', 80)", "EACCES"},
		[2]string{"get('turns.org', 80)", "hello from " + hostAddress},
		[2]string{"tries(get, 'turns.org', 80)", "EACCES"},
	)
	var notices []string
	for e, err := range r.Events(context.Background(), 0) {
		if err != nil {
			break
		}
		if n, ok := e.Body.(timeline.Notice); ok && strings.Contains(n.Message, "the name resolves to") {
			notices = append(notices, n.Message)
		}
		if e.Seq >= r.Log().LastSeq() {
			break
		}
	}
	if got := strings.Join(notices, "\n"); !strings.Contains(got, "inner.org:80: the name resolves to "+intranet+", an address of a private network") || !strings.Contains(got, "cloud.org:80: the name resolves to "+metadata) {
		t.Errorf("got notices %q", got)
	}
	meant := n.openSession(t, "meant.org", intranet)
	n.wantOutput(t, meant,
		[2]string{"get('meant.org', 80)", "hello from " + intranet},
		[2]string{"get('" + intranet + "', 80)", "hello from " + intranet},
	)
}

func TestNetwork_OnlyTCP(t *testing.T) {
	n := newInternet(t)
	if n == nil {
		return
	}
	n.setAddresses("example.org", hostAddress)
	var udp net.PacketConn
	n.runInServerNetwork(t, func() (err error) { udp, err = net.ListenPacket("udp", hostAddress+":99"); return err })
	t.Cleanup(func() { _ = udp.Close() })
	received := make(chan string, 10)
	go func() {
		buf := make([]byte, 100)
		for {
			size, from, err := udp.ReadFrom(buf)
			if err != nil {
				return
			}
			received <- string(buf[:size])
			_, _ = udp.WriteTo([]byte("received"), from)
		}
	}()
	c, err := net.Dial("udp", hostAddress+":99")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("from outside")); err != nil {
		t.Fatal(err)
	}
	if got := <-received; got != "from outside" {
		t.Fatalf("got %q", got)
	}
	before := n.queryCount(t, "elsewhere.org")
	r := n.openSession(t, "example.org", hostAddress, nameServer)
	n.wantOutput(t, r,
		[2]string{"tries(datagram, 'example.org', 99)", "ECONNREFUSED"},
		[2]string{"tries(datagram, '" + hostAddress + "', 99)", "ENETUNREACH"},
		[2]string{"tries(datagram, '" + nameServer + "', 53)", "ENETUNREACH"},
		[2]string{"tries(datagram, '2001:db8::1', 53, socket.AF_INET6)", "ENETUNREACH"},
		[2]string{"tries(get, '2001:db8::1', 80, None, socket.AF_INET6)", "EACCES"},
		[2]string{"[a[4][0] for a in socket.getaddrinfo('example.org', 80, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)]", "['198.18.0.2']"},
		[2]string{"socket.gethostbyname('elsewhere.org')[:7]", "198.18."},
		[2]string{"subprocess.run(['getent', 'hosts', 'a b']).returncode", "2"},
	)
	if got := n.queryCount(t, "elsewhere.org"); got != before {
		t.Errorf("a lookup inside the session reached the name server %d times", got-before)
	}
	select {
	case got := <-received:
		t.Errorf("a datagram left: %q", got)
	default:
	}
}

// A program that waits for its connection learns the result of the dial.
func TestNetwork_DialErrors(t *testing.T) {
	n := newInternet(t)
	if n == nil {
		return
	}
	n.setAddresses("example.org", hostAddress)
	r := n.openSession(t, "example.org", "none.example.org", hostAddress)
	n.wantOutput(t, r,
		[2]string{"tries(get, 'example.org', 80)", "ECONNREFUSED"},
		[2]string{"tries(get, 'example.org', 80, 5)", "ECONNRESET"},
		[2]string{"tries(get, 'none.example.org', 80)", "EHOSTUNREACH"},
		[2]string{"tries(get, '" + hostAddress + "', 80)", "ECONNREFUSED"},
	)
}

// Servers of the session can use all ports, including ports to which the session has connected on
// other hosts.
func TestNetwork_LocalServers(t *testing.T) {
	n := newInternet(t)
	if n == nil {
		return
	}
	n.setAddresses("example.org", hostAddress)
	n.newServer(t, hostAddress+":8080", func(c *net.TCPConn) {
		_, _ = c.Write([]byte("outside\n"))
		_, _ = io.Copy(io.Discard, c)
	})
	r := n.openSession(t, "example.org")
	got := n.runCode(t, r, `
import threading
kept = socket.create_connection(("example.org", 8080))
kept.makefile().readline(), kept.getpeername()[1]
server = socket.create_server(("0.0.0.0", 8080))
def serve():
    while True:
        c, _ = server.accept(); c.sendall(b"inside\n"); c.close()
threading.Thread(target=serve, daemon=True).start()
print(get("127.0.0.1", 8080), get("localhost", 8080), get(socket.gethostname(), 8080), get("198.18.0.1", 8080), kept.getpeername()[1])
with socket.create_connection(("example.org", 8080)) as s:
    print(s.makefile().readline())
`)
	if want := []string{"inside", "inside", "inside", "inside", "8080", "outside"}; !slices.Equal(strings.Fields(got), want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNetwork_HalfClose(t *testing.T) {
	n := newInternet(t)
	if n == nil {
		return
	}
	n.setAddresses("example.org", hostAddress)
	n.newServer(t, hostAddress+":7", func(c *net.TCPConn) {
		all, _ := io.ReadAll(c)
		_, _ = c.Write(append(all, " and back"...))
	})
	n.newServer(t, hostAddress+":8", func(c *net.TCPConn) {
		_ = c.CloseWrite()
		all, _ := io.ReadAll(c)
		n.received <- string(all)
	})
	n.newServer(t, hostAddress+":9", func(c *net.TCPConn) { _ = c.SetLinger(0) })
	r := n.openSession(t, "example.org")
	n.wantOutput(t, r, [2]string{"(s := socket.create_connection(('example.org', 7))).sendall(b'there'), s.shutdown(socket.SHUT_WR), s.makefile().read()", "None None there and back"})
	n.wantOutput(t, r, [2]string{"(s := socket.create_connection(('example.org', 8))).recv(9), s.sendall(b'late'), s.close()", "b'' None None"})
	select {
	case got := <-n.received:
		if got != "late" {
			t.Errorf("got %q", got)
		}
	case <-time.After(sessionkit.Timeout):
		t.Error("the server did not receive the other half")
	}
	n.wantOutput(t, r, [2]string{"tries(get, 'example.org', 9)", "ECONNRESET"})
}

// A user allows a host for a live session: by name, while a call is held for it, and after a
// refusal.
func TestNetwork_AllowHost(t *testing.T) {
	n := newInternet(t)
	if n == nil {
		return
	}
	for _, name := range []string{"example.org", "asked.org", "never.org", "kept.org"} {
		n.setAddresses(name, hostAddress)
	}
	n.newServer(t, hostAddress+":80", newGreeter("hello"))
	r := n.openSession(t)
	n.wantOutput(t, r, [2]string{"tries(get, 'example.org', 80)", "EACCES"})
	if err := r.Allow(t.Context(), session.Grant{Host: "*.org/x"}); err == nil {
		t.Error("an invalid host pattern was allowed")
	}
	if err := r.Allow(t.Context(), session.Grant{Host: "example.org:80"}); err != nil {
		t.Fatal(err)
	}
	n.wantOutput(t, r, [2]string{"get('example.org', 80)", "hello"}, [2]string{"tries(get, 'example.org', 81)", "EACCES"})
	n.savedGrants = []session.Grant{{Host: "kept.org"}} // as if saved by another session
	n.wantOutput(t, r, [2]string{"tries(get, 'kept.org', 80)", "EACCES"})
	if err := r.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.WaitUntilReady(t)
	r.RunCode(t, clientCode)
	n.wantOutput(t, r, [2]string{"get('example.org', 80, 5)", "hello"}, [2]string{"get('kept.org', 80)", "hello"})

	asking := n.openAskingSession(t)
	for _, row := range []struct {
		name, want string
		ok         bool
	}{{"asked.org", "hello", true}, {"never.org", "EACCES", false}} {
		turn := asking.StartTurn(t, "print(tries(get, '"+row.name+"', 80, 5))")
		e := asking.WaitEvent(t, "question", func(e timeline.Event) bool {
			w, ok := e.Body.(timeline.InputRequested)
			return ok && w.Kind == timeline.InputKindPermission && w.Denied.Host == row.name+":80"
		})
		if err := asking.AnswerPermission(t.Context(), e.Body.(timeline.InputRequested).PermissionID, row.ok); err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(asking.FinishTurn(t, turn).OutputText(timeline.Stdout, timeline.Stderr)); got != row.want {
			t.Errorf("%s: got %q, want %q", row.name, got, row.want)
		}
	}
	n.wantOutput(t, asking, [2]string{"get('asked.org', 80)", "hello"}, [2]string{"tries(get, 'never.org', 80)", "EACCES"})
}

// The kernel repeats a connect that a signal has interrupted. That must not cause a second
// question.
func TestNetwork_InterruptedConnect(t *testing.T) {
	n := newInternet(t)
	if n == nil {
		return
	}
	n.setAddresses("asked.org", hostAddress)
	n.newServer(t, hostAddress+":80", newGreeter("hello"))
	r := n.openAskingSession(t)
	turn := r.StartTurn(t, `
import signal, threading, time
signal.signal(signal.SIGUSR1, lambda *_: None)
signal.siginterrupt(signal.SIGUSR1, False)
got = []
thread = threading.Thread(target=lambda: got.append(tries(get, 'asked.org', 80)))
thread.start()
time.sleep(0.1)
for _ in range(20):
    if thread.is_alive(): signal.pthread_kill(thread.ident, signal.SIGUSR1)
    time.sleep(0.02)
print('signalled')
thread.join()
print(*got)
`)
	question, signalled := uint64(0), false
	r.WaitEvent(t, "question and signals", func(e timeline.Event) bool {
		switch body := e.Body.(type) {
		case timeline.InputRequested:
			question = body.PermissionID
		case timeline.Text:
			signalled = signalled || strings.Contains(string(body.Data), "signalled")
		}
		return signalled && question > 0
	})
	if err := r.AnswerPermission(t.Context(), question, true); err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(r.FinishTurn(t, turn).OutputText(timeline.Stdout, timeline.Stderr)); got != "hello" {
		t.Errorf("got %q after a yes", got)
	}
	if got, err := r.Destinations(t.Context()); err != nil || len(got) != 1 || got[0].Refused != 1 || got[0].Connections != 1 {
		t.Errorf("got %+v, %v, want one question and one connection", got, err)
	}
}

// Programs that know nothing of a sandbox work at the speed of the kernel.
func TestNetwork_UnmodifiedPrograms(t *testing.T) {
	n := newInternet(t)
	if n == nil {
		return
	}
	const size = 50 << 20
	n.setAddresses("example.org", hostAddress)
	n.newServer(t, hostAddress+":80", func(c *net.TCPConn) {
		buf := make([]byte, 1<<16)
		_, _ = c.Read(buf)
		_, _ = io.WriteString(c, "HTTP/1.0 200 OK\r\nContent-Length: 52428800\r\n\r\n")
		for range size / len(buf) {
			if _, err := c.Write(buf); err != nil {
				return
			}
		}
	})
	direct := func() time.Duration {
		began := time.Now()
		c, err := net.Dial("tcp", hostAddress+":80")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = io.WriteString(c, "GET / HTTP/1.0\r\n\r\n")
		if got, err := io.Copy(io.Discard, c); err != nil || got < size {
			t.Fatalf("%d bytes, %v", got, err)
		}
		return time.Since(began)
	}()
	r := n.openSession(t, "example.org")
	r.RunCode(t, `
import os, time
def receive():
    began = time.time()
    with socket.create_connection(("example.org", 80)) as s:
        s.sendall(b"GET / HTTP/1.0\r\n\r\n")
        got, buf = 0, bytearray(1 << 20)
        while (k := s.recv_into(buf)): got += k
    return got > 52428800, time.time() - began
os.environ.update(http_proxy="http://127.0.0.1:1", https_proxy="http://127.0.0.1:1")
`)
	t.Logf("50 MiB: direct %s, from the session %s", direct, n.runCode(t, r, "print(receive())"))
	n.wantOutput(t, r, [2]string{"receive()[0]", "True"})
	t.Run("curl", func(t *testing.T) {
		n.requireTools(t, "curl")
		n.wantOutput(t, r,
			[2]string{"subprocess.run(['curl', '--noproxy', '*', '-sS', '-o', '/dev/null', '-w', '%{size_download}', 'http://example.org/'], capture_output=True, text=True).stdout", "52428800"},
			[2]string{"'Permission denied' in (p := subprocess.run(['curl', '--noproxy', '*', '-v', 'http://other.org/'], capture_output=True, text=True)).stderr or p.stderr[-300:]", "True"},
		)
	})
	n.wantOutput(t, r, [2]string{"len({socket.gethostbyname('h%d.example.org' % i) for i in range(10000)})", "10000"})
	if got := n.runCode(t, r, `
slow = [socket.create_connection(("example.org", 80)) for _ in range(256)]
print(tries(get, "example.org", 80), tries(get, "example.org", 80, 5))
for s in slow: s.close()
`); got != "ENOBUFS ENOBUFS" {
		t.Errorf("with 256 silent connections: got %q", got)
	}
}

// The user is no longer asked about a program that was killed while it waited.
func TestNetwork_KilledWhileAsking(t *testing.T) {
	n := newInternet(t)
	if n == nil {
		return
	}
	n.setAddresses("asked.org", hostAddress)
	r := n.openAskingSession(t)
	r.StartTurn(t, `
import os, signal, time
child = os.fork()
if child == 0: tries(get, 'asked.org', 80)
while not os.path.exists('asked'): time.sleep(0.01)
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
time.sleep(1000)
`)
	asked := r.WaitEvent(t, "the question", sessionkit.IsInputRequest).Seq
	writeFile(t, filepath.Join(n.work, "asked"), "")
	r.WaitEvent(t, "the end of the question", func(e timeline.Event) bool {
		ended, ok := e.Body.(timeline.InputRequestEnded)
		return ok && ended.Request == asked
	})
	if _, err := r.Interrupt(t.Context(), 0); err != nil {
		t.Error(err)
	}
}
