package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstone-repl/turnstone/internal/mcpserver"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/backend"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/workers"
)

// A listOnlyBackend has sessions on remotes that can only be listed. It records all requests.
type listOnlyBackend struct {
	remotes []string
	fails   map[string]error // of failing remotes; with nil, a remote does not answer

	mu    sync.Mutex
	asked []string // guarded by mu: names to open and remotes to list
}

func (b *listOnlyBackend) recordAsked(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, what)
}

func (b *listOnlyBackend) Remotes() []string { return b.remotes }

func (b *listOnlyBackend) Open(_ context.Context, name, lang, _ string, _ func(*sandbox.Policy) *sandbox.Policy, _ func(string)) (*backend.SessionHandle, error) {
	b.recordAsked(name)
	if lang == "" {
		return nil, session.ErrClosed
	}
	return nil, fmt.Errorf("%s in %s cannot be opened here", name, lang)
}

func (b *listOnlyBackend) Sessions(ctx context.Context, remote string) ([]session.Info, error) {
	b.recordAsked(remote)
	switch err, fails := b.fails[remote]; {
	case fails && err == nil:
		<-ctx.Done()
		return nil, ctx.Err()
	case fails:
		return nil, err
	}
	name := "main"
	if remote != b.remotes[0] {
		name = remote + "/main"
	}
	return []session.Info{{Name: name, Language: "fake", State: session.StateIdle, OpenedAt: time.Now()}}, nil
}

func (b *listOnlyBackend) wantAsked(t *testing.T, want ...string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	slices.Sort(b.asked)
	if slices.Sort(want); !slices.Equal(b.asked, want) {
		t.Errorf("the backend was asked for %q, want %q", b.asked, want)
	}
	b.asked = nil
}

// newToolCaller serves a client of a backend with these languages. It returns a function that
// calls a tool, or lists the tools if tool is "".
func newToolCaller(t *testing.T, h *listOnlyBackend, languages ...string) func(tool string, args map[string]any) string {
	t.Helper()
	in, ours := io.Pipe()
	theirs, out := io.Pipe()
	specs := map[string]func(string) workers.Spec{}
	for _, lang := range languages {
		specs[lang] = func(string) workers.Spec { return workers.Spec{} }
	}
	served := make(chan error, 1)
	go func() {
		served <- mcpserver.Run(context.Background(), &mcpserver.Options{Backend: h, Specs: specs, In: in, Out: out})
	}()
	lines := bufio.NewReader(theirs)
	t.Cleanup(func() {
		_ = ours.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	id := 0
	return func(tool string, args map[string]any) string {
		t.Helper()
		id++
		method := "tools/call"
		if tool == "" {
			method = "tools/list"
		}
		line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": map[string]any{
			"name": tool, "arguments": args,
			"_meta": map[string]any{"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": map[string]any{}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(ours, "%s\n", line); err != nil {
			t.Fatal(err)
		}
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				t.Fatal(err)
			}
			var m struct {
				ID     int
				Result struct{ Content []struct{ Text string } }
			}
			if json.Unmarshal(line, &m) != nil || m.ID != id {
				continue
			}
			if len(m.Result.Content) == 0 {
				return string(line)
			}
			return m.Result.Content[0].Text
		}
	}
}

func TestRemotes(t *testing.T) {
	t.Parallel()

	t.Run("one that does not answer is listed and delays no other", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			h := &listOnlyBackend{remotes: []string{"here", "gpu", "dark", "hpc"}, fails: map[string]error{"dark": nil, "hpc": errors.New("no route\nto the host")}}
			call := newToolCaller(t, h, "fake")
			start := time.Now()
			got := call("repl_sessions", nil)
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("got %v, want less", took)
			}
			lines := strings.Split(got, "\n")
			if len(lines) != 5 || !strings.HasPrefix(lines[1], "main ") || !strings.HasPrefix(lines[2], "gpu/main ") ||
				lines[3] != "[dark: context deadline exceeded]" || lines[4] != "[hpc: no route to the host]" {
				t.Errorf("got %s", got)
			}
		})
	})

	t.Run("the list fails when none answers", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			h := &listOnlyBackend{remotes: []string{"here", "gpu"}, fails: map[string]error{"here": errors.New("no daemon"), "gpu": errors.New("no route")}}
			if got := newToolCaller(t, h, "fake")("repl_sessions", nil); got != "no daemon\nno route" {
				t.Errorf("got %s", got)
			}
		})
	})

	t.Run("only the remote in the session's name is asked", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			h := &listOnlyBackend{remotes: []string{"here", "gpu", "hpc"}}
			call := newToolCaller(t, h, "a", "b")
			for name, one := range map[string]struct {
				lang, reply string
				asked       []string
			}{
				"gpu/main":  {"a", "gpu/main in a cannot", []string{"gpu/main"}},
				"here/main": {"a", "main in a cannot", []string{"main"}}, // the same session as main
				"main":      {"", `unknown session "main"; existing sessions: main;`, []string{"main", "here"}},
				"hpc/main":  {"", "hpc/main in a cannot", []string{"hpc/main"}}, // in a language with a runtime here
				"gpu/x":     {"", `unknown session "gpu/x"; existing sessions: gpu/main;`, []string{"gpu/x", "gpu"}},
				"lab/main":  {"a", `"lab" is not among the remotes that the user allows (repl mcp --remotes): gpu and hpc`, nil},
				"/main":     {"a", `"" is not among the remotes`, nil},
				"gpu/":      {"a", `session "gpu/" lacks a name after the remote: use "gpu/main"`, nil},
			} {
				if got := call("repl", map[string]any{"input": "1", "session": name, "lang": one.lang}); !strings.Contains(got, one.reply) {
					t.Errorf("%s: got %s", name, got)
				}
				h.wantAsked(t, one.asked...)
			}
			if got := call("repl_output", map[string]any{"session": "lab/main"}); !strings.Contains(got, `"lab" is not among the remotes`) {
				t.Errorf("got %s", got)
			}
			if got := call("repl", map[string]any{"input": "1", "session": "gpu/new", "lang": "b"}); !strings.HasPrefix(got, "gpu/b-") {
				t.Errorf("got %s", got)
			}
		})
	})

	t.Run("a name with a slash is rejected when none is allowed", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			h := &listOnlyBackend{remotes: []string{"gpu"}}
			call := newToolCaller(t, h, "a", "b")
			if got := call("repl", map[string]any{"input": "1", "session": "hpc/main"}); !strings.Contains(got, "the user allows no other remotes (repl mcp --remotes): use a name without a slash") {
				t.Errorf("got %s", got)
			}
			h.wantAsked(t)
		})
	})

	t.Run("the description is short", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			without := newToolCaller(t, &listOnlyBackend{remotes: []string{"here"}}, "fake")("", nil)
			with := newToolCaller(t, &listOnlyBackend{remotes: []string{"here", "gpu", "hpc"}}, "fake")("", nil)
			if !strings.Contains(with, `; \"gpu/main\" is one on a remote: gpu, hpc; default: the main one`) || len(with)-len(without) > 60 {
				t.Errorf("got %s", with)
			}
			var many []string
			for i := range 50 {
				many = append(many, fmt.Sprintf("machine%d", i))
			}
			if got := newToolCaller(t, &listOnlyBackend{remotes: append([]string{"here"}, many...)}, "fake")("", nil); !strings.Contains(got, "machine0, … (50)") {
				t.Errorf("got %s", got)
			}
		})
	})
}
