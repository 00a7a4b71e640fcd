package mcptransport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"
)

const (
	// Path is the URL path of ServeHTTP, with or without a trailing slash.
	Path = "/mcp"

	// DefaultIdleTimeout replaces an HTTPOptions.IdleTimeout of 0.
	DefaultIdleTimeout = time.Hour

	// maxConnections bounds the open connections, and with them the concurrent requests. Further
	// connections wait in the kernel.
	maxConnections = 128

	// maxBodyBytes bounds one message of a client, in bytes.
	maxBodyBytes = 4 << 20

	headerTimeout    = 10 * time.Second // for a request's header
	bodyTimeout      = 30 * time.Second // for a request's body
	writeTimeout     = 30 * time.Second // for each write to a client that does not read
	keepAliveTimeout = 2 * time.Minute  // for a connection between two requests
)

// HTTPOptions configure the address and the access control of ServeHTTP. Listener and Token are
// required.
type HTTPOptions struct {
	// Listener accepts the connections. ServeHTTP closes it.
	Listener net.Listener

	// Token is the token that every request must carry.
	Token string

	// Hosts are the names that clients may use for the server, in addition to the names of the
	// loopback interface. The server refuses all others, because an attacker may have pointed one
	// here to abuse a browser.
	Hosts []string

	// IdleTimeout is how long a client may stay disconnected before its MCP session ends. Shared
	// sessions end after the same time without a call. 0 means DefaultIdleTimeout.
	IdleTimeout time.Duration
}

// ServeHTTP serves any number of clients over streamable HTTP, until ctx ends or the listener
// fails. With a protocol version up to 2025-11-25, a client has an MCP session and its own tools.
// From StatelessVersion on, all calls share the same tools. At the end, ServeHTTP closes the
// tools, which ends the open calls, and answers those. If clients do not read the answers, it
// waits half a second more.
func ServeHTTP(ctx context.Context, h *HTTPOptions, logger *slog.Logger, newTools func(ServedClient) Tools) (err error) {
	switch {
	case h.Listener == nil || h.Token == "":
		return errors.New("mcptransport: Listener and Token are required")
	case h.IdleTimeout < 0:
		return errors.New("mcptransport: IdleTimeout is negative")
	}
	idle := h.IdleTimeout
	if idle == 0 {
		idle = DefaultIdleTimeout
	}
	f := newHTTPFront(idle, logger, newTools)
	web := &http.Server{
		Handler:           logRefusals(logger, newRequestGuard(h.Token, h.Hosts, f)),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       keepAliveTimeout,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
	connections := netutil.LimitListener(h.Listener, maxConnections)
	served := make(chan error, 1)
	go func() { served <- web.Serve(connections) }()
	select {
	case <-ctx.Done():
		_ = connections.Close()
		<-served
		err = ctx.Err()
	case err = <-served:
		err = fmt.Errorf("mcptransport: %w", err)
	}
	f.closeTools()
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWritesTimeout)
	defer cancel()
	f.endClients(bounded)
	_ = web.Shutdown(bounded)
	_ = web.Close() // connections that Shutdown did not close
	return err
}

// logRefusals logs every request that a handler refuses.
func logRefusals(log *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&refusalLogger{ResponseWriter: w, log: log, from: r.RemoteAddr}, r)
	})
}

// A refusalLogger is a response writer that logs every error status.
type refusalLogger struct {
	http.ResponseWriter
	log  *slog.Logger
	from string
}

// WriteHeader implements http.ResponseWriter.
func (l *refusalLogger) WriteHeader(status int) {
	if status >= http.StatusBadRequest {
		l.log.Info("request refused", "status", status, "from", l.from)
	}
	l.ResponseWriter.WriteHeader(status)
}

// Unwrap returns the underlying writer to http.ResponseController.
func (l *refusalLogger) Unwrap() http.ResponseWriter { return l.ResponseWriter }
