package webui

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/httpauth"
)

const (
	// maxConnections bounds the open connections; more wait in the kernel. A browser has six
	// of a host.
	maxConnections = 128

	// maxBodyBytes bounds the body of a request, in bytes: code that a person pastes.
	maxBodyBytes = 8 << 20

	headerTimeout    = 10 * time.Second
	keepAliveTimeout = 2 * time.Minute

	// writeTimeout bounds a write of maxWriteBytes bytes to a browser that does not read, such as a frozen tab.
	writeTimeout  = 10 * time.Second
	maxWriteBytes = 64 << 10

	// shutdownTimeout bounds how long Serve waits for answers at its end.
	shutdownTimeout = 500 * time.Millisecond
)

// Options say which sessions a page shows. Link and Author are required.
type Options struct {
	Link   *client.Client
	Author string // of everything that the person does on the page

	// Port is the port to listen at; 0 lets the system choose.
	Port int

	// UseAddress has the page called by the address 127.0.0.1, for browsers that do not know
	// names under localhost. Browsers send its cookie to all ports of that address.
	UseAddress bool

	// Version is shown in the page.
	Version string

	// Export writes a session as a file. Formats returns the formats for a language, and so the
	// extensions of the files.
	Export  func(ctx context.Context, w io.Writer, session, format string) error
	Formats func(language string) []string

	Logger *slog.Logger // nil discards
}

// A Server serves the page. It is safe for concurrent use.
type Server struct {
	options   Options
	log       *slog.Logger
	hostPort  string // see formatHost
	listeners []net.Listener
	logins    *httpauth.LoginLinks
	closing   chan struct{} // closed when Serve ends
}

// Listen opens the port on the loopback interface, of IPv4 and, where there is one, of IPv6.
func Listen(ctx context.Context, o *Options) (*Server, error) {
	if o.Link == nil || o.Author == "" {
		return nil, errors.New("page: Link and Author are required")
	}
	listeners, port, err := listenLoopback(ctx, o.Port)
	if err != nil {
		return nil, err
	}
	host := "127.0.0.1"
	if !o.UseAddress {
		var name [8]byte
		_, _ = rand.Read(name[:]) // never fails
		host = hex.EncodeToString(name[:]) + ".localhost"
	}
	s := &Server{
		options: *o, log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)),
		hostPort: formatHost(host, port), listeners: listeners,
		logins: httpauth.NewLoginLinks("turnstone_" + strconv.Itoa(port)), closing: make(chan struct{}),
	}
	return s, nil
}

// formatHost returns a name with its port, as browsers have it: without that of HTTP.
func formatHost(name string, port int) string {
	if port == 80 {
		return name
	}
	return net.JoinHostPort(name, strconv.Itoa(port))
}

// listenLoopback listens at one port of both loopback addresses. A browser may take either for a name
// under localhost; a port that somebody else has on one of them is not ours to use.
func listenLoopback(ctx context.Context, port int) ([]net.Listener, int, error) {
	var config net.ListenConfig
	for range 20 {
		four, err := config.Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return nil, 0, err
		}
		got := four.Addr().(*net.TCPAddr).Port
		six, err := config.Listen(ctx, "tcp6", net.JoinHostPort("::1", strconv.Itoa(got)))
		switch {
		case err == nil:
			return []net.Listener{four, six}, got, nil
		case !isAddressInUse(err):
			return []net.Listener{four}, got, nil // there is no IPv6
		}
		_ = four.Close()
		if port != 0 {
			return nil, 0, fmt.Errorf("port %d of ::1 is taken: choose another one", port)
		}
	}
	return nil, 0, errors.New("no port is free on both 127.0.0.1 and ::1")
}

// Origin is the page's origin, without a path.
func (s *Server) Origin() string { return "http://" + s.hostPort }

// NewLoginLink returns an address that opens the page once, within gate.LoginLinkTimeout, at a session or,
// with "", at the list. The secret is in its fragment, which a browser sends to nobody.
func (s *Server) NewLoginLink(session string) string {
	address := s.Origin() + "/in#" + s.logins.NewLink()
	if session != "" {
		address += "/" + session
	}
	return address
}

// Serve serves until ctx ends, or a listener fails.
func (s *Server) Serve(ctx context.Context) error {
	web := &http.Server{
		Handler:           s.guardRequests(s.handler()),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       keepAliveTimeout,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, len(s.listeners))
	var serving sync.WaitGroup
	for _, l := range s.listeners {
		serving.Go(func() { failed <- web.Serve(boundedListener{httpauth.LimitListener(l, maxConnections)}) })
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	close(s.closing)
	brief, stop := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer stop()
	_ = web.Shutdown(brief)
	_ = web.Close()
	serving.Wait()
	return err
}

// A boundedListener listener has connections that end when their browser does not read.
type boundedListener struct{ net.Listener }

func (l boundedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return boundedConn{conn}, nil
}

type boundedConn struct{ net.Conn }

// Write implements net.Conn.
func (c boundedConn) Write(b []byte) (n int, err error) {
	for err == nil && n < len(b) {
		_ = c.SetWriteDeadline(time.Now().Add(writeTimeout))
		var wrote int
		wrote, err = c.Conn.Write(b[n:min(len(b), n+maxWriteBytes)])
		n += wrote
	}
	return n, err
}

// handler returns the addresses of the page.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /in", s.serveStatic("in.html"))
	mux.HandleFunc("POST /in", s.serveLogin)
	mux.HandleFunc("GET /static/{file...}", func(w http.ResponseWriter, r *http.Request) { s.serveStatic(r.PathValue("file"))(w, r) })
	mux.HandleFunc("GET /favicon.ico", s.serveStatic("icon.svg"))
	mux.HandleFunc("GET /{$}", s.requireSession(s.serveStatic("index.html")))
	mux.HandleFunc("GET /s/{session}", s.requireSession(s.serveStatic("index.html")))
	mux.HandleFunc("GET /frame/{session}/{seq}/{part}", s.requireSession(s.serveFrame))
	mux.HandleFunc("GET /blob/{session}/{seq}/{part}", s.requireSession(s.serveBlob))
	mux.HandleFunc("GET /download/{session}", s.requireSession(s.serveExport))
	mux.HandleFunc("GET /api/hello", s.requireToken(s.serveHello))
	s.addReadRoutes(mux)
	s.addActionRoutes(mux)
	return mux
}
