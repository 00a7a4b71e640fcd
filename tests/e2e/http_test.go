//go:build unix

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
)

// An httpServer is a running repl mcp --http, with its output as text.
type httpServer struct {
	cmd   *exec.Cmd
	url   string
	token string
}

func newHTTPServer(t *testing.T, h home, args ...string) *httpServer {
	t.Helper()
	s := &httpServer{cmd: h.mcpCommand(t, append([]string{"--http", "127.0.0.1:0"}, args...)...)}
	says, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(says)
	after := func(begin string) string {
		lines.Scan()
		rest, ok := strings.CutPrefix(lines.Text(), begin)
		if !ok {
			t.Fatalf("got %q, want %s…", lines.Text(), begin)
		}
		return rest
	}
	s.url = after("repl: serving ")
	text, err := os.ReadFile(after("repl: the token is in "))
	if err != nil {
		t.Fatal(err)
	}
	s.token = strings.TrimSpace(string(text))
	return s
}

// post sends a message and returns the response and all of its body.
func (s *httpServer) post(message string, header map[string]string) (http.Header, string, error) {
	response, err := s.send(message, header)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.Header, string(body), err
}

// send sends a message and returns the response, whose body is still to be read.
func (s *httpServer) send(message string, header map[string]string) (*http.Response, error) {
	r, err := http.NewRequest(http.MethodPost, s.url, strings.NewReader(message))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for name, value := range header {
		r.Header.Set(name, value)
	}
	return http.DefaultClient.Do(r)
}

// replCall returns the message and the header for a call of repl, in a protocol version.
func (s *httpServer) replCall(t *testing.T, version, input string) (message string, header map[string]string) {
	t.Helper()
	text, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	header = map[string]string{"MCP-Protocol-Version": version}
	meta := "{}"
	if version < "2026-07-28" {
		got, body, err := s.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+version+
			`","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`, header)
		if err != nil {
			t.Fatalf("%s, %v", body, err)
		}
		header["Mcp-Session-Id"] = got.Get("Mcp-Session-Id")
	} else {
		header["Mcp-Method"], header["Mcp-Name"] = "tools/call", "repl"
		meta = `{"io.modelcontextprotocol/protocolVersion":"` + version + `","io.modelcontextprotocol/clientCapabilities":{}}`
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"repl","arguments":{"input":%s,"session":"work"},"_meta":%s}}`, text, meta), header
}

func TestHTTP(t *testing.T) {
	t.Parallel()

	// One second after a server was asked to stop, no process of it is left, whatever its clients do.
	// The test allows one more second for a busy machine. The calls are answered.
	t.Run("leaves no process when it is stopped during a call", func(t *testing.T) {
		t.Parallel()
		for _, version := range []string{"2025-11-25", "2026-07-28"} {
			for signal, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
				t.Run(version+" "+signal.String(), func(t *testing.T) {
					t.Parallel()
					h := newHome(t)
					s := newHTTPServer(t, h, "--sandbox", "full") // a sandbox has its own process numbers
					message, header := s.replCall(t, version, `import os, subprocess, time
print("started")
child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
with open("new", "w") as f: f.write(f"{os.getpid()} {child.pid}")
os.rename("new", "pids")
time.sleep(1000)`)
					answered := make(chan string, 1)
					go func() {
						_, body, err := s.post(message, header)
						if err != nil {
							body = err.Error()
						}
						answered <- body
					}()
					var pids []int
					wait.Until(t, "the code prints its processes", func() bool {
						text, err := os.ReadFile(filepath.Join(h.dir, "pids"))
						for _, word := range strings.Fields(string(text)) {
							pid, _ := strconv.Atoi(word)
							pids = append(pids, pid)
						}
						return err == nil
					})
					if err := s.cmd.Process.Signal(signal); err != nil {
						t.Fatal(err)
					}
					for _, pid := range pids {
						waitGone(t, pid)
					}
					_ = s.cmd.Wait()
					if got := exitStatusOf(t, s.cmd); got != want {
						t.Errorf("got status %d, want %d", got, want)
					}
					if body := <-answered; !strings.Contains(body, "started") {
						t.Errorf("got %q, want the output so far", body)
					}
					h.wantNothingLeft(t)
				})
			}
		}
	})

	t.Run("the token stays the same and is required", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		var tokens []string
		for range 2 {
			s := newHTTPServer(t, h)
			tokens = append(tokens, s.token)
			message, header := s.replCall(t, "2026-07-28", "6*7")
			if _, body, err := s.post(message, header); err != nil || !answer42Pattern.MatchString(body) {
				t.Errorf("got %s, %v", body, err)
			}
			s.token = "another"
			if got, body, err := s.post(message, header); err != nil || !strings.HasPrefix(got.Get("WWW-Authenticate"), "Bearer ") {
				t.Errorf("got %s, %v", body, err)
			}
			_ = s.cmd.Process.Signal(syscall.SIGTERM)
			_ = s.cmd.Wait()
		}
		if tokens[0] != tokens[1] {
			t.Errorf("got %q, then %q", tokens[0], tokens[1])
		}
	})
}

// answer42Pattern matches a reply, after the line about the sandbox.
var answer42Pattern = regexp.MustCompile(`"text":"(\[sandbox [^"]*\]\\n)?42`)
