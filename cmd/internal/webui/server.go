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
	"strconv"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/internal/httpauth"
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

	chartScripts chartScripts
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
