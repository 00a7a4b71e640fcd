package mcptools_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/sandbox"
)

func TestDefaultSandbox(t *testing.T) {
	t.Parallel()
	sandboxcheck.RequireNamespaces(t)

	t.Run("lets code write its directory only", func(t *testing.T) {
		t.Parallel()
		dir := sandboxcheck.TempDir(t)
		work, outside := filepath.Join(dir, "work"), filepath.Join(dir, "outside")
		for _, d := range []string{work, outside} {
			if err := os.Mkdir(d, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		o := newOptions()
		o.Sandbox, o.Dir = nil, work
		server, _ := newHost(t, o)
		c := connect(t, server, nil)
		wantPart(t, c.run("create "+filepath.Join(work, "a")), "[sandbox workspace", "made")
		c.run("create " + filepath.Join(outside, "a"))
		if _, err := os.Lstat(filepath.Join(work, "a")); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(filepath.Join(outside, "a")); err == nil {
			t.Error("code has written outside of its directory")
		}
		o.Sandbox, o.Prefix = &sandbox.Policy{Level: sandbox.Full}, "free_"
		withTools(t, server, newSupervisor(t), o)
		wantPart(t, textOf(c.call("free_repl", map[string]any{"input": "create " + filepath.Join(outside, "a")})), "made")
	})

	t.Run("asks no user for more", func(t *testing.T) {
		t.Parallel()
		o := newOptions()
		o.Sandbox, o.Dir = nil, sandboxcheck.TempDir(t)
		server, _ := newHost(t, o)
		asked := false
		c := connect(t, server, answering("accept", "allow in this session", &asked))
		c.run("create " + filepath.Join(sandboxcheck.TempDir(t), "a"))
		if asked {
			t.Error("the user was asked")
		}
	})

	t.Run("asks the user for more if the options say so", func(t *testing.T) {
		t.Parallel()
		o := newOptions()
		o.Sandbox, o.Dir = &sandbox.Policy{Level: sandbox.Workspace, Network: sandbox.NetworkNone, AskUser: true}, sandboxcheck.TempDir(t)
		server, _ := newHost(t, o)
		asked := false
		c := connect(t, server, answering("accept", "allow in this session", &asked))
		wantPart(t, c.run("create "+filepath.Join(sandboxcheck.TempDir(t), "a")), "made")
		if !asked {
			t.Error("the user was not asked")
		}
	})

	t.Run("is narrowed to the one that Codex sends", func(t *testing.T) {
		t.Parallel()
		o := newOptions()
		o.Sandbox, o.Dir = nil, sandboxcheck.TempDir(t)
		server, _ := newHost(t, o)
		c := connect(t, server, nil)
		if _, declared := c.InitializeResult().Capabilities.Experimental["codex/sandbox-state-meta"]; !declared {
			t.Error("the capability is not declared")
		}
		result, err := c.CallTool(t.Context(), &mcp.CallToolParams{
			Name: "repl", Arguments: map[string]any{"input": "create " + filepath.Join(o.Dir, "a")},
			Meta: mcp.Meta{"codex/sandbox-state-meta": map[string]any{"sandboxPolicy": map[string]any{"type": "read-only"}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		wantPart(t, textOf(result), "[sandbox read-only")
		if _, err := os.Lstat(filepath.Join(o.Dir, "a")); err == nil {
			t.Error("code has written in a read-only sandbox")
		}
	})
}

// TestDefaultSandbox_Refused is not parallel, because it runs again in a process of its own.
func TestDefaultSandbox_Refused(t *testing.T) {
	if !sandboxcheck.RerunInNamespaces(t, "MCPTOOLS_WITHOUT_NAMESPACES=yes", 0, unix.CAP_SYS_RESOURCE) {
		return
	}
	most, err := os.OpenFile("/proc/sys/user/max_user_namespaces", os.O_WRONLY, 0) // the file cannot be truncated
	if err == nil {
		_, err = most.WriteString("0")
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = most.Close()
	o := newOptions()
	o.Sandbox, o.Dir = nil, t.TempDir()
	server, _ := newHost(t, o)
	result := connect(t, server, nil).call("repl", map[string]any{"input": "create " + filepath.Join(o.Dir, "a")})
	got := textOf(result)
	wantPart(t, got, "sandbox: user namespace", "sysctl user.max_user_namespaces", "choose the sandbox full", "if that fails too, tell the user]")
	if !result.IsError || strings.Contains(got, "--") {
		t.Errorf("got %q", got)
	}
	if _, err := os.Lstat(filepath.Join(o.Dir, "a")); err == nil {
		t.Error("code ran without its sandbox")
	}
}
