//go:build linux

package mcpclient

import (
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers/python"
)

func TestCallers(t *testing.T) {
	t.Parallel()

	// A caller does not see changes that others have made to a server. When a caller is gone, its servers end.
	t.Run("each caller has its own connections", func(t *testing.T) {
		t.Parallel()
		s := newRudeSet(t, Options{Allow: []string{"*", "moody.wipe"}, CallerOf: func(name string) string {
			caller, _, _ := strings.Cut(name, "-")
			return caller
		}}, "moody")
		sup, err := supervisor.New(&supervisor.Options{Dir: t.TempDir(), Functions: s.Functions()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = sup.Close() })
		open := func(name string) func(code, want string) *supervisor.Session {
			t.Helper()
			one, err := sup.Open(t.Context(), name, python.Spec(python.Options{}))
			if err != nil {
				t.Fatal(err)
			}
			return func(code, want string) *supervisor.Session {
				t.Helper()
				if code == "" {
					return one
				}
				turn, err := one.Submit(t.Context(), code)
				if err != nil {
					t.Fatal(err)
				}
				reply, err := one.Wait(t.Context(), turn, nil)
				if err != nil || !strings.Contains(reply.Text(), want) {
					t.Errorf("%s: %s: got %v, %s, want %s", name, code, err, reply.Text(), want)
				}
				return one
			}
		}
		ada, ada2, bob := open("ada-main"), open("ada-other"), open("bob-main")
		for _, one := range []func(string, string) *supervisor.Session{ada, ada2, bob} {
			one("from turnstone.tools import moody; hasattr(moody, 'added')", "False")
		}
		ada("moody.wipe(zeta='')\nwhile not hasattr(moody, 'added'): pass\nmoody.added('')", "ran added")
		ada2("while not hasattr(moody, 'added'): pass\nmoody.added('')", "ran added")
		bob("moody.echo('a'), hasattr(moody, 'added')", "False)")
		gone := s.forSession(bob("", ""))
		if err := bob("", "").Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		open("eve-main")("from turnstone.tools import moody; moody.echo('e')", `{"zeta":"e"}`)
		<-gone.ctx.Done()
		ada("moody.echo('still')", `{"zeta":"still"}`)
	})

	// A server without tools for code also ends with its caller.
	t.Run("a server without tools ends with its caller", func(t *testing.T) {
		t.Parallel()
		s := newRudeSet(t, Options{CallerOf: func(name string) string { return name }}, "toolless")
		sup, err := supervisor.New(&supervisor.Options{Dir: t.TempDir(), Functions: s.Functions()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = sup.Close() })
		for _, name := range []string{"bob", "eve"} {
			one, err := sup.Open(t.Context(), name, python.Spec(python.Options{}))
			if err != nil {
				t.Fatal(err)
			}
			turn, err := one.Submit(t.Context(), "from turnstone.tools import toolless")
			if err != nil {
				t.Fatal(err)
			}
			if reply, err := one.Wait(t.Context(), turn, nil); err != nil || !strings.Contains(reply.Text(), "offers no tools") {
				t.Errorf("got %v, %s", err, reply.Text())
			}
			if err := one.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.callers["bob"] != nil {
			t.Error("the server of a caller that has gone still exists")
		}
	})
}
