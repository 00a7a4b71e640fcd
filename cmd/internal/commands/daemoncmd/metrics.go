package daemoncmd

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/netutil"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/metrics"
	"github.com/turnstone-repl/turnstone/internal/httpauth"
)

const (
	// metricsHeaderTimeout and metricsIdleTimeout bound how long a client may keep a connection
	// without a request.
	metricsHeaderTimeout = 10 * time.Second
	metricsIdleTimeout   = 2 * time.Minute

	// maxMetricsHeaderBytes bounds the header of a request.
	maxMetricsHeaderBytes = 16 << 10

	// maxMetricsConnections bounds the open connections. Other users of the machine can connect, and
	// must not use up the open files of the daemon. Further clients wait.
	maxMetricsConnections = 32

	// maxScrapes bounds the requests for metrics that are answered at the same time, because each
	// inspects all processes.
	maxScrapes = 2
)

// metricsFlags holds the address at which the daemon serves its metrics.
type metricsFlags struct {
	address string // "" means that it does not
}

func (m *metricsFlags) AddFlags(f *flag.FlagSet) {
	f.StringVar(&m.address, "metrics", "", "`ADDRESS:PORT` serve metrics for Prometheus at /metrics and the health at /healthz, to programs of this machine, such as 127.0.0.1:9105")
}

// validateAddress rejects an address that is not on the loopback interface.
func (m *metricsFlags) validateAddress() error {
	if m.address == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(m.address)
	if err != nil {
		return cmdkit.UsageErrorf("--metrics needs an address and a port, such as 127.0.0.1:9105, not %q", m.address)
	}
	if !httpauth.IsLoopback(host) {
		return cmdkit.UsageErrorf("--metrics %s would show the sessions of this daemon to others on the network; use 127.0.0.1, and a proxy if another machine collects the metrics", m.address)
	}
	return nil
}

// listen returns the listener for the address, or nil without one. The name localhost could lead to
// another address, so the listener's own address is checked, too.
func (m *metricsFlags) listen(ctx context.Context) (net.Listener, error) {
	if m.address == "" {
		return nil, nil
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", m.address)
	if err != nil {
		return nil, fmt.Errorf("--metrics: %w", err)
	}
	if at, err := netip.ParseAddrPort(l.Addr().String()); err != nil || !at.Addr().IsLoopback() {
		_ = l.Close()
		return nil, fmt.Errorf("--metrics %s leads to %s, which is not an address of this machine alone; use 127.0.0.1", m.address, l.Addr())
	}
	return l, nil
}

// A metricsSource is a daemon.
type metricsSource interface {
	Metrics() string // in the text format of Prometheus
	Refusal() string // why it accepts no work; "" if it does
}

// serveMetrics serves the metrics of a daemon until end is called. A nil listener serves nothing.
func serveMetrics(l net.Listener, from metricsSource, log *slog.Logger) (end func()) {
	if l == nil {
		return func() {}
	}
	server := &http.Server{
		Handler:           newMetricsHandler(from),
		ReadHeaderTimeout: metricsHeaderTimeout, WriteTimeout: metricsTimeout, IdleTimeout: metricsIdleTimeout, MaxHeaderBytes: maxMetricsHeaderBytes,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	log.Info("metrics served", "at", l.Addr())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(netutil.LimitListener(l, maxMetricsConnections)); !errors.Is(err, http.ErrServerClosed) {
			log.Warn("metrics stopped", "error", err)
		}
	}()
	return func() {
		_ = server.Close()
		<-ended
	}
}

// newMetricsHandler returns a handler of /metrics and /healthz. Web pages cannot read them, also not
// under a name that leads to this machine.
func newMetricsHandler(from metricsSource) http.Handler {
	scrapes := make(chan struct{}, maxScrapes)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		select {
		case scrapes <- struct{}{}:
			defer func() { <-scrapes }()
		default:
			http.Error(w, fmt.Sprintf("%d other requests are being answered", maxScrapes), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", metrics.ContentType)
		_, _ = io.WriteString(w, from.Metrics())
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if why := from.Refusal(); why != "" {
			http.Error(w, why, http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n")
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if !isLocalRequest(r) {
			http.Error(w, "the Host or the Origin of the request is not this machine", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// isLocalRequest reports whether a request names this machine as its host, and does not come from a
// page of another origin.
func isLocalRequest(r *http.Request) bool {
	host := strings.ToLower((&url.URL{Host: r.Host}).Hostname())
	return httpauth.IsLoopback(host) && httpauth.HasOwnOrigin(r) && httpauth.HasOwnSite(r)
}
