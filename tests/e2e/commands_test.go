//go:build unix

package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
)

// exchangeMessage sends a message to the MCP server and returns the answer.
func exchangeMessage(t *testing.T, in io.Writer, out *bufio.Scanner, message string) (answer struct {
	Result struct {
		Content []struct{ Text string }
	}
}) {
	t.Helper()
	if _, err := io.WriteString(in, message+"\n"); err != nil {
		t.Fatal(err)
	}
	if !out.Scan() {
		t.Fatalf("no answer to %s: %v", message, out.Err())
	}
	if err := json.Unmarshal(out.Bytes(), &answer); err != nil {
		t.Fatalf("%q: %v", out.Text(), err)
	}
	return answer
}

func TestMCPLifetime(t *testing.T) {
	t.Parallel()

	t.Run("keeps its session until its client leaves", func(t *testing.T) {
		t.Parallel()
		tests := []struct {
			name   string
			leave  func(io.Closer, *os.Process) error
			status int
		}{
			{"by the end of its input", func(in io.Closer, _ *os.Process) error { return in.Close() }, 0},
			{"by a signal", func(_ io.Closer, p *os.Process) error { return p.Signal(syscall.SIGTERM) }, 143},
		}
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				h := newHome(t)
				cmd := h.mcpCommand(t)
				cmd.Stderr = os.Stderr
				in, err := cmd.StdinPipe()
				if err != nil {
					t.Fatal(err)
				}
				stdout, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				out := bufio.NewScanner(stdout)
				exchangeMessage(t, in, out, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`)
				if _, err := io.WriteString(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"); err != nil {
					t.Fatal(err)
				}
				exchangeMessage(t, in, out, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"repl","arguments":{"input":"x = 41"}}}`)
				answer := exchangeMessage(t, in, out, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"repl","arguments":{"input":"x + 1"}}}`)
				if c := answer.Result.Content; len(c) != 1 || c[0].Text != "42" {
					t.Errorf("got %+v, want 42", c)
				}
				if err := test.leave(in, cmd.Process); err != nil {
					t.Fatal(err)
				}
				_ = cmd.Wait()
				if got := exitStatusOf(t, cmd); got != test.status {
					t.Errorf("got status %d, want %d", got, test.status)
				}
				h.wantNothingLeft(t)
			})
		}
	})

	t.Run("ends even if its client does not read", func(t *testing.T) {
		t.Parallel()
		for _, test := range []struct {
			name   string
			leave  func(io.Closer, *os.Process) error
			status int
		}{
			{"by the end of its input", func(in io.Closer, _ *os.Process) error { return in.Close() }, 0},
			{"by a signal", func(_ io.Closer, p *os.Process) error { return p.Signal(syscall.SIGTERM) }, 143},
		} {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				h := newHome(t)
				cmd, in, worker := newStuckMCP(t, h)
				if err := test.leave(in, cmd.Process); err != nil {
					t.Fatal(err)
				}
				waitGone(t, worker)
				_ = cmd.Wait()
				if got := exitStatusOf(t, cmd); got != test.status {
					t.Errorf("got status %d, want %d", got, test.status)
				}
				h.wantNothingLeft(t)
			})
		}
	})

	t.Run("a second signal has its default action", func(t *testing.T) {
		t.Parallel()
		cmd, _, worker := newStuckMCP(t, newHome(t))
		ended := make(chan struct{})
		go func() {
			_ = cmd.Wait()
			close(ended)
		}()
		wait.Until(t, "it ends", func() bool { // after an answer it would continue for half a second
			_ = cmd.Process.Signal(syscall.SIGTERM)
			select {
			case <-ended:
				return true
			default:
				return false
			}
		})
		if w, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !w.Signaled() {
			t.Errorf("got %v, want it ended by the signal itself", cmd.ProcessState)
		}
		waitGone(t, worker)
	})
}

// newStuckMCP starts an MCP server whose client does not read: an answer is stuck in its standard
// output. worker is the process of its session.
func newStuckMCP(t *testing.T, h home) (cmd *exec.Cmd, in io.Closer, worker int) {
	t.Helper()
	unread, stdout, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unread.Close() })
	raw, err := stdout.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var full error
	if err := raw.Write(func(fd uintptr) bool {
		for full == nil {
			_, full = syscall.Write(int(fd), make([]byte, 4096))
		}
		return true
	}); err != nil || !errors.Is(full, syscall.EAGAIN) {
		t.Fatalf("got %v and %v, want a full pipe", err, full)
	}
	cmd = h.command(t, "mcp", "--lang", "python", "--sandbox", "full") // a sandbox has its own process numbers
	cmd.Stdout, cmd.Stderr = stdout, os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = stdout.Close()
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"repl",` +
		`"arguments":{"input":"import os\nopen('new', 'w').write(str(os.getpid()))\nos.rename('new', 'pid')"},` +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	if _, err := io.WriteString(stdin, call+"\n"); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the session prints its process number", func() bool {
		text, err := os.ReadFile(filepath.Join(h.dir, "pid"))
		if err != nil {
			return false
		}
		worker, err = strconv.Atoi(string(text))
		return err == nil
	})
	return cmd, stdin, worker
}
