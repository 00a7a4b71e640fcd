package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// headTimeout bounds how long a connection to the proxy may take to send its request headers.
	headTimeout = 10 * time.Second

	// idleTimeout bounds the silence of a connection after a response.
	idleTimeout = time.Minute

	// maxHeadBytes bounds the headers of a request in bytes; net/http reads up to 4096 more.
	maxHeadBytes = 16 << 10
)

// A proxy serves the connections of a session without namespaces. The host names of such a session
// cannot resolve to addresses that lead here. One address serves HTTP, where net/http parses all
// input, and SOCKS5.
type proxy struct {
	server      *egressServer
	headTimeout time.Duration
	startHTTP   sync.Once // starts the HTTP server
	accepted    chan *proxyConn
}

func newProxy(s *egressServer, headLimit time.Duration) proxy {
	return proxy{server: s, headTimeout: headLimit, accepted: make(chan *proxyConn)}
}

// A proxyConn is a client connection to the proxy, with the bytes read ahead of its first request.
type proxyConn struct {
	net.Conn  // hides the TCP methods that would read past reader
	socket    *net.TCPConn
	reader    *bufio.Reader
	closeOnce sync.Once
	closed    chan struct{}
}

func newProxyConn(socket *net.TCPConn) *proxyConn {
	return &proxyConn{Conn: socket, socket: socket, reader: bufio.NewReader(socket), closed: make(chan struct{})}
}

func (c *proxyConn) Read(b []byte) (int, error) { return c.reader.Read(b) }

func (c *proxyConn) Close() error {
	c.closeOnce.Do(func() { close(c.closed) })
	return c.socket.Close()
}

// hangupContext returns a context that ends when the client hangs up. Nothing may read from the
// connection until stop is called.
func (c *proxyConn) hangupContext(ctx context.Context) (_ context.Context, stop func()) {
	ctx, end := context.WithCancel(ctx)
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		if _, err := c.reader.Peek(1); err != nil {
			end()
		}
	}()
	return ctx, func() {
		_ = c.SetReadDeadline(time.Now())
		<-looked
		_ = c.SetReadDeadline(time.Time{})
		end()
	}
}

// serveConn serves a client until its connection is closed.
func (p *proxy) serveConn(client *proxyConn) {
	defer context.AfterFunc(p.server.ctx, func() { _ = client.Close() })()
	_ = client.SetReadDeadline(time.Now().Add(p.headTimeout))
	switch first, err := client.reader.Peek(1); {
	case err != nil:
		_ = client.Close()
	case first[0] == socksVersion:
		p.serveSOCKS(client)
		_ = client.Close()
	default:
		p.startHTTP.Do(func() { p.server.wg.Go(p.serveHTTP) })
		select {
		case p.accepted <- client:
		case <-p.server.ctx.Done():
			_ = client.Close()
		}
	}
	<-client.closed
}

// serveHTTP serves the clients that speak HTTP until the monitor is gone.
func (p *proxy) serveHTTP() {
	silent := log.New(io.Discard, "", 0) // errors are reported to the session
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.RawQuery = r.In.URL.RawQuery },
		Transport: &http.Transport{
			DialContext:        p.dialRequest,
			DisableKeepAlives:  true, // each client has one connection outside
			DisableCompression: true,
		},
		FlushInterval: -1,
		ErrorLog:      silent,
		ErrorHandler:  func(w http.ResponseWriter, r *http.Request, err error) { refuseHTTP(w, r.URL.Host, err) },
	}
	server := http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Method == http.MethodConnect:
				p.serveConnect(w, r)
			case r.URL.Scheme == "http" && r.URL.Host != "":
				// Otherwise net/http reads the rest of a request before its response begins, at the
				// same time as the Transport. The Transport then closes a connection if it finds
				// the request body closed.
				_ = http.NewResponseController(w).EnableFullDuplex()
				forward.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestKey{}, r.Context())))
			default:
				http.Error(w, "this is a sandbox proxy; it supports CONNECT, http:// URLs and SOCKS5", http.StatusBadRequest)
			}
		}),
		BaseContext:       func(net.Listener) context.Context { return p.server.ctx },
		ReadHeaderTimeout: p.headTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeadBytes,
		ErrorLog:          silent,
	}
	_ = server.Serve(p) // returns when Accept does
}

// Accept, Close and Addr make a proxy the listener of its HTTP server.
func (p *proxy) Accept() (net.Conn, error) {
	select {
	case v := <-p.accepted:
		return v, nil
	case <-p.server.ctx.Done():
		return nil, net.ErrClosed
	}
}

func (p *proxy) Close() error   { return nil }
func (p *proxy) Addr() net.Addr { return &net.TCPAddr{} }

// serveConnect serves a CONNECT request.
func (p *proxy) serveConnect(w http.ResponseWriter, r *http.Request) {
	l, err := parseDestination(r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	outside, err := p.server.connectTo(r.Context(), l)
	if err != nil {
		refuseHTTP(w, r.Host, err)
		return
	}
	defer outside.Close()
	c, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return // the session has closed it
	}
	defer c.Close()
	if _, err := io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	p.forwardConn(l, c.(*proxyConn), outside, buffered.Reader)
}

// forwardConn forwards the bytes that were read ahead, then copies in both directions until the
// connection ends.
func (p *proxy) forwardConn(l destination, client *proxyConn, outside *net.TCPConn, read ...*bufio.Reader) {
	_ = client.SetDeadline(time.Time{})
	for _, r := range append(read, client.reader) {
		n, err := io.CopyN(outside, r, int64(r.Buffered()))
		p.server.policy.recordUse(l, func(r *DestinationUse) { r.Sent += n })
		if err != nil {
			return
		}
	}
	p.server.copyBoth(l, client.socket, outside)
}

// requestKey is the context key under which the context of the client's request is stored.
type requestKey struct{}

// dialRequest connects to the destination that a request names. A Transport continues to dial for a
// canceled request. Without the request's own context, the user would still be asked about that
// dial.
func (p *proxy) dialRequest(ctx context.Context, _, address string) (net.Conn, error) {
	if request, ok := ctx.Value(requestKey{}).(context.Context); ok {
		ctx = request
	}
	l, err := parseDestination(address)
	if err != nil {
		return nil, err
	}
	c, err := p.server.connectTo(ctx, l)
	if err != nil {
		return nil, err
	}
	return &countingConn{c, p.server.policy, l}, nil
}

// A countingConn records the bytes it reads and writes in the use of its destination.
type countingConn struct {
	net.Conn
	policy      *HostPolicy
	destination destination
}

func (c *countingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.policy.recordUse(c.destination, func(r *DestinationUse) { r.Received += int64(n) })
	return n, err
}

func (c *countingConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.policy.recordUse(c.destination, func(r *DestinationUse) { r.Sent += int64(n) })
	return n, err
}

// refuseHTTP responds with the reason why a destination was not reached.
func refuseHTTP(w http.ResponseWriter, host string, err error) {
	status := http.StatusBadGateway
	switch errnoOf(err) {
	case syscall.EACCES:
		status, err = http.StatusForbidden, fmt.Errorf("refused by the sandbox")
	case syscall.ETIMEDOUT:
		status = http.StatusGatewayTimeout
	}
	http.Error(w, host+": "+err.Error(), status)
}

// parseDestination parses a host and port as HTTP requests write them.
func parseDestination(text string) (destination, error) {
	host, digits, err := net.SplitHostPort(text)
	if err != nil {
		return destination{}, err
	}
	port, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || port == 0 {
		return destination{}, fmt.Errorf("invalid port %q", digits)
	}
	return newDestination(host, uint16(port))
}

// newDestination makes a destination from a name or address that the session sent.
func newDestination(host string, port uint16) (destination, error) {
	if a, err := netip.ParseAddr(host); err == nil && a.Zone() == "" {
		return destination{addr: a.Unmap(), port: port}, nil
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if !isName(name) || port == 0 {
		return destination{}, fmt.Errorf("invalid host %q", host)
	}
	return destination{name: name, port: port}, nil
}

// The numbers of SOCKS5 are from https://www.rfc-editor.org/rfc/rfc1928.
const (
	socksVersion  = 5
	socksNoLogin  = 0
	socksNoMethod = 0xff
	socksConnect  = 1
	socksIPv4     = 1
	socksName     = 3
	socksIPv6     = 4
)

// A socksAnswer is the reply code of SOCKS5 to a request.
type socksAnswer byte

const (
	socksDone        socksAnswer = 0
	socksFailed      socksAnswer = 1
	socksRefused     socksAnswer = 2
	socksNoHost      socksAnswer = 4
	socksNoListener  socksAnswer = 5
	socksTimeout     socksAnswer = 6
	socksNoCommand   socksAnswer = 7
	socksNoAddresses socksAnswer = 8
)

func (a socksAnswer) Error() string { return "SOCKS: answer " + strconv.Itoa(int(a)) }

var errSOCKS = errors.New("not a SOCKS5 request without authentication")

// serveSOCKS serves a client that speaks SOCKS5. CONNECT is the only supported command: the others
// do not make outgoing TCP connections.
func (p *proxy) serveSOCKS(client *proxyConn) {
	l, err := readSOCKS(client.reader, client)
	var answer socksAnswer
	if err != nil {
		if errors.As(err, &answer) {
			_ = answer.write(client)
		}
		return
	}
	_ = client.SetDeadline(time.Time{}) // the user may be asked
	ctx, stop := client.hangupContext(p.server.ctx)
	outside, err := p.server.connectTo(ctx, l)
	stop()
	if err != nil {
		_ = socksAnswerFor(err).write(client)
		return
	}
	defer outside.Close()
	if socksDone.write(client) == nil {
		p.forwardConn(l, client, outside)
	}
}

// readSOCKS reads a greeting, which it answers, and a request. Each has at most about 260 bytes.
func readSOCKS(r io.Reader, w io.Writer) (destination, error) {
	buf := make([]byte, 256)
	read := func(n byte) ([]byte, error) {
		_, err := io.ReadFull(r, buf[:n])
		return buf[:n], err
	}
	b, err := read(2) // version, number of methods
	if err != nil {
		return destination{}, err
	}
	version := b[0]
	methods, err := read(b[1])
	if err != nil {
		return destination{}, err
	}
	if version != socksVersion || !strings.Contains(string(methods), string([]byte{socksNoLogin})) {
		_, _ = w.Write([]byte{socksVersion, socksNoMethod})
		return destination{}, errSOCKS
	}
	if _, err := w.Write([]byte{socksVersion, socksNoLogin}); err != nil {
		return destination{}, err
	}
	if b, err = read(4); err != nil { // version, command, 0, kind of address
		return destination{}, err
	}
	version, command, kind := b[0], b[1], b[3]
	size := map[byte]byte{socksIPv4: net.IPv4len, socksIPv6: net.IPv6len}[kind]
	switch {
	case version != socksVersion:
		return destination{}, errSOCKS
	case command != socksConnect:
		return destination{}, socksNoCommand
	case kind == socksName:
		if b, err = read(1); err != nil {
			return destination{}, err
		}
		size = b[0]
	case size == 0:
		return destination{}, socksNoAddresses
	}
	if b, err = read(size); err != nil {
		return destination{}, err
	}
	host := string(b)
	if kind != socksName {
		a, _ := netip.AddrFromSlice(b)
		host = a.String()
	}
	if b, err = read(2); err != nil {
		return destination{}, err
	}
	l, err := newDestination(host, uint16(b[0])<<8|uint16(b[1]))
	if err != nil {
		return destination{}, socksNoHost
	}
	return l, nil
}

// write sends an answer. Its bound address is zero: the real one is of no use to the client.
func (a socksAnswer) write(w io.Writer) error {
	_, err := w.Write([]byte{socksVersion, byte(a), 0, socksIPv4, 0, 0, 0, 0, 0, 0})
	return err
}

func socksAnswerFor(err error) socksAnswer {
	switch errnoOf(err) {
	case syscall.EACCES:
		return socksRefused
	case syscall.EHOSTUNREACH:
		return socksNoHost
	case syscall.ECONNREFUSED:
		return socksNoListener
	case syscall.ETIMEDOUT:
		return socksTimeout
	}
	return socksFailed
}
