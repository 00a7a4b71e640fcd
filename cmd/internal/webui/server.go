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

	"golang.org/x/net/netutil"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/internal/httpauth"
)

const (
	// maxConnections bounds the open connections; further ones wait in the kernel. A browser opens
	// at most six to one host.
	maxConnections = 128

	// maxBodyBytes bounds the body of a request, such as code that a user pastes.
	maxBodyBytes = 8 << 20

	headerTimeout    = 10 * time.Second
	keepAliveTimeout = 2 * time.Minute

	// writeTimeout bounds a write of maxWriteBytes bytes to a browser that does not read, such as a frozen tab.
	writeTimeout  = 10 * time.Second
	maxWriteBytes = 64 << 10

	// shutdownTimeout bounds how long Serve waits for pending answers when it ends.
	shutdownTimeout = 500 * time.Millisecond
)

// Options configure the web UI of one daemon. Link and Author are required.
type Options struct {
	Link   *client.Client
	Author string // recorded for everything that the user does in the browser

	// Port is the port to listen at; 0 lets the system choose.
	Port int

	// UseAddress puts the address 127.0.0.1 into links, for browsers that do not resolve names under
	// localhost. Browsers send its cookie to all ports of that address.
	UseAddress bool

	// Version is shown to the user.
	Version string

	// Export writes a session as a file. Formats returns the formats for a language, which are also
	// the file extensions.
	Export  func(ctx context.Context, w io.Writer, session, format string) error
	Formats func(language string) []string

	Logger *slog.Logger // nil discards
}

// A Server serves the web UI over HTTP. It is safe for concurrent use.
type Server struct {
	options   Options
	log       *slog.Logger
	hostPort  string // see formatHost
	listeners []net.Listener
	logins    *httpauth.LoginLinks
	closing   chan struct{} // closed when Serve ends
}

// Listen opens the port on the loopback interface, for IPv4 and, if available, IPv6.
func Listen(ctx context.Context, o *Options) (*Server, error) {
	if o.Link == nil || o.Author == "" {
		return nil, errors.New("webui: Link and Author are required")
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

// formatHost returns a name with its port as browsers write it, without port 80.
func formatHost(name string, port int) string {
	if port == 80 {
		return name
	}
	return net.JoinHostPort(name, strconv.Itoa(port))
}

// listenLoopback listens at one port of both loopback addresses. A browser may use either for a name
// under localhost, so a port that another program has on one of them cannot be used.
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
			return []net.Listener{four}, got, nil // the system has no IPv6
		}
		_ = four.Close()
		if port != 0 {
			return nil, 0, fmt.Errorf("port %d of ::1 is in use; choose another one", port)
		}
	}
	return nil, 0, errors.New("no port is free on both 127.0.0.1 and ::1")
}

// Origin returns the origin of the web UI, which has no path.
func (s *Server) Origin() string { return "http://" + s.hostPort }

// NewLoginLink returns a URL that logs one browser in, within httpauth.LoginLinkTimeout. It opens a
// session or, with "", the list. The secret is in the fragment, which browsers do not send.
func (s *Server) NewLoginLink(session string) string {
	address := s.Origin() + "/in#" + s.logins.NewLink()
	if session != "" {
		address += "/" + session
	}
	return address
}

// Serve serves until ctx ends or a listener fails.
func (s *Server) Serve(ctx context.Context) error {
	web := &http.Server{
		Handler:           s.guardRequests(s.newHandler()),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       keepAliveTimeout,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, len(s.listeners))
	var serving sync.WaitGroup
	for _, l := range s.listeners {
		serving.Go(func() { failed <- web.Serve(boundedListener{netutil.LimitListener(l, maxConnections)}) })
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

// A boundedListener accepts connections that end when their browser does not read.
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

// newHandler returns the handler of all routes.
func (s *Server) newHandler() http.Handler {
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
