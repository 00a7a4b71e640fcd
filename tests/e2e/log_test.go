//go:build unix

package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestLog(t *testing.T) {
	t.Parallel()

	// At debug the log has every call, frame and control command. It never has code, output,
	// answers, environment values or tokens.
	t.Run("has every frame and no secret", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		log := filepath.Join(t.TempDir(), "log")
		secrets := []string{"typed-s3cret", "env-s3cret", "codew0rd", "outputw0rd", "filew0rd"}
		envFile := filepath.Join(h.dir, "env")
		if err := os.WriteFile(envFile, []byte("FROMFILE="+secrets[4]+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		h.env = slices.Insert(h.env, len(h.env)-1, "TURNSTONE_LOG="+log, "TURNSTONE_LOG_LEVEL=debug", "API_KEY="+secrets[1])
		h.startDaemon(t)
		a := h.newMCPClient(t, "--daemon", "--name", "bot", "--sandbox", "full") // a sandbox hides the key
		a.callRepl("import getpass, os; p = getpass.getpass('pw: ')  # codew0rd")
		wantResult(t, h.runRepl(t, secrets[0]+"\n", "input", "bot"), result{"\n", "", 0})
		a.callTool("repl_output", map[string]any{"wait_ms": 30_000})
		if got := a.callRepl("print('output' + 'w0rd', len(p), os.environ['API_KEY'])"); !strings.Contains(got, "outputw0rd 12 env-s3cret") {
			t.Fatalf("got %q", got)
		}
		wantResult(t, h.runRepl(t, "", "exec", "bot", "-e", "input('codew0rd? ')"), result{"codew0rd? ", "repl: waiting for input: \"codew0rd? \" (answer with repl input bot)\n", 5})
		wantResult(t, h.runRepl(t, "", "interrupt", "bot"), result{"", "", 0})
		h.runRepl(t, "", "reset", "bot")
		h.runRepl(t, "", "close", "bot")
		if r := h.runRepl(t, "", "--env-file", envFile, "-e", "import os; print(os.environ['FROMFILE'])"); r.stdout != secrets[4]+"\n" {
			t.Fatalf("got %v", r)
		}
		s := newHTTPServer(t, h)
		secrets = append(secrets, s.token)
		message, header := s.replCall(t, "2025-06-18", "print('output' + 'w0rd')")
		if _, body, err := s.post(message, header); err != nil || !strings.Contains(body, "outputw0rd") {
			t.Fatalf("got %q, %v", body, err)
		}
		s.token = "another-t0ken"
		secrets = append(secrets, s.token)
		if _, _, err := s.post(message, header); err != nil {
			t.Fatal(err)
		}

		b, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		for _, what := range []string{
			"frame=turn_start from=supervisor", "frame=turn_input from=supervisor", "frame=idle from=worker", "frame=interrupt from=supervisor",
			"command=start", "command=signal", "command=kill", "event=started",
			`msg="worker starting"`, `msg="worker exited" `, `msg="interrupt requested"`, `msg="session closed"`, "why=reset", `msg="request refused"`, "status=401",
			`msg="connected to daemon"`, "method=turn/start", `msg="line received" pid=`, "method=tools/call id=", "msg=request", `msg="daemon started"`, "client=client-",
		} {
			if !strings.Contains(text, what) {
				t.Errorf("the log has no %s", what)
			}
		}
		for _, secret := range secrets {
			for line := range strings.Lines(text) {
				if strings.Contains(line, secret) {
					t.Errorf("the log has %q: %s", secret, line)
				}
			}
		}
		if t.Failed() {
			t.Logf("%.20000s", text)
		}
	})

	// A daemon writes its own log, whatever its standard error is.
	t.Run("a daemon writes one", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		daemon := h.startDaemon(t)
		h.runRepl(t, "", "exec", "one", "-e", "import os; os.kill(os.getpid(), 9)")
		_ = stopProgram(daemon)
		_ = daemon.Wait() // the reply may arrive before the line is written
		text, err := os.ReadFile(filepath.Join(h.envValue("XDG_STATE_HOME"), "turnstone", "serve.log"))
		if err != nil {
			t.Fatal(err)
		}
		for _, what := range []string{`msg="daemon started"`, `level=WARN msg="worker exited"`, "session=one", "signal=SIGKILL", `msg="daemon stopping"`} {
			if !strings.Contains(string(text), what) {
				t.Errorf("no %s: %s", what, text)
			}
		}
	})

	// While a user works at the terminal, a log goes to a file or nowhere.
	t.Run("the output of a program has no log lines", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		wantResult(t, h.runRepl(t, "", "-e", "print(1)"), result{"1\n", "", 0})
		if r := h.runRepl(t, "", "--log-level", "info", "-e", "print(1)"); r.stdout != "1\n" || !strings.Contains(r.stderr, `msg="worker starting"`) || r.status != 0 {
			t.Errorf("got %v", r)
		}
		if r := h.runRepl(t, "", "--log-level", "loud", "-e", "print(1)"); r.status != 2 || !strings.Contains(r.stderr, "use debug, info, warn or error") {
			t.Errorf("got %v", r)
		}
	})

	// Over HTTP each message is logged like a line, in both directions and in every era.
	t.Run("has every message over HTTP", func(t *testing.T) {
		t.Parallel()
		for _, version := range []string{"2025-06-18", "2026-07-28"} {
			t.Run(version, func(t *testing.T) {
				t.Parallel()
				h := newHome(t)
				log := filepath.Join(t.TempDir(), "log")
				h.env = append(h.env, "TURNSTONE_LOG="+log, "TURNSTONE_LOG_LEVEL=debug")
				s := newHTTPServer(t, h)
				message, header := s.replCall(t, version, "print('codew' + '0rd')")
				if _, body, err := s.post(message, header); err != nil || !strings.Contains(body, "codew0rd") {
					t.Fatalf("got %q, %v", body, err)
				}
				if err := stopProgram(s.cmd); err != nil {
					t.Fatal(err)
				}
				_ = s.cmd.Wait()
				text, err := os.ReadFile(log)
				if err != nil {
					t.Fatal(err)
				}
				var received, sent int
				for line := range strings.Lines(string(text)) {
					if strings.Contains(line, `msg="line received"`) && strings.Contains(line, "method=tools/call id=1 ") {
						received++
					}
					if strings.Contains(line, `msg="line sent"`) && strings.Contains(line, `method="" id=1 `) {
						sent++
					}
				}
				if received != 1 || sent != 1 || strings.Contains(string(text), "codew0rd") {
					t.Errorf("%d received, %d sent:\n%.5000s", received, sent, text)
				}
			})
		}
	})
}
