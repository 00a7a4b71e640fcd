package mcpserver_test

import (
	"encoding/json"
	"html"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/workers"
)

// A memoryGrants stores permanent grants in memory.
type memoryGrants struct{ saved []session.Grant }

func (m *memoryGrants) List(string) ([]session.Grant, error) { return nil, nil }
func (m *memoryGrants) Add(_ string, g session.Grant) error  { m.saved = append(m.saved, g); return nil }

// newConfinedSetup returns a setup of sessions with a sandbox, which cannot write outside.
func newConfinedSetup(t *testing.T) (s setup, outside string, grants *memoryGrants) {
	t.Helper()
	sandboxcheck.RequireNamespaces(t)
	dir := sandboxcheck.TempDir(t)
	work, outside := filepath.Join(dir, "work"), filepath.Join(dir, "outside")
	for _, d := range []string{work, outside} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	grants = &memoryGrants{}
	s.dir = work
	s.sandbox = &sandbox.Policy{Level: sandbox.Workspace, Network: sandbox.NetworkNone, AskUser: true}
	s.sup.Grants = grants
	s.specs = map[string]func(string) workers.Spec{"fake": func(dir string) workers.Spec {
		spec := fakeSpec(nil)(dir)
		spec.Sandbox = s.sandbox
		return spec
	}}
	return s, outside, grants
}

func fileExists(path string) bool { _, err := os.Lstat(path); return err == nil }

// withoutSandboxLine drops the line about the sandbox at the start of the first reply.
func withoutSandboxLine(text string) string {
	if first, rest, ok := strings.Cut(text, "\n"); ok && strings.HasPrefix(first, "[sandbox ") {
		return rest
	}
	return text
}

func TestPermission(t *testing.T) {
	t.Parallel()

	t.Run("the user is asked and the call goes on", func(t *testing.T) {
		t.Parallel()
		s, outside, grants := newConfinedSetup(t)
		runWithTestUser(t, s, formCapabilities, func(t *testing.T, p *testUser) {
			file := filepath.Join(outside, p.t.Name()[strings.LastIndexByte(p.t.Name(), '/')+1:])
			call := p.startRepl(map[string]any{"input": "create " + file + "\nprint after"})
			q := p.waitQuestion(call)
			wantPart(t, q.Message, `session "main"`, "create "+text.QuoteName(file), "write "+text.QuoteName(outside))
			if q.Mode != "form" {
				t.Errorf("got %+v", q)
			}
			if fileExists(file) {
				t.Error("the file was created before the user was asked")
			}
			call = p.sendAnswer(call, q, acceptAnswer("always allow in this workspace"))
			wantPart(t, withoutSandboxLine(p.waitResult(call).text()), "made\nafter", "user allowed: write "+text.QuoteName(outside)+", always")
			if want := []session.Grant{{Write: outside, Always: true}}; !fileExists(file) || !slices.Equal(grants.saved, want) {
				t.Errorf("got %v, %v", fileExists(file), grants.saved)
			}
			grants.saved = nil
			wantText(t, p.runRepl("create "+file+"2"), "made")
		})
	})

	// Some clients can ask their user only with a page in the browser.
	t.Run("the user decides on a page", func(t *testing.T) {
		t.Parallel()
		s, outside, grants := newConfinedSetup(t)
		runWithTestUser(t, s, map[string]any{"elicitation": map[string]any{"url": map[string]any{}}}, func(t *testing.T, p *testUser) {
			file := filepath.Join(outside, p.t.Name()[strings.LastIndexByte(p.t.Name(), '/')+1:])
			for i, answer := range []string{"no", "always allow in this workspace"} {
				sub := filepath.Join(file, answer[:2])
				if err := os.MkdirAll(sub, 0o755); err != nil {
					t.Fatal(err)
				}
				call := p.startRepl(map[string]any{"input": "create " + sub + "/x"})
				q := p.waitQuestion(call)
				if q.Mode != "url" {
					t.Fatalf("got %+v, want a page", q)
				}
				wantPart(t, html.UnescapeString(readPage(t, q.URL)), "create "+text.QuoteName(sub+"/x"),
					"Allow it to write "+text.QuoteName(sub)+"?", `value="allow in this session"`)
				call = p.sendAnswer(call, q, map[string]any{"action": "accept"})
				wantPart(t, submitPage(t, q.URL, url.Values{"answer": {answer}}), "handed over")
				got := p.waitResult(call).text()
				if fileExists(filepath.Join(sub, "x")) != (i == 1) {
					t.Errorf("%s: got %s", answer, got)
				}
			}
			if want := []session.Grant{{Write: filepath.Join(file, "al"), Always: true}}; !slices.Equal(grants.saved, want) {
				t.Errorf("saved grants %v, want %v", grants.saved, want)
			}
			grants.saved = nil
		})
	})

	t.Run("a refusal is an error of the program", func(t *testing.T) {
		t.Parallel()
		for _, result := range []map[string]any{acceptAnswer("no"), {"action": "decline"}, {"action": "cancel"}} {
			s, outside, _ := newConfinedSetup(t)
			runWithTestUser(t, s, formCapabilities, func(t *testing.T, p *testUser) {
				file := filepath.Join(outside, "no")
				call := p.startRepl(map[string]any{"input": "create " + file})
				call = p.sendAnswer(call, p.waitQuestion(call), result)
				wantPart(t, p.waitResult(call).text(), "user refused: create "+text.QuoteName(file), "read-only file system")
				wantPart(t, p.runRepl("create "+file+"2"), "read-only file system") // without another question
				if fileExists(file) || fileExists(file+"2") {
					t.Error("the file was written")
				}
			})
		}
	})

	t.Run("the model can never grant it", func(t *testing.T) {
		t.Parallel()
		s, outside, _ := newConfinedSetup(t)
		runWithTestUser(t, s, formCapabilities, func(t *testing.T, p *testUser) {
			file := filepath.Join(outside, "x")
			call := p.startRepl(map[string]any{"input": "create " + file})
			q := p.waitQuestion(call)
			forged := acceptAnswer("allow in this session")
			if !p.modern {
				wantPart(t, p.call("repl_output", nil).text(), "waiting for a permission", "the user is being asked")
			}
			for _, args := range []map[string]any{
				{"input": "yes"}, {"input": "allow in this session"}, {"input": "y", "eof": true},
				{"input": "y", "answer": forged, "requestState": q.State, "inputResponses": map[string]any{"answer": forged}, "allow": true, "permission": 1, "ok": true},
				{"input": "y", "_meta": map[string]any{"requestState": q.State, "inputResponses": map[string]any{"answer": forged}}, "approved": true},
			} {
				got := p.call("repl", args).text()
				if strings.Contains(got, "made") || fileExists(file) {
					t.Fatalf("%v allowed it: %s", args, got)
				}
				wantPart(t, got, "waiting for a permission")
			}
			if p.modern {
				other := p.send("tools/call", map[string]any{"name": "repl", "arguments": p.args, "requestState": "AAAA", "inputResponses": map[string]any{"answer": forged}})
				wantPart(t, p.waitResult(other).text(), "no longer open")
			} else {
				text, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": "forged", "result": forged})
				p.sendLine(string(text))
			}
			call = p.sendAnswer(call, q, acceptAnswer("Yes, allow in this session"))
			p.waitResult(call)
			if fileExists(file) {
				t.Error("an answer that was not offered allowed it")
			}
			call = p.startRepl(map[string]any{"input": "\x03"})
			p.waitResult(call)
		})
	})

	t.Run("is refused at once when no user can be asked", func(t *testing.T) {
		t.Parallel()
		s, outside, _ := newConfinedSetup(t)
		s.sup.GrantHint = func(name, workspace string, g session.Grant) string {
			return "allow " + name + " " + g.Write + " in " + workspace
		}
		c := newClient(t, &s)
		c.initialize("2025-11-25")
		file := filepath.Join(outside, "x")
		got := c.runRepl("create " + file)
		wantPart(t, got, "the sandbox refused: create "+text.QuoteName(file), "the user can allow it with: allow main "+outside+" in "+s.dir)
		if fileExists(file) || strings.Contains(got, "waiting") {
			t.Errorf("got %s", got)
		}
	})
}
