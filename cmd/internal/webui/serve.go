package webui

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/netutil"
)

const (
	// maxConnections bounds the open connections; further ones wait in the kernel. A browser opens
	// at most six to one host.
	maxConnections = 128

	headerTimeout    = 10 * time.Second
	keepAliveTimeout = 2 * time.Minute

	// writeTimeout bounds a write of maxWriteBytes bytes to a browser that does not read, such as a frozen tab.
	writeTimeout  = 10 * time.Second
	maxWriteBytes = 64 << 10

	// shutdownTimeout bounds how long Serve waits for pending answers when it ends.
	shutdownTimeout = 500 * time.Millisecond
)

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
	mux.HandleFunc("GET /frame/drawer/{digest}", s.requireSession(s.serveDrawer))
	mux.HandleFunc("GET /lib/{file}", s.serveLibrary)
	mux.HandleFunc("GET /api/chart/{session}/{seq}/{part}", s.requireToken(s.serveChart))
	mux.HandleFunc("GET /blob/{session}/{seq}/{part}", s.requireSession(s.serveBlob))
	mux.HandleFunc("GET /download/{session}", s.requireSession(s.serveExport))
	mux.HandleFunc("GET /api/hello", s.requireToken(s.serveHello))
	s.addReadRoutes(mux)
	s.addActionRoutes(mux)
	return mux
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
