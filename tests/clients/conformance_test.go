//go:build linux

package clients

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// startHTTPServer starts a server over HTTP, which ends with the test.
func startHTTPServer(t *testing.T) (address *url.URL, token string) {
	t.Helper()
	p := newTestHome(t)
	tokenFile := p.writeFile(t, "private/token", "")
	if err := os.Remove(tokenFile); err != nil { // the server creates it
		t.Fatal(err)
	}
	cmd := p.newCommand(append(replCommand(), "--http", "127.0.0.1:0", "--token-file", tokenFile))
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	read := make(chan struct{}) // closed when it has ended; it logs little
	var logged []string
	t.Cleanup(func() {
		end := syscall.SIGTERM
		if t.Failed() {
			end = syscall.SIGABRT // the runtime prints all stacks
		}
		_ = cmd.Process.Signal(end)
		<-read
		_ = cmd.Wait()
		if t.Failed() {
			t.Log("the server wrote: " + strings.Join(logged, "\n"))
		}
	})
	for lines.Scan() {
		text, ok := strings.CutPrefix(lines.Text(), "repl: serving ")
		if !ok {
			continue
		}
		address, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		secret, err := os.ReadFile(tokenFile)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			defer close(read)
			for lines.Scan() {
				logged = append(logged, lines.Text())
			}
		}()
		return address, strings.TrimSpace(string(secret))
	}
	close(read)
	t.Fatal("the server does not print its address")
	return nil, ""
}

// withToken returns an address that needs no token, because the suite cannot send one. It forwards
// everything else unchanged, also a foreign host. It reads a request completely first; otherwise a
// busy machine sometimes loses one in between.
func withToken(t *testing.T, address *url.URL, token string) string {
	t.Helper()
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = address.Scheme, address.Host
			r.Out.Host = r.In.Host
			r.Out.Header.Set("Authorization", "Bearer "+token)
		},
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the suite has closed the connection
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	return front.URL + address.Path
}

// fixtureChecks maps checks of server-stateless that cannot pass here to the reason.
var fixtureChecks = map[string]string{
	"sep-2575-server-declares-prompts-in-discover":           "the SDK answers prompts/list, with nothing, also when no prompts are declared",
	"sep-2575-server-rejects-undeclared-capability":          "wants the tool test_missing_capability",
	"sep-2575-missing-capability-http-400":                   "wants the tool test_missing_capability",
	"sep-2575-http-server-no-independent-requests-on-stream": "wants the tool test_streaming_elicitation",
	"sep-2575-server-no-log-without-loglevel":                "wants the tool test_logging_tool",
}

// The official suite runs with the requirements of each revision. The lists name the tests that
// fail, because they need tools of the suite's own example server.
func TestConformance(t *testing.T) {
	for _, revision := range []string{"2026-07-28", "2025-11-25"} {
		t.Run(revision, func(t *testing.T) {
			address, token := startHTTPServer(t)
			results := t.TempDir()
			argv := nodeCommand(t, installedFile(t, "@modelcontextprotocol/conformance/dist/index.js"), "server",
				"--url", withToken(t, address, token), "--requirements", revision,
				"--expected-failures", "conformance-"+revision+".yml", "-o", results)
			cmd := newTestHome(t).newCommand(argv)
			cmd.Dir = ""
			out, err := runToEnd(t, cmd)
			_, summary, ok := strings.Cut(out, "=== SUMMARY")
			if err != nil || !ok {
				t.Errorf("%v\n%s", err, out)
			}
			t.Log(summary)
			for _, check := range failedChecks(t, filepath.Join(results, "server-server-stateless-*", "checks.json")) {
				if fixtureChecks[check.ID] == "" {
					t.Errorf("server-stateless: %s: %s", check.ID, check.ErrorMessage)
				}
			}
		})
	}
}

// A scenarioCheck is one line of a scenario's result.
type scenarioCheck struct{ ID, Status, ErrorMessage string }

// failedChecks returns the checks that failed in a scenario, if it was run.
func failedChecks(t *testing.T, pattern string) []scenarioCheck {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	var all []scenarioCheck
	for _, path := range found {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var checks []scenarioCheck
		if err := json.Unmarshal(text, &checks); err != nil {
			t.Fatal(err)
		}
		for _, c := range checks {
			if c.Status == "FAILURE" {
				all = append(all, c)
			}
		}
	}
	return all
}
