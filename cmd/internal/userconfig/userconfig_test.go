package userconfig_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/turnstone-repl/turnstone/cmd/internal/userconfig"
	"github.com/turnstone-repl/turnstone/session"
)

func writeSandboxFile(t *testing.T, text string) userconfig.SandboxFile {
	t.Helper()
	path := filepath.Join(t.TempDir(), "turnstone", "sandbox.toml")
	if text != "" {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return userconfig.SandboxFile(path)
}

// absPath returns an absolute path on this system.
func absPath(name string) string {
	root, err := filepath.Abs(string(filepath.Separator))
	if err != nil {
		panic(err)
	}
	return root + name
}

func TestSandboxFile(t *testing.T) {
	t.Run("stores a grant for its workspace only", func(t *testing.T) {
		f := writeSandboxFile(t, "")
		if all, err := f.List(absPath("work")); err != nil || len(all) > 0 {
			t.Fatalf("got %v, %v", all, err)
		}
		special := absPath(`wo"rk ]\tü#.x`)
		want := []session.Grant{{Write: absPath("a b"), Always: true}, {Write: absPath(`q"]`), Always: true}, {Host: "*.example.org:443", Always: true}}
		want = slices.Insert(want, 2, session.Grant{Write: absPath("bin"), Accept: absPath("bin"), Always: true})
		want = slices.Insert(want, 3, session.Grant{Read: absPath(".data"), Always: true})
		for _, g := range append(want, want[0]) {
			if err := f.Add(special, g); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Add(absPath("other"), session.Grant{Write: absPath("c")}); err != nil {
			t.Fatal(err)
		}
		if got, err := f.List(special); err != nil || !slices.Equal(got, want) {
			t.Errorf("got %v, %v; want %v", got, err, want)
		}
	})

	t.Run("keeps the user's text", func(t *testing.T) {
		before := "# mine\nsandbox = \"workspace\" # always\nask-permission = \"no\"\nallow-host = [\"a.org\"]\n"
		f := writeSandboxFile(t, before)
		if err := f.Add(absPath("work"), session.Grant{Write: absPath("a")}); err != nil {
			t.Fatal(err)
		}
		after, err := os.ReadFile(string(f))
		if err != nil || !strings.HasPrefix(string(after), before) {
			t.Errorf("got %s, %v", after, err)
		}
		if s, err := f.Read(); err != nil || s.Sandbox != "workspace" || s.Ask != "no" || !slices.Equal(s.AllowHost, []string{"a.org"}) || !slices.Equal(s.Workspace[absPath("work")].Writable, []string{absPath("a")}) {
			t.Errorf("got %+v, %v", s, err)
		}
	})

	t.Run("names the line of an error", func(t *testing.T) {
		for text, want := range map[string]string{
			"sandbox = \"workspace\"\nwriteable = []\n":             `line 2: unknown setting "writeable"`,
			"\n\nsandbox = workspace\n":                             "line 3: ",
			"allow-write = \"/data\"\n":                             "line 1: ",
			"ask-permission = \"no\"\n\nallow-write = [\"data\"]\n": `line 3: "data" is not an absolute path`,
			"[workspace.\"work\"]\nallow-write = []\n":              `line 1: "work" is not an absolute path`,
			"home-access = \"tools\"\nallow-read = [\"data\"]\n":    `line 2: "data" is not an absolute path`,
			"[workspace]\n[workspace.\"/w\"]\nwrite = [\"/a\"]\n":   `line 3: unknown setting "workspace./w.write"`,
			"a = 1\na = 2\n": "line 2: ",
			"\xff":           "line 1: ",
		} {
			f := writeSandboxFile(t, text)
			_, err := f.Read()
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), string(f)) {
				t.Errorf("%q: got %v, want %s", text, err, want)
			}
			if err := f.Add(absPath("work"), session.Grant{Write: absPath("a")}); err == nil {
				t.Errorf("%q was edited", text)
			}
			if now, _ := os.ReadFile(string(f)); string(now) != text {
				t.Errorf("%q became %q", text, now)
			}
		}
	})

	t.Run("loses no grant when many write at once", func(t *testing.T) {
		f := writeSandboxFile(t, "")
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				if err := f.Add(absPath(fmt.Sprintf("work%d", i%3)), session.Grant{Write: absPath(fmt.Sprint(i))}); err != nil {
					t.Error(err)
				}
				if _, err := f.Read(); err != nil { // never half a file
					t.Error(err)
				}
			})
		}
		wg.Wait()
		n := 0
		for i := range 3 {
			all, err := f.List(absPath(fmt.Sprintf("work%d", i)))
			if err != nil {
				t.Error(err)
			}
			n += len(all)
		}
		if n != 20 {
			t.Errorf("%d of 20 were saved", n)
		}
	})
}
