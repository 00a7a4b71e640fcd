package escapes

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/internal/testkit/wheel"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers/r"
)

// newInternetWithoutNamespaces is newInternet in a process that cannot create user namespaces, so
// that Landlock is used.
func newInternetWithoutNamespaces(t *testing.T) *testInternet {
	t.Helper()
	n := newInternet(t)
	if n == nil {
		return nil
	}
	namespaces, err := os.OpenFile("/proc/sys/user/max_user_namespaces", os.O_WRONLY, 0)
	if err == nil {
		_, err = namespaces.WriteString("0")
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = namespaces.Close()
	n.mechanism = sandbox.Landlock
	return n
}

// newHTTPServer starts an HTTP server in the other network, at port 80 and with TLS at port 443. It
// returns the path of the certificate in the workspace.
func (i *testInternet) newHTTPServer(t *testing.T, handler http.Handler, names ...string) (certificate string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, DNSNames: names, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	certificate = filepath.Join(i.work, "ca.pem")
	writeFile(t, certificate, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	for _, port := range []string{"80", "443"} {
		var l net.Listener
		i.runInServerNetwork(t, func() (err error) { l, err = net.Listen("tcp", hostAddress+":"+port); return err })
		if port == "443" {
			l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
		}
		server := &http.Server{Handler: handler}
		t.Cleanup(func() { _ = server.Close() })
		go func() { _ = server.Serve(l) }()
	}
	return certificate
}

// proxyCode defines the functions that these tests run in a session.
const proxyCode = `
import os, ssl, sys, urllib.error, urllib.request
def curl(*args):
    p = subprocess.run(["curl", "-sS", "--max-time", "60", *args], capture_output=True, text=True)
    return p.stdout if p.returncode == 0 else p.stderr
def fetch(url): # as curl prints it
    try: return urllib.request.urlopen(url, timeout=60).read().decode()
    except urllib.error.HTTPError as e: return e.read().decode()
def said(text): # to the proxy, as bytes
    with socket.create_connection(("198.18.0.1", 1080)) as s:
        s.sendall(text)
        return s.makefile("rb").readline()
def tunnel(place): # what a server says that is reached by CONNECT
    with socket.create_connection(("198.18.0.1", 1080)) as s:
        s.sendall(b"CONNECT " + place.encode() + b" HTTP/1.1\r\n\r\n")
        return s.makefile("rb").read().decode().partition("\r\n\r\n")[2]
def socks(url): # fetches a page by SOCKS5; the proxy gets the host name
    host = url.split("/")[2].partition(":")
    with socket.create_connection(("198.18.0.1", 1080)) as s:
        f = s.makefile("rb")
        s.sendall(b"\5\1\0")
        assert f.read(2) == b"\5\0"
        s.sendall(b"\5\1\0\3" + bytes([len(host[0])]) + host[0].encode() + int(host[2] or 80).to_bytes(2, "big"))
        head = f.read(4)
        if head[1]: return "refused: %d" % head[1]
        f.read(6 if head[3] == 1 else 18)
        s.sendall(b"GET / HTTP/1.0\r\nHost: " + host[0].encode() + b"\r\n\r\n")
        return f.read().decode().partition("\r\n\r\n")[2]
`

// Curl, pip and Python's own client respect the proxy variables; curl speaks SOCKS5 as well.
func TestProxy_ListedHost(t *testing.T) {
	n := newInternetWithoutNamespaces(t)
	if n == nil {
		return
	}
	for _, name := range []string{"example.org", "other.org"} {
		n.setAddresses(name, hostAddress)
	}
	pack := wheel.Build(t, "greeting", "text = 'hello from the index'\n")
	mux := http.NewServeMux()
	mux.HandleFunc("/hello", func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "hello %s %s", r.URL.RawQuery, r.Header.Get("X-Forwarded-For"))
	})
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		all, _ := io.ReadAll(r.Body)
		_, _ = w.Write(all)
	})
	mux.HandleFunc("/simple/greeting/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<a href="/greeting-1.0-py3-none-any.whl">greeting-1.0-py3-none-any.whl</a>`)
	})
	mux.HandleFunc("/greeting-1.0-py3-none-any.whl", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(pack) })
	ca := n.newHTTPServer(t, mux, "example.org")
	n.newServer(t, hostAddress+":1080", newGreeter("not the proxy"))
	wantReachable(t, hostAddress+":1080")
	r := n.openSession(t, "example.org")
	if got := sessionkit.SessionInfo(r).AcceptedMechanism; got != "landlock" {
		t.Fatalf("confined by %q", got)
	}
	r.RunCode(t, proxyCode)
	n.wantOutput(t, r,
		[2]string{"urllib.request.urlopen('http://example.org/hello').read().decode()", "hello"},
		[2]string{"urllib.request.urlopen('https://example.org/hello', context=ssl.create_default_context(cafile='ca.pem')).read().decode()", "hello"},
		[2]string{"fetch('http://example.org/hello?a;b')", "hello a;b"},
		[2]string{"fetch('http://EXAMPLE.org./hello')", "hello"},
		[2]string{"socks('http://example.org/')", "404 page not found"},
		// The policy refuses these.
		[2]string{"fetch('http://other.org/hello')", "other.org: refused by the sandbox"},
		[2]string{"socks('http://other.org/')", "refused: 2"},
		[2]string{"fetch('http://" + hostAddress + "/hello')", hostAddress + ": refused by the sandbox"},
		[2]string{"tries(get, '" + hostAddress + "', 80)", "EACCES"},
		[2]string{"tries(get, '" + hostAddress + "', 1080)", "EACCES"},
		[2]string{"tries(get, '198.18.0.1', 1081)", "EACCES"},
		[2]string{"tries(get, '" + hostAddress + "', 1080, 5)", "EACCES"},
		[2]string{"tries(get, '127.0.0.1', " + strconv.Itoa(n.facts["tcp"].(int)) + ")", "EACCES"},
		[2]string{"tries(datagram, '" + nameServer + "', 53)", "EACCES"},
		[2]string{"tries(socket.socket, socket.AF_INET6)", "EACCES"},
		[2]string{"tries(socket.socket().listen)", "EACCES"},
		[2]string{"tries(socket.socket().bind, ('127.0.0.1', 0))", "EACCES"},
		[2]string{"tries(socket.socket().setsockopt, 0, 4, bytes([1, 131, 7, 4, 203, 0, 113, 7]))", "ENOPROTOOPT"}, // source route
		[2]string{"tries(socket.socket().setsockopt, 1, 25, b'here')", "ENOPROTOOPT"},                              // bind to a device
		[2]string{"tries(socket.socket().setsockopt, 6, 30, 1)", "ENOPROTOOPT"},                                    // connect with the first send
		[2]string{"tries(socket.socket().sendto, b'x', 0x20000000, ('" + hostAddress + "', 80))", "ENOTSUP"},
		[2]string{"tries((s := socket.create_connection(('198.18.0.1', 1080))).connect, ('" + hostAddress + "', 80))", "EACCES"},
		[2]string{"said(b'GET / HTTP/1.1\\r\\nHost: example.org\\r\\n\\r\\n')", "b'HTTP/1.1 400 Bad Request\\r\\n'"},
		[2]string{"said(b'CONNECT example.org:99999 HTTP/1.1\\r\\n\\r\\n')", "b'HTTP/1.1 400 Bad Request\\r\\n'"},
		[2]string{"said(b'GET http://example.org/ HTTP/1.1\\r\\nX: ' + b'x' * 30000)", "b'HTTP/1.1 431 Request Header Fields Too Large\\r\\n'"},
	)
	if ca == "" {
		t.Error("no certificate")
	}
	res := r.RunCode(t, "said(b'CONNECT other.org:444 HTTP/1.1\\r\\n\\r\\n')")
	if got := readRefusedHosts(res.Events); !slices.Equal(got, []string{"other.org:444"}) {
		t.Errorf("the timeline has the denials %q", got)
	}
	t.Run("pip", func(t *testing.T) {
		n.requireTools(t, "python:pip")
		n.wantOutput(t, r,
			[2]string{"subprocess.run([sys.executable, '-m', 'pip', 'install', '-q', '--target', 'packages', '--disable-pip-version-check', '--no-cache-dir', '--index-url', 'https://example.org/simple', 'greeting'], env=dict(os.environ, REQUESTS_CA_BUNDLE='ca.pem'), capture_output=True, text=True).stderr", ""},
			[2]string{"open('packages/greeting.py').read()", "text = 'hello from the index'"},
		)
	})
	t.Run("curl", func(t *testing.T) {
		n.requireTools(t, "curl")
		n.wantOutput(t, r,
			[2]string{"curl('http://example.org/hello?a;b')", "hello a;b"},
			[2]string{"curl('http://EXAMPLE.org./hello')", "hello"},
			[2]string{"curl('--cacert', 'ca.pem', 'https://example.org/hello')", "hello"},
			[2]string{"curl('--cacert', 'ca.pem', '--data', 'x' * 100000, 'https://example.org/echo') == 'x' * 100000", "True"},
			[2]string{"curl('--data', 'x' * 100000, 'http://example.org/echo') == 'x' * 100000", "True"},
			[2]string{"curl('--proxy', 'socks5h://198.18.0.1:1080', '--cacert', 'ca.pem', 'https://example.org/hello')", "hello"},
			[2]string{"curl('--proxy', 'socks5h://198.18.0.1:1080', 'http://example.org/hello', 'http://example.org/hello')", "hello  hello"},
			[2]string{"curl('--cacert', 'ca.pem', 'https://other.org/hello')", "curl: (56) CONNECT tunnel failed, response 403"},
			[2]string{"curl('-o', '/dev/null', '-w', '%{http_code}', 'http://other.org/hello')", "403"},
			[2]string{"curl('http://other.org/hello')", "other.org: refused by the sandbox"},
			[2]string{"'(2)' in curl('--proxy', 'socks5h://198.18.0.1:1080', 'http://other.org/hello')", "True"},
			[2]string{"curl('http://" + hostAddress + "/hello')", hostAddress + ": refused by the sandbox"},
		)
		reached := map[string]session.Destination{}
		places, err := r.Destinations(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, place := range places {
			reached[place.Address] = place
		}
		if p := reached["example.org:443"]; p.Connections < 5 || p.Sent < 100_000 || p.Received < 100_000 || p.Refused != 0 {
			t.Errorf("got %+v", p)
		}
		if p := reached["example.org:80"]; p.Connections < 5 || p.Sent < 100_000 || p.Received < 100_000 {
			t.Errorf("got %+v", p)
		}
		if p := reached["other.org:80"]; p.Connections != 0 || p.Refused != 5 {
			t.Errorf("got %+v", p)
		}
	})
}

// R's own downloads and install.packages() respect the proxy variables.
func TestProxy_RSessions(t *testing.T) {
	n := newInternetWithoutNamespaces(t)
	if n == nil {
		return
	}
	if _, err := exec.LookPath("Rscript"); err != nil {
		t.Skip("Rscript is not installed")
	}
	n.setAddresses("example.org", hostAddress)
	n.setAddresses("other.org", hostAddress)
	ca := n.newHTTPServer(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello\n") }), "example.org")
	spec := r.Spec(r.Options{Env: append(n.env, "CURL_CA_BUNDLE="+ca)})
	spec.Dir, spec.Sandbox = n.work, n.newSandbox(false, []string{"example.org"})
	repl := sessionkit.LaunchSessionWith(t, &supervisor.Options{Dir: n.sessions, Env: append(n.env, "CURL_CA_BUNDLE="+ca)}, spec)
	for code, want := range map[string]string{
		"cat(readLines('http://example.org/'))":                                             "hello",
		"download.file('https://example.org/', 'got', quiet = TRUE); cat(readLines('got'))": "hello",
		"cat(class(try(suppressWarnings(readLines('http://other.org/')), silent = TRUE)))":  "try-error",
	} {
		if got := strings.TrimSpace(repl.RunCode(t, code).OutputText(timeline.Stdout, timeline.Stderr)); got != want {
			t.Errorf("%s: got %q, want %q", code, got, want)
		}
	}
}

// An allowed name may lead anywhere.
func TestProxy_InternalAddress(t *testing.T) {
	n := newInternetWithoutNamespaces(t)
	if n == nil {
		return
	}
	for name, address := range map[string]string{"inner.org": intranet, "cloud.org": metadata, "loop.org": "127.0.0.1", "own.org": userAddress} {
		n.setAddresses(name, address)
	}
	for _, a := range []string{intranet, metadata} {
		n.newServer(t, a+":80", newGreeter("hello from "+a))
		wantReachable(t, a+":80")
	}
	port := strconv.Itoa(n.facts["tcp"].(int))
	r := n.openSession(t, "inner.org", "cloud.org", "loop.org", "own.org", "localhost")
	r.RunCode(t, proxyCode)
	before := n.readState(t)
	for _, address := range []string{"inner.org", "cloud.org", "loop.org:" + port, "own.org", "localhost:" + port} {
		n.wantOutput(t, r,
			[2]string{"said(b'CONNECT " + withPort(address) + " HTTP/1.1\\r\\n\\r\\n')", "b'HTTP/1.1 403 Forbidden\\r\\n'"},
			[2]string{"fetch('http://" + address + "/')", address + ": refused by the sandbox"},
		)
	}
	n.wantOutput(t, r, [2]string{"said(b'CONNECT 127.0.0.1:" + port + " HTTP/1.1\\r\\n\\r\\n')", "b'HTTP/1.1 403 Forbidden\\r\\n'"})
	n.wantUnchanged(t, before) // the servers of the machine received nothing
	meant := n.openSession(t, "inner.org", intranet)
	meant.RunCode(t, proxyCode)
	n.wantOutput(t, meant,
		[2]string{"tunnel('inner.org:80')", "hello from " + intranet},
		[2]string{"get('" + intranet + "', 80)", "hello from " + intranet}, // an address needs no proxy
		[2]string{"get('" + intranet + "', 80, 5)", "hello from " + intranet},
	)
}

func withPort(place string) string {
	if strings.Contains(place, ":") {
		return place
	}
	return place + ":80"
}

func TestProxy_AllowHost(t *testing.T) {
	n := newInternetWithoutNamespaces(t)
	if n == nil {
		return
	}
	for _, name := range []string{"example.org", "asked.org", "never.org"} {
		n.setAddresses(name, hostAddress)
	}
	n.newHTTPServer(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }), "example.org")
	r := n.openSession(t)
	r.RunCode(t, proxyCode)
	n.wantOutput(t, r, [2]string{"fetch('http://example.org/')", "example.org: refused by the sandbox"})
	if err := r.Allow(t.Context(), session.Grant{Host: "example.org:80"}); err != nil {
		t.Fatal(err)
	}
	n.wantOutput(t, r, [2]string{"fetch('http://example.org/')", "hello"})
	if err := r.Allow(t.Context(), session.Grant{Write: n.outside}); session.KindOf(err) != session.KindUnsupported {
		t.Errorf("a directory: got %v, want an error about a running session", err)
	}
	asking := n.openAskingSession(t)
	asking.RunCode(t, proxyCode)
	for _, row := range []struct {
		name, by, want string
		ok             bool
	}{{"asked.org", "fetch", "hello", true}, {"never.org", "fetch", "never.org: refused by the sandbox", false}, {"socks.asked.org", "socks", "hello", true}} {
		n.setAddresses(row.name, hostAddress)
		turn := asking.StartTurn(t, "print("+row.by+"('http://"+row.name+"/'))")
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
}

// There is no port at which the proxy could be reached by others. The short-lived listeners, one
// for each connection, answer no other client.
func TestProxy_NoOtherAccess(t *testing.T) {
	n := newInternetWithoutNamespaces(t)
	if n == nil {
		return
	}
	n.setAddresses("example.org", hostAddress)
	n.newHTTPServer(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }), "example.org")
	known := readListeningPorts(t)
	r := n.openSession(t, "example.org")
	r.RunCode(t, proxyCode)
	turn := r.StartTurn(t, `
n = 0
for _ in range(300):
    n += said(b'GET http://example.org/ HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n\r\n') == b'HTTP/1.1 200 OK\r\n'
print(n)
`)
	done := make(chan sessionkit.TurnResult, 1)
	go func() { done <- r.FinishTurn(t, turn) }()
	met := 0
	for over := false; !over; {
		select {
		case res := <-done:
			over = true
			if got := strings.TrimSpace(res.OutputText(timeline.Stdout, timeline.Stderr)); got != "300" {
				t.Errorf("got %q of 300 answers", got)
			}
		default:
		}
		for _, port := range readListeningPorts(t) {
			if slices.Contains(known, port) {
				continue
			}
			c, err := net.Dial("tcp", "127.0.0.1:"+port)
			if err != nil {
				continue // the port is closed by now
			}
			met++
			_, _ = io.WriteString(c, "GET http://example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n")
			if got, _ := io.ReadAll(c); len(got) > 0 {
				t.Errorf("port %s answered %q", port, got)
			}
			_ = c.Close()
		}
	}
	t.Logf("%d connections of others were met", met)
	for _, port := range readListeningPorts(t) {
		if !slices.Contains(known, port) {
			t.Errorf("port %s listens although no client connects", port)
		}
	}
}

// readListeningPorts lists the TCP ports of this network that listen.
func readListeningPorts(t *testing.T) (ports []string) {
	t.Helper()
	for line := range strings.Lines(readText("/proc/net/tcp")) {
		if f := strings.Fields(line); len(f) > 3 && f[3] == "0A" {
			port, err := strconv.ParseUint(f[1][strings.Index(f[1], ":")+1:], 16, 16)
			if err != nil {
				t.Fatal(err)
			}
			ports = append(ports, strconv.FormatUint(port, 10))
		}
	}
	return ports
}

func TestProxy_ConnectionLimit(t *testing.T) {
	n := newInternetWithoutNamespaces(t)
	if n == nil {
		return
	}
	n.setAddresses("example.org", hostAddress)
	n.newServer(t, hostAddress+":80", newGreeter("hello"))
	n.newServer(t, hostAddress+":81", func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) })
	r := n.openSession(t, "example.org", hostAddress)
	r.RunCode(t, proxyCode+`
def tunnel(port):
    s = socket.create_connection(("198.18.0.1", 1080))
    try:
        s.sendall(b"CONNECT example.org:%d HTTP/1.1\r\n\r\n" % port)
        return s, s.makefile("rb").readline()
    except ConnectionResetError: return s, "reset"
`)
	n.wantOutput(t, r,
		[2]string{"len(kept := [tunnel(81) for _ in range(256)]), {said for _, said in kept}", "256 {b'HTTP/1.1 200 Connection established\\r\\n'}"},
		[2]string{"tunnel(81)[1] in ('reset', b'')", "True"},
		[2]string{"tries(get, '" + hostAddress + "', 80)", "ENOBUFS"},
	)
	r.RunCode(t, "for s, _ in kept: s.close()\nkept.clear()")
	// Each end is noticed after some time.
	n.wantOutput(t, r, [2]string{"next(s for s in iter(lambda: tunnel(80)[1], 0) if s not in ('reset', b''))", "b'HTTP/1.1 200 Connection established\\r\\n'"})
	count := 0
	for e, err := range r.Events(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if n, ok := e.Body.(timeline.Notice); ok && strings.Contains(n.Message, "further ones fail until one ends") {
			count++
		}
		if e.Seq >= r.Log().LastSeq() {
			break
		}
	}
	if count != 1 {
		t.Errorf("got %d notices, want one", count)
	}
}

// A monitor without any capabilities connects a session that shares the machine's network.
func TestLandlock_ListedAddress(t *testing.T) {
	if !runWithoutNamespaces(t) {
		return
	}
	m := newMachine(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })}
	t.Cleanup(func() { _ = server.Close() })
	go func() { _ = server.Serve(l) }()
	box := newLandlockSandbox(m)
	box.Network, box.Hosts = sandbox.NetworkList, []string{"localhost", l.Addr().String()}
	r := openSession(t, m, box)
	r.RunCode(t, clientCode+proxyCode)
	at := "http://" + l.Addr().String() + "/"
	for code, want := range map[string]string{
		"fetch('" + at + "')": "hello",
		"socks('" + at + "')": "hello",
		"urllib.request.build_opener(urllib.request.ProxyHandler({})).open('" + at + "').read()":    "b'hello'",
		"urllib.request.urlopen('" + strings.Replace(at, "127.0.0.1", "localhost", 1) + "').read()": "b'hello'",
		"tries(get, '127.0.0.1', " + strconv.Itoa(m.facts["tcp"].(int)) + ")":                       "EACCES",
		// Threads, children and copies of descriptors are all served.
		"subprocess.run([sys.executable, '-c', 'import urllib.request, threading; t = threading.Thread(target=lambda: print(urllib.request.urlopen(\"" + at + "\").read())); t.start(); t.join()'], capture_output=True, text=True).stdout": "b'hello'",
	} {
		if got := strings.TrimSpace(r.RunCode(t, "print("+code+")").OutputText(timeline.Stdout, timeline.Stderr)); got != want {
			t.Errorf("%s: got %q, want %q", code, got, want)
		}
	}
}
