package e2e

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/promtext"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
)

// metricsAddress matches the address that repl serve prints.
var metricsAddress = regexp.MustCompile(`metrics are at (http://\S+)/metrics`)

// startMetricsDaemon runs a daemon that serves its metrics, and returns the address.
func startMetricsDaemon(t *testing.T, h home) string {
	t.Helper()
	cmd := withOwnConsole(h.commandWithin(t.Context(), "serve", "--metrics", "127.0.0.1:0"))
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stopProgram(cmd)
		_ = cmd.Wait()
	})
	text := readUntil(t, errs, "serving at ")
	go func() { _, _ = io.Copy(io.Discard, errs) }()
	found := metricsAddress.FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("no address in %q", text)
	}
	return found[1]
}

// fetch returns the status and the body of an answer.
func fetch(t *testing.T, url string) (status int, text string) {
	t.Helper()
	r, err := http.Get(url) //nolint:gosec,noctx // a server of this test
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(body)
}

func TestMetrics(t *testing.T) {
	t.Parallel()

	t.Run("are printed and served", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		address := startMetricsDaemon(t, h)
		wantResult(t, h.runRepl(t, "", "exec", "main", "-e", "print('hello')"), result{"hello\n", newSessionNotice("main"), 0})
		if r := h.runRepl(t, "", "exec", "main", "-e", "1/0"); r.status != 1 {
			t.Errorf("got %v", r)
		}
		printed := h.runRepl(t, "", "daemon", "metrics")
		if printed.status != 0 || printed.stderr != "" {
			t.Fatalf("got %v", printed)
		}
		status, served := fetch(t, address+"/metrics")
		if status != http.StatusOK {
			t.Fatalf("got %d, %q", status, served)
		}
		for name, text := range map[string]string{"printed": printed.stdout, "served": served} {
			families, err := promtext.Parse(text)
			if err != nil {
				t.Fatalf("%s: %v in:\n%s", name, err, text)
			}
			for _, outcome := range []string{"ok", "error"} {
				if n, ok := families["turnstone_turns_total"].Value("language", "python", "outcome", outcome); !ok || n != 1 {
					t.Errorf("%s: %v turns ended with %s (%v)", name, n, outcome, ok)
				}
			}
			if n, ok := families["turnstone_sessions"].Value("language", "python", "state", "idle"); !ok || n != 1 {
				t.Errorf("%s: %v sessions are idle (%v)", name, n, ok)
			}
			if n, ok := families["turnstone_session_memory_bytes"].Value("language", "python"); !ok || n < 1<<20 {
				t.Errorf("%s: the sessions use %v bytes (%v)", name, n, ok)
			}
		}
	})

	t.Run("are read by the client library of Prometheus", func(t *testing.T) {
		t.Parallel()
		if !hasPackages {
			t.Skip("the Python in Wine has no prometheus_client")
		}
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Skip("there is no cache directory")
		}
		python := filepath.Join(cache, "turnstone", "jupyterlab", "bin", "python")
		if exec.Command(python, "-c", "import prometheus_client").Run() != nil {
			t.Skip("prometheus_client, which JupyterLab needs, is not installed: scripts/setup-dev installs it")
		}
		h := newDaemonHome(t)
		h.startDaemon(t)
		wantResult(t, h.runRepl(t, "", "exec", "main", "-e", "print('hello')"), result{"hello\n", newSessionNotice("main"), 0})
		r := h.runRepl(t, "", "daemon", "metrics")
		cmd := exec.Command(python, "-c", `
import sys
from prometheus_client.parser import text_string_to_metric_families
for family in text_string_to_metric_families(sys.stdin.read()):
    print(family.name, family.type, len(family.samples))
`)
		cmd.Stdin = strings.NewReader(r.stdout)
		got, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, got)
		}
		for _, want := range []string{
			"turnstone_sessions gauge 7\n", "turnstone_turns counter 4\n", "turnstone_turn_duration_seconds histogram 13\n", "turnstone_worker_exits counter 6\n",
		} {
			if !strings.Contains(string(got), want) {
				t.Errorf("no %q in:\n%s", want, got)
			}
		}
	})

	t.Run("are not served to other machines", func(t *testing.T) {
		t.Parallel()
		r := newDaemonHome(t).runRepl(t, "", "serve", "--metrics", "0.0.0.0:9105")
		if r.status != 2 || !strings.Contains(r.stderr, "would show the sessions of this daemon to others on the network; use 127.0.0.1") {
			t.Errorf("got %v", r)
		}
	})
}

func TestHealth(t *testing.T) {
	t.Parallel()
	h := newDaemonHome(t)
	if r := h.runRepl(t, "", "daemon", "health"); r.status != 3 || r.stdout != "" {
		t.Errorf("without a daemon: got %v", r)
	}
	address := startMetricsDaemon(t, h)
	check := func(status int, text string, code int) {
		t.Helper()
		wait.Until(t, "the daemon is "+text, func() bool { got, _ := fetch(t, address+"/healthz"); return got == code }) // control commands are queued
		wantResult(t, h.runRepl(t, "", "daemon", "health"), result{text, "", status})
		if got, body := fetch(t, address+"/healthz"); got != code || body != text {
			t.Errorf("over HTTP: got %d, %q", got, body)
		}
	}
	check(0, "ok\n", http.StatusOK)
	wantResult(t, h.runRepl(t, "", "daemon", "pause"), result{"", "", 0})
	check(1, "paused\n", http.StatusServiceUnavailable)
	wantResult(t, h.runRepl(t, "", "daemon", "resume"), result{"", "", 0})
	check(0, "ok\n", http.StatusOK)
}
