package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const (
	// HTTPPath is where RunHTTP answers.
	HTTPPath = "/mcp"

	// DefaultIdle is HTTPOptions.Idle when that is 0, and MinIdle the least that it
	// may be for people: longer than any call takes.
	DefaultIdle = time.Hour
	MinIdle     = maxTimeout + 5*time.Minute

	// maxConnections bounds the open connections, and with them the requests at
	// once. Further ones wait in the kernel until one is closed.
	maxConnections = 128

	// maxBody bounds one message of a client, in bytes.
	maxBody = 4 << 20

	headerTimeout = 10 * time.Second // from the connection to the end of a request's header
	bodyTimeout   = 30 * time.Second // for its body
	writeTimeout  = 30 * time.Second // for each write to a client that does not read
	keepAlive     = 2 * time.Minute  // for a connection between two requests
)

// HTTPOptions say where RunHTTP serves, and whom. Listener and Token are required.
type HTTPOptions struct {
	// Listener takes the connections. RunHTTP closes it.
	Listener net.Listener

	// Token is what every request must bear.
	Token string

	// Hosts are names by which clients may call the server, besides those of the
	// loopback interface. A request for any other name is refused, as a browser's
	// would be that was led here by a forged name.
	Hosts []string

	// Idle is how long a session may go without a call, and a client without a
	// connection, before they are ended. 0 means DefaultIdle.
	Idle time.Duration
}

// RunHTTP serves any number of clients over streamable HTTP until ctx ends, or the
// listener fails. In and Out of opts are not used.
//
// A client of the versions up to 2025-11-25 has an MCP session, and the sessions
// that it opens are its own. From 2026-07-28 on a call stands for itself: all such
// calls share their sessions, and must name them.
//
// In the end it closes the sessions that it opened, whatever they run, and waits
// for that: about supervisor.Options.StopGrace. Calls that this ends are answered.
// Clients that do not read the answers make it half a second more.
func RunHTTP(ctx context.Context, opts *Options, h *HTTPOptions) error {
	o, err := opts.complete()
	switch {
	case err != nil:
		return err
	case h.Listener == nil || h.Token == "":
		return errors.New("mcpserver: Listener and Token are required")
	case o.Supervisor == nil:
		return errors.New("mcpserver: over HTTP sessions are the server's own: a Supervisor is required")
	case h.Idle < 0:
		return errors.New("mcpserver: Idle is negative")
	}
	idle := h.Idle
	if idle == 0 {
		idle = DefaultIdle
	}
	f := newFront(o, idle)
	web := &http.Server{
		Handler:           logRefusals(o.Logger, newGate(h.Token, h.Hosts, f)),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       keepAlive,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(o.Logger.Handler(), slog.LevelWarn),
	}
	connections := limitConnections(h.Listener, maxConnections)
	served := make(chan error, 1)
	go func() { served <- web.Serve(connections) }()
	select {
	case <-ctx.Done():
		_ = connections.Close()
		<-served
		err = ctx.Err()
	case err = <-served:
		err = fmt.Errorf("mcpserver: %w", err)
	}
	f.endSessions()
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrites)
	defer cancel()
	f.endClients(bounded)
	_ = web.Shutdown(bounded)
	_ = web.Close() // what Shutdown gave up
	return err
}
