//go:build !windows

package egress

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// newConnPair returns both ends of a connection.
func newConnPair(t testing.TB) (client, end *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	e, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = c.Close(), e.Close() })
	return c.(*net.TCPConn), e.(*net.TCPConn)
}

// newTestProxy serves the sessions of a policy until the test ends.
func newTestProxy(t testing.TB, p *HostPolicy, headLimit time.Duration) *proxy {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	s := &egressServer{policy: p, ctx: ctx, connections: make(map[uint64]*connection)}
	s.proxy = newProxy(s, headLimit)
	t.Cleanup(func() { stop(); s.wg.Wait() })
	return &s.proxy
}

func TestProxy(t *testing.T) {
	t.Parallel()

	// A connection that sends nothing, or never completes its request, is closed.
	t.Run("closes a connection that sends no whole request", func(t *testing.T) {
		t.Parallel()
		for name, text := range map[string]string{
			"nothing": "", "half a request": "CONNECT example.org:443 HTT", "half the headers": "GET http://example.org/ HTTP/1.1\r\nA: b\r\n",
			"half a greeting": "\x05\x02\x00", "no request": "\x05\x01\x00", "half a SOCKS request": "\x05\x01\x00\x05\x01\x00\x03\x09examp",
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				p := newTestProxy(t, newTestPolicy(t, "example.org"), 50*time.Millisecond)
				client, end := newConnPair(t)
				if _, err := io.WriteString(client, text); err != nil {
					t.Fatal(err)
				}
				p.serveConn(newProxyConn(end)) // returns when it is closed
				if got := p.server.policy.Destinations(); len(got) > 0 {
					t.Errorf("the session reached %+v", got)
				}
			})
		}
	})

	// The end of the monitor closes every connection.
	t.Run("closes its connections when the monitor ends", func(t *testing.T) {
		t.Parallel()
		ctx, stop := context.WithCancel(t.Context())
		s := &egressServer{policy: newTestPolicy(t), ctx: ctx, connections: make(map[uint64]*connection)}
		s.proxy = newProxy(s, time.Hour)
		asked := make(chan bool)
		s.policy.options.OnRefused = func(ctx context.Context, _, _ string) bool { asked <- true; <-ctx.Done(); return false }
		var serving sync.WaitGroup
		for _, text := range []string{"", "CONNECT example.org:443 HTTP/1.1\r\n\r\n", "\x05\x01\x00\x05\x01\x00\x01\x01\x02\x03\x04\x00\x50"} {
			client, end := newConnPair(t)
			_, _ = io.WriteString(client, text)
			serving.Go(func() { s.proxy.serveConn(newProxyConn(end)) })
		}
		<-asked
		<-asked
		stop()
		serving.Wait()
		s.wg.Wait()
	})

	// The host's response may come while the proxy checks whether the request has more bytes.
	t.Run("forwards a whole response after the last request byte", func(t *testing.T) {
		t.Parallel()
		client, address := newProxyClient(t, func(w http.ResponseWriter, r *http.Request) {
			all, _ := io.ReadAll(r.Body)
			_, _ = w.Write(all)
		})
		text := strings.Repeat("x", 100_000)
		var clients sync.WaitGroup
		for range 8 {
			clients.Go(func() {
				for range 100 {
					r, err := client.Post(address, "text/plain", strings.NewReader(text))
					if err != nil {
						t.Error(err)
						return
					}
					all, err := io.ReadAll(r.Body)
					_ = r.Body.Close()
					if err != nil || string(all) != text {
						t.Errorf("got %d bytes, %v", len(all), err)
						return
					}
				}
			})
		}
		clients.Wait()
	})

	t.Run("forwards a response that begins before its request ends", func(t *testing.T) {
		t.Parallel()
		client, address := newProxyClient(t, func(w http.ResponseWriter, r *http.Request) {
			c := http.NewResponseController(w)
			_ = c.EnableFullDuplex()
			_, _ = io.CopyN(w, r.Body, 5)
			_ = c.Flush()
			_, _ = io.Copy(w, r.Body)
		})
		body, more := io.Pipe()
		go func() { _, _ = io.WriteString(more, "first") }()
		r, err := client.Post(address, "text/plain", body)
		if err != nil {
			t.Fatalf("no response to the first half of a request: %v", err)
		}
		defer r.Body.Close()
		go func() {
			_, _ = io.WriteString(more, strings.Repeat("x", 300_000))
			_ = more.Close()
		}()
		if all, err := io.ReadAll(r.Body); err != nil || len(all) != 300_005 || !strings.HasPrefix(string(all), "firstx") {
			t.Errorf("got %d bytes, %v", len(all), err)
		}
	})

	// A permission question for a client that has hung up is withdrawn.
	t.Run("cancels a permission question when its client hangs up", func(t *testing.T) {
		t.Parallel()
		for name, text := range map[string]string{
			"CONNECT": "CONNECT example.org:443 HTTP/1.1\r\n\r\n", "http": "GET http://example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n",
			"SOCKS": "\x05\x01\x00\x05\x01\x00\x01\x01\x02\x03\x04\x00\x50",
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				p := newTestProxy(t, newTestPolicy(t), time.Hour)
				asked, withdrawn := make(chan bool), make(chan bool)
				p.server.policy.options.OnRefused = func(ctx context.Context, _, _ string) bool {
					asked <- true
					<-ctx.Done()
					close(withdrawn)
					return false
				}
				client, end := newConnPair(t)
				_, _ = io.WriteString(client, text)
				go p.serveConn(newProxyConn(end))
				<-asked
				_ = client.Close()
				select {
				case <-withdrawn:
				case <-time.After(10 * time.Second):
					t.Error("the question is still open")
				}
			})
		}
	})
}

// newProxyClient returns a client that uses the proxy, and the address of a host behind it.
func newProxyClient(t *testing.T, host http.HandlerFunc) (*http.Client, string) {
	t.Helper()
	server := httptest.NewServer(host)
	t.Cleanup(server.Close)
	p := newTestProxy(t, newTestPolicy(t, "127.0.0.1"), time.Hour)
	transport := &http.Transport{
		Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy"}),
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			client, end := newConnPair(t)
			go p.serveConn(newProxyConn(end))
			return client, nil
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}, server.URL
}

func TestReadSOCKS(t *testing.T) {
	t.Parallel()
	hello := "\x05\x02\x01\x00"
	for _, row := range []struct{ text, want, written string }{
		{hello + "\x05\x01\x00\x03\x0bExample.org\x01\xbb", "example.org:443", "\x05\x00"},
		{hello + "\x05\x01\x00\x01\xcb\x00\x71\x07\x00\x50", "203.0.113.7:80", "\x05\x00"},
		{hello + "\x05\x01\x00\x04" + strings.Repeat("\x00", 10) + "\xff\xff\x7f\x00\x00\x01\x00\x50", "127.0.0.1:80", "\x05\x00"},
		{hello + "\x05\x01\x00\x03\x09127.0.0.1\x00\x50", "127.0.0.1:80", "\x05\x00"},
		{hello + "\x05\x01\x00\x03\x0bexample.org\x00\x00", "SOCKS: answer 4", "\x05\x00"}, // port 0
		{hello + "\x05\x01\x00\x03\x03a b\x00\x50", "SOCKS: answer 4", "\x05\x00"},
		{hello + "\x05\x01\x00\x03\x00\x00\x50", "SOCKS: answer 4", "\x05\x00"},
		{hello + "\x05\x02\x00\x01\xcb\x00\x71\x07\x00\x50", "SOCKS: answer 7", "\x05\x00"}, // BIND
		{hello + "\x05\x03\x00\x01\xcb\x00\x71\x07\x00\x50", "SOCKS: answer 7", "\x05\x00"}, // UDP
		{hello + "\x05\x01\x00\x02\xcb\x00\x71\x07\x00\x50", "SOCKS: answer 8", "\x05\x00"},
		{hello + "\x04\x01\x00\x01\xcb\x00\x71\x07\x00\x50", errSOCKS.Error(), "\x05\x00"},
		{"\x05\x01\x02", errSOCKS.Error(), "\x05\xff"}, // a login only
		{"\x05\x00", errSOCKS.Error(), "\x05\xff"},
		{"\x05\x01", "EOF", ""},
	} {
		var written bytes.Buffer
		l, err := readSOCKS(strings.NewReader(row.text), &written)
		got := l.String()
		if err != nil {
			got = err.Error()
		}
		if got != row.want || written.String() != row.written {
			t.Errorf("%q: got %q and answered %q, want %q and %q", row.text, got, written.String(), row.want, row.written)
		}
	}
}

// FuzzReadSOCKS checks that every SOCKS5 request gives either a destination that a policy can
// decide, or an error.
func FuzzReadSOCKS(f *testing.F) {
	f.Add([]byte("\x05\x02\x01\x00\x05\x01\x00\x03\x0bexample.org\x01\xbb"))
	f.Add([]byte("\x05\x01\x00\x05\x01\x00\x01\xcb\x00\x71\x07\x00\x50"))
	f.Add([]byte("\x05\x01\x00\x05\x01\x00\x04" + strings.Repeat("\x20", 16) + "\x00\x50"))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := readSOCKS(bytes.NewReader(text), io.Discard)
		if err == nil && (l.port == 0 && !l.addr.IsValid() || (l.name == "") == !l.addr.IsValid() || l.name != "" && !isName(l.name) || l.addr.Zone() != "") {
			t.Errorf("%q: got the destination %+v", text, l)
		}
	})
}

// FuzzProxy checks that the proxy answers every text in one of its two protocols or not at all. It
// also checks that the proxy reaches only listed hosts.
func FuzzProxy(f *testing.F) {
	f.Add([]byte("CONNECT example.org:443 HTTP/1.1\r\nHost: example.org\r\n\r\n"))
	f.Add([]byte("GET http://example.org/a;b?c HTTP/1.1\r\nConnection: close\r\n\r\n"))
	f.Add([]byte("POST http://u:p@[::1]:1/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"))
	f.Add([]byte("GET / HTTP/1.1\r\nUpgrade: x\r\n\r\n"))
	f.Add([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	f.Add([]byte("\x05\x01\x00\x05\x01\x00\x03\x0bexample.org\x01\xbb"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p := newTestProxy(t, newTestPolicy(t), time.Minute)
		client, end := newConnPair(t)
		served := make(chan struct{})
		go func() { defer close(served); p.serveConn(newProxyConn(end)) }()
		go func() { _, _ = client.Write(text); _ = client.CloseWrite() }()
		first := bufio.NewReader(client)
		switch version, err := first.Peek(1); {
		case err != nil:
		case version[0] == socksVersion:
			if got, _ := io.ReadAll(first); len(got) != 2 && (len(got) != 12 || got[3] == byte(socksDone)) {
				t.Errorf("%q: got %q", text, got)
			}
		default:
			r, err := http.ReadResponse(first, nil)
			if err != nil || r.StatusCode < 400 && r.StatusCode != http.StatusContinue {
				t.Errorf("%q: got %v, %v", text, r, err)
			}
		}
		_ = client.Close()
		<-served
		for _, use := range p.server.policy.Destinations() {
			if use.Connections > 0 {
				t.Errorf("%q use %+v", text, use)
			}
		}
	})
}
