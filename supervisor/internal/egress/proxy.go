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
	// headTimeout bounds how long a connection to the proxy may take to say where it wants to go.
	headTimeout = 10 * time.Second

	// idleTimeout bounds how long one that has had an answer may be silent.
	idleTimeout = time.Minute

	// maxHeadBytes bounds the bytes of a request's head; net/http reads up to 4096 more.
	maxHeadBytes = 16 << 10
)

// A proxy serves the connections of a session that has no namespaces, in which names could lead
// here by themselves. One address serves HTTP, of which net/http reads every byte, and SOCKS5.
type proxy struct {
	server      *server
	headTimeout time.Duration
	startHTTP   sync.Once // of the HTTP server
	accepted    chan *proxyConn
}

func newProxy(s *server, headLimit time.Duration) proxy {
	return proxy{server: s, headTimeout: headLimit, accepted: make(chan *proxyConn)}
}

// A proxyConn is one connection of the session to the proxy.
type proxyConn struct {
	net.Conn  // its methods, without those of TCP that read past first
	socket    *net.TCPConn
	reader    *bufio.Reader
	closeOnce sync.Once
	closed    chan struct{}
}

func newProxyConn(socket *net.TCPConn) *proxyConn {
	return &proxyConn{Conn: socket, socket: socket, reader: bufio.NewReader(socket), closed: make(chan struct{})}
}

func (v *proxyConn) Read(b []byte) (int, error) { return v.reader.Read(b) }

func (v *proxyConn) Close() error {
	v.closeOnce.Do(func() { close(v.closed) })
	return v.socket.Close()
}

// hangupContext returns a context that ends when a visitor hangs up. Nothing reads from it until stop.
func (v *proxyConn) hangupContext(ctx context.Context) (_ context.Context, stop func()) {
	ctx, end := context.WithCancel(ctx)
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		if _, err := v.reader.Peek(1); err != nil {
			end()
		}
	}()
	return ctx, func() {
		_ = v.SetReadDeadline(time.Now())
		<-looked
		_ = v.SetReadDeadline(time.Time{})
		end()
	}
}

// serveConn serves a visitor until its connection is closed.
func (p *proxy) serveConn(v *proxyConn) {
	defer context.AfterFunc(p.server.ctx, func() { _ = v.Close() })()
	_ = v.SetReadDeadline(time.Now().Add(p.headTimeout))
	switch first, err := v.reader.Peek(1); {
	case err != nil:
		_ = v.Close()
	case first[0] == socksVersion:
		p.serveSOCKS(v)
		_ = v.Close()
	default:
		p.startHTTP.Do(func() { p.server.wg.Go(p.serveHTTP) })
		select {
		case p.accepted <- v:
		case <-p.server.ctx.Done():
			_ = v.Close()
		}
	}
	<-v.closed
}

// serveHTTP serves those who speak HTTP, until the stage is gone.
func (p *proxy) serveHTTP() {
	silent := log.New(io.Discard, "", 0) // what goes wrong is told to the session
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.RawQuery = r.In.URL.RawQuery },
		Transport: &http.Transport{
			DialContext:        p.dialRequest,
			DisableKeepAlives:  true, // each visitor has one connection outside
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
				// Else net/http reads the rest of a request before its answer begins, beside the
				// Transport, which then gives up a connection whose request it finds closed.
				_ = http.NewResponseController(w).EnableFullDuplex()
				forward.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestKey{}, r.Context())))
			default:
				http.Error(w, "this is the proxy of a sandbox, for CONNECT, http:// and SOCKS5", http.StatusBadRequest)
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

// serveConnect serves CONNECT.
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

// forwardConn sends on what was read too early, and then carries bytes until the connection is over.
func (p *proxy) forwardConn(l destination, v *proxyConn, outside *net.TCPConn, read ...*bufio.Reader) {
	_ = v.SetDeadline(time.Time{})
	for _, r := range append(read, v.reader) {
		n, err := io.CopyN(outside, r, int64(r.Buffered()))
		p.server.policy.recordUse(l, func(r *DestinationUse) { r.Sent += n })
		if err != nil {
			return
		}
	}
	p.server.copyBoth(l, v.socket, outside)
}

// requestKey is the key of the context of a request.
type requestKey struct{}

// dialRequest connects for a request that names its place itself. A Transport goes on dialling for one that
// is over, and a person would be asked for it.
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

// A countingConn connection notes its bytes.
type countingConn struct {
	net.Conn
	policy      *Policy
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

// refuseHTTP says why a place was not reached.
func refuseHTTP(w http.ResponseWriter, place string, err error) {
	status := http.StatusBadGateway
	switch errnoOf(err) {
	case syscall.EACCES:
		status, err = http.StatusForbidden, fmt.Errorf("the sandbox refused it")
	case syscall.ETIMEDOUT:
		status = http.StatusGatewayTimeout
	}
	http.Error(w, place+": "+err.Error(), status)
}

// parseDestination reads a host with its port, as requests have it.
func parseDestination(text string) (destination, error) {
	host, digits, err := net.SplitHostPort(text)
	if err != nil {
		return destination{}, err
	}
	port, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || port == 0 {
		return destination{}, fmt.Errorf("%q is no port", digits)
	}
	return newDestination(host, uint16(port))
}

// newDestination makes a place of a name or address that the session sends.
func newDestination(host string, port uint16) (destination, error) {
	if a, err := netip.ParseAddr(host); err == nil && a.Zone() == "" {
		return destination{addr: a.Unmap(), port: port}, nil
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if !isName(name) || port == 0 {
		return destination{}, fmt.Errorf("%q is no host", host)
	}
	return destination{name: name, port: port}, nil
}

// The numbers of SOCKS5: https://www.rfc-editor.org/rfc/rfc1928
const (
	socksVersion  = 5
	socksNoLogin  = 0
	socksNoMethod = 0xff
	socksConnect  = 1
	socksIPv4     = 1
	socksName     = 3
	socksIPv6     = 4
)

// An answer of SOCKS5 to a request.
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

var errSOCKS = errors.New("this is no SOCKS5 without a login")

// serveSOCKS serves one who speaks SOCKS5. Of that only CONNECT leads out by TCP.
func (p *proxy) serveSOCKS(v *proxyConn) {
	l, err := readSOCKS(v.reader, v)
	var answer socksAnswer
	if err != nil {
		if errors.As(err, &answer) {
			_ = answer.write(v)
		}
		return
	}
	_ = v.SetDeadline(time.Time{}) // a person may be asked
	ctx, stop := v.hangupContext(p.server.ctx)
	outside, err := p.server.connectTo(ctx, l)
	stop()
	if err != nil {
		_ = socksAnswerFor(err).write(v)
		return
	}
	defer outside.Close()
	if socksDone.write(v) == nil {
		p.forwardConn(l, v, outside)
	}
}

// readSOCKS reads a greeting, which it answers, and a request. Each has at most some 260 bytes.
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

// write sends an answer. It names no address of ours, which would tell nobody anything.
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
