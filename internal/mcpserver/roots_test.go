package mcpserver_test

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A server that was started in the home directory or above works in the project of its client.
func TestRoots(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	project, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	offers := map[string]any{"roots": map[string]any{"listChanged": true}}
	began := func(t *testing.T, home string, caps map[string]any) *client {
		t.Helper()
		t.Setenv("HOME", home)
		c := newClient(t, nil)
		c.caps = caps
		c.initialize("2025-06-18")
		return c
	}
	// named answers the server's request number n for roots.
	named := func(c *client, n int, result string) {
		c.t.Helper()
		seen := make(map[string]bool)
		a := c.waitMessage("a request for roots", func(a answer) bool {
			if a.Method == "roots/list" {
				seen[string(a.ID)] = true
			}
			return len(seen) == n
		})
		c.sendLine(`{"jsonrpc":"2.0","id":` + string(a.ID) + `,` + result + `}`)
	}
	rootsAt := func(dirs ...string) string {
		var list []map[string]any
		for _, dir := range dirs {
			list = append(list, map[string]any{"uri": (&url.URL{Scheme: "file", Path: dir}).String()})
		}
		text, _ := json.Marshal(map[string]any{"roots": list})
		return `"result":` + string(text)
	}
	unasked := func(t *testing.T, c *client) {
		t.Helper()
		wantPart(t, c.runRepl("sh pwd"), here)
		for _, a := range c.allMessages() {
			if a.Method == "roots/list" {
				t.Errorf("roots were asked for: %s", a.Line)
			}
		}
	}

	t.Run("are the directories of sessions", func(t *testing.T) {
		for _, home := range []string{here, filepath.Join(here, "below")} {
			c := began(t, home, offers)
			call := c.startCall("repl", map[string]any{"input": "sh pwd"})
			named(c, 1, rootsAt(filepath.Join(project, "gone"), project, here))
			got := c.waitResult(call).text()
			wantPart(t, got, project+"\n", "it works in "+project)
			wantText(t, c.runRepl("sh pwd"), project) // the client is asked once
			c.sendLine(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
			call = c.startCall("repl", map[string]any{"input": "sh pwd", "session": "second"})
			named(c, 2, rootsAt(filepath.Dir(project)))
			wantPart(t, c.waitResult(call).text(), filepath.Dir(project)+"\n")
			wantText(t, c.runRepl("sh pwd"), project)
		}
	})

	t.Run("may be named without escapes, and as paths", func(t *testing.T) {
		for _, name := range []string{"my project", "100% done", "c#", "50%20"} {
			dir := filepath.Join(project, name)
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			for _, uri := range []string{"file://" + dir, "file://LOCALHOST" + (&url.URL{Path: dir}).EscapedPath(), dir} {
				c := began(t, here, offers)
				call := c.startCall("repl", map[string]any{"input": "sh pwd"})
				text, _ := json.Marshal(uri)
				named(c, 1, `"result":{"roots":[{"uri":`+string(text)+`}]}`)
				if got := c.waitResult(call).text(); !strings.Contains(got, dir+"\n") {
					t.Errorf("%s: got %q", uri, got)
				}
			}
		}
	})

	t.Run("are not asked for in a project", func(t *testing.T) {
		unasked(t, began(t, filepath.Join(filepath.Dir(here), "elsewhere"), offers))
	})

	t.Run("are not asked for if the client offers none", func(t *testing.T) {
		unasked(t, began(t, here, nil))
	})

	t.Run("that cannot be listed change no directory", func(t *testing.T) {
		for _, answer := range []string{`"error":{"code":-32603,"message":"no"}`, rootsAt(), rootsAt(filepath.Join(project, "gone")), ""} {
			c := began(t, here, offers)
			call := c.startCall("repl", map[string]any{"input": "sh pwd"})
			if answer != "" { // otherwise the client does not answer
				named(c, 1, answer)
			}
			if got := c.waitResult(call).text(); !strings.Contains(got, here) {
				t.Errorf("%s: got %q", answer, got)
			}
		}
	})
}
