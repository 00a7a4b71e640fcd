package daemoncmd

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/netutil"
)

// A fakeSource is a daemon with these metrics.
type fakeSource struct {
	refusal string
	collect func()
}

func (f fakeSource) Metrics() string {
	if f.collect != nil {
		f.collect()
	}
	return "metrics\n"
}

func (f fakeSource) Refusal() string { return f.refusal }

// get returns the answer of a handler to a request with these headers, pairs of a name and a value.
func get(handler http.Handler, method, target string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

func TestMetricsHandler(t *testing.T) {
	t.Parallel()

	t.Run("answers programs of this machine", func(t *testing.T) {
		t.Parallel()
		handler := newMetricsHandler(fakeSource{})
		for _, host := range []string{"127.0.0.1:9105", "localhost", "LOCALHOST:1", "[::1]:9105", "[::1]", "127.8.9.1:1"} {
			w := get(handler, "GET", "http://"+host+"/metrics")
			if w.Code != http.StatusOK || w.Body.String() != "metrics\n" || w.Header().Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" {
				t.Errorf("%s: got %d, %q, %v", host, w.Code, w.Body, w.Header())
			}
		}
		if w := get(handler, "GET", "http://localhost/healthz"); w.Code != http.StatusOK || w.Body.String() != "ok\n" {
			t.Errorf("health: got %d, %q", w.Code, w.Body)
		}
		if w := get(newMetricsHandler(fakeSource{refusal: "draining"}), "GET", "http://localhost/healthz"); w.Code != http.StatusServiceUnavailable || w.Body.String() != "draining\n" {
			t.Errorf("health: got %d, %q", w.Code, w.Body)
		}
	})

	t.Run("refuses web pages and other hosts", func(t *testing.T) {
		t.Parallel()
		handler := newMetricsHandler(fakeSource{})
		for _, c := range []struct {
			host    string
			headers []string
		}{
			{"evil.example:9105", nil}, // DNS that leads here
			{"localhost.evil.example", nil},
			{"127.0.0.1.evil.example", nil},
			{"192.168.0.7:9105", nil},
			{"127.0.0.1:9105", []string{"Origin", "http://evil.example"}},
			{"127.0.0.1:9105", []string{"Origin", "null"}},
			{"127.0.0.1:9105", []string{"Origin", "http://127.0.0.1:8000"}},
			{"127.0.0.1:9105", []string{"Sec-Fetch-Site", "cross-site"}},
			{"127.0.0.1:9105", []string{"Sec-Fetch-Site", "same-site"}},
		} {
			for _, path := range []string{"/metrics", "/healthz", "/"} {
				if w := get(handler, "GET", "http://"+c.host+path, c.headers...); w.Code != http.StatusForbidden {
					t.Errorf("%s%s %q: got %d, %q", c.host, path, c.headers, w.Code, w.Body)
				}
			}
		}
		for target, want := range map[string]int{"POST /metrics": http.StatusMethodNotAllowed, "GET /": http.StatusNotFound, "GET /debug/pprof/": http.StatusNotFound, "GET /metrics/": http.StatusNotFound} {
			method, path, _ := strings.Cut(target, " ")
			if w := get(handler, method, "http://localhost"+path); w.Code != want {
				t.Errorf("%s: got %d", target, w.Code)
			}
		}
	})

	t.Run("collects metrics for a bounded number of requests", func(t *testing.T) {
		t.Parallel()
		started, release := make(chan struct{}, maxScrapes), make(chan struct{})
		handler := newMetricsHandler(fakeSource{collect: func() { started <- struct{}{}; <-release }})
		var wg sync.WaitGroup
		for range maxScrapes {
			wg.Go(func() {
				if w := get(handler, "GET", "http://localhost/metrics"); w.Code != http.StatusOK {
					t.Errorf("got %d", w.Code)
				}
			})
		}
		for range maxScrapes {
			<-started
		}
		if w := get(handler, "GET", "http://localhost/metrics"); w.Code != http.StatusServiceUnavailable {
			t.Errorf("got %d, %q", w.Code, w.Body)
		}
		close(release)
		wg.Wait()
	})
}

func TestServeMetrics(t *testing.T) {
	t.Parallel()

	t.Run("serves until its end, with a bounded number of connections", func(t *testing.T) {
		t.Parallel()
		l, err := (&metricsFlags{address: "127.0.0.1:0"}).listen(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		end := serveMetrics(l, fakeSource{}, slog.New(slog.DiscardHandler))
		url := "http://" + l.Addr().String() + "/metrics"
		get := func() string {
			r, err := http.Get(url)
			if err != nil {
				return err.Error()
			}
			defer r.Body.Close()
			text, _ := io.ReadAll(r.Body)
			return string(text)
		}
		if text := get(); text != "metrics\n" {
			t.Errorf("got %q", text)
		}
		http.DefaultClient.CloseIdleConnections()
		var open []net.Conn
		for range maxMetricsConnections {
			conn, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, conn)
		}
		answer := make(chan string, 1)
		go func() { answer <- get() }()
		// The last request is answered only after a connection has ended.
		for _, conn := range open[:2] { // the first ones may not have been accepted last
			_ = conn.Close()
		}
		if text := <-answer; text != "metrics\n" {
			t.Errorf("got %q", text)
		}
		end()
		if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
			t.Error("it still listens")
		}
		for _, conn := range open {
			_ = conn.Close()
		}
	})

	t.Run("ends while it waits for room", func(t *testing.T) {
		t.Parallel()
		l, err := (&metricsFlags{address: "127.0.0.1:0"}).listen(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		limited := netutil.LimitListener(l, 1)
		accept := func() net.Conn {
			conn, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			accepted, err := limited.Accept()
			if err != nil {
				t.Fatal(err)
			}
			return accepted
		}
		_ = accept().Close()
		second := accept() // there is room again
		ended := make(chan error, 1)
		go func() {
			_, err := limited.Accept()
			ended <- err
		}()
		_ = limited.Close()
		if err := <-ended; err == nil {
			t.Error("accepted a third connection")
		}
		_ = second.Close()
	})

	t.Run("refuses addresses of other machines", func(t *testing.T) {
		t.Parallel()
		for address, want := range map[string]string{
			"0.0.0.0:9105":       "would show the sessions of this daemon to others on the network",
			":9105":              "to others on the network",
			"[::]:9105":          "to others on the network",
			"192.168.0.7:9105":   "to others on the network",
			"example.org:9105":   "to others on the network",
			"9105":               "needs an address and a port",
			"127.0.0.1":          "needs an address and a port",
			"127.0.0.1.nip:9105": "to others on the network",
		} {
			if err := (&metricsFlags{address: address}).validateAddress(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v", address, err)
			}
		}
		for _, address := range []string{"", "127.0.0.1:9105", "[::1]:0", "localhost:9105"} {
			if err := (&metricsFlags{address: address}).validateAddress(); err != nil {
				t.Errorf("%s: got %v", address, err)
			}
		}
	})
}
