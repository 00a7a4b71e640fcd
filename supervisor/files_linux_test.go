package supervisor_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
)

// A fileFixture is a session in a sandbox, whose working directory has a repository that somebody
// else has made.
type fileFixture struct {
	s        *supervisor.Session
	work, at string // the working directory, and the directory around it
}

func newFileFixture(t *testing.T, policy sandbox.Policy) *fileFixture {
	t.Helper()
	if why := sandboxcheck.WhyNoNamespaces(); why != "" {
		t.Skip(why)
	}
	at, err := filepath.EvalSymlinks(sandboxcheck.TempDir(t))
	if err != nil {
		t.Fatal(err)
	}
	f := &fileFixture{work: filepath.Join(at, "work"), at: at}
	for _, dir := range []string{"work/.git/hooks", "work/.git/objects", "work/.git/refs", "work/private", "home"} {
		if err := os.MkdirAll(filepath.Join(at, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"work/.git/HEAD": "ref: refs/heads/main\n", "work/.git/config": "[core]\n\trepositoryformatversion = 0\n", "work/private/key": "secret", "work/plain": "plain"} {
		if err := os.WriteFile(filepath.Join(at, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	spec := fakeSpec(nil)
	spec.Dir = f.work
	policy.Network = sandbox.NetworkNone
	policy.Hidden = append(policy.Hidden, filepath.Join(f.work, "private"))
	spec.Sandbox = &policy
	f.s = openSession(t, &supervisor.Options{Env: append(os.Environ(), "HOME="+filepath.Join(at, "home"))}, spec)
	return f
}

func (f *fileFixture) put(t *testing.T, path string) error {
	t.Helper()
	return session.Put(t.Context(), f.s, path, strings.NewReader("new"), &session.PutOptions{Overwrite: true, Parents: true})
}

func TestSandboxedFiles(t *testing.T) {
	t.Parallel()

	t.Run("what the code may not write is refused, whatever the name looks like", func(t *testing.T) {
		t.Parallel()
		f := newFileFixture(t, sandbox.Policy{Level: sandbox.Workspace, Protected: nil})
		for _, path := range []string{
			".git/hooks/pre-commit", ".git/config", ".git/config.worktree", ".git/commondir", ".git/info/attributes", ".git/modules/x/hooks/pre-push",
			".envrc", ".ENVRC", ".Git/hooks/pre-commit", ".vscode/tasks.json", ".git", "sub/.git", "sub2/.git/hooks/pre-commit", "HEAD", ".git/HEAD/x",
		} {
			if err := f.put(t, path); session.KindOf(err) != session.KindNoAccess && !(strings.HasPrefix(path, ".git/HEAD/") || path == ".git") {
				t.Errorf("put %s: got %v", path, err)
			} else if err == nil {
				t.Errorf("put %s succeeded", path)
			}
		}
		for _, path := range []string{".git/config", ".git/HEAD"} {
			if err := f.s.RemoveFile(t.Context(), path); session.KindOf(err) != session.KindNoAccess {
				t.Errorf("remove %s: got %v", path, err)
			}
		}
		left, _ := filepath.Glob(filepath.Join(f.work, ".git", "hooks", "*"))
		more, _ := filepath.Glob(filepath.Join(f.work, "*", ".put-*"))
		for _, name := range append(append(left, more...), filepath.Join(f.work, ".envrc"), filepath.Join(f.work, "HEAD")) {
			if _, err := os.Lstat(name); err == nil {
				t.Errorf("%s exists", name)
			}
		}
		for _, path := range []string{"plain", "new", "dir/new", ".git/refs/new"} {
			if err := f.put(t, path); err != nil {
				t.Errorf("put %s: %v", path, err)
			}
		}
	})

	t.Run("a name is judged when it is used, also in a repository made a moment ago", func(t *testing.T) {
		t.Parallel()
		f := newFileFixture(t, sandbox.Policy{Level: sandbox.Workspace})
		if err := f.put(t, "later/.envrc"); err != nil {
			t.Fatalf("before: %v", err)
		}
		for _, dir := range []string{"objects", "refs", "hooks"} {
			if err := os.MkdirAll(filepath.Join(f.work, "later", ".git", dir), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(f.work, "later", ".git", "HEAD"), []byte("ref: refs/heads/main\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"later/.envrc", "later/.git/hooks/pre-commit"} {
			if err := f.put(t, path); session.KindOf(err) != session.KindNoAccess {
				t.Errorf("put %s: got %v", path, err)
			}
		}
	})

	t.Run("git settings that change between turns count", func(t *testing.T) {
		t.Parallel()
		f := newFileFixture(t, sandbox.Policy{Level: sandbox.Workspace})
		if err := f.put(t, "tools/pre-commit"); err != nil {
			t.Fatalf("before: %v", err)
		}
		if err := os.WriteFile(filepath.Join(f.work, ".git", "config"), []byte("[core]\n\trepositoryformatversion = 0\n\thooksPath = tools\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := f.put(t, "tools/pre-commit"); session.KindOf(err) != session.KindNoAccess {
			t.Errorf("got %v", err)
		}
	})

	t.Run("a read-only session takes nothing, and shows what its code sees", func(t *testing.T) {
		t.Parallel()
		f := newFileFixture(t, sandbox.Policy{Level: sandbox.ReadOnly, Readable: nil})
		if err := f.put(t, "new"); session.KindOf(err) != session.KindNoAccess {
			t.Errorf("put: got %v", err)
		}
		if err := f.s.RemoveFile(t.Context(), "plain"); session.KindOf(err) != session.KindNoAccess {
			t.Errorf("remove: got %v", err)
		}
		var b strings.Builder
		if err := session.Get(t.Context(), f.s, "plain", &b); err != nil || b.String() != "plain" {
			t.Errorf("get: %q, %v", &b, err)
		}
	})

	t.Run("hidden files are neither read nor listed nor written", func(t *testing.T) {
		t.Parallel()
		f := newFileFixture(t, sandbox.Policy{Level: sandbox.ReadOnly})
		if err := os.Symlink("private/key", filepath.Join(f.work, "link")); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"private/key", "link"} {
			var b strings.Builder
			if err := session.Get(t.Context(), f.s, path, &b); session.KindOf(err) != session.KindNoAccess || b.Len() > 0 {
				t.Errorf("get %s: %q, %v", path, &b, err)
			}
		}
		if _, err := f.s.Files(t.Context(), "private"); session.KindOf(err) != session.KindNoAccess {
			t.Errorf("list: got %v", err)
		}
		if err := f.put(t, "private/new"); session.KindOf(err) != session.KindNoAccess {
			t.Errorf("put: got %v", err)
		}
	})

	t.Run("files that only the session has are named", func(t *testing.T) {
		t.Parallel()
		f := newFileFixture(t, sandbox.Policy{Level: sandbox.ReadOnly})
		_ = f
		spec := fakeSpec(nil)
		spec.Dir = "/"
		spec.Sandbox = &sandbox.Policy{Level: sandbox.ReadOnly, Network: sandbox.NetworkNone}
		s := openSession(t, nil, spec)
		_, err := s.Files(t.Context(), "tmp")
		if session.KindOf(err) != session.KindNoAccess || !strings.Contains(err.Error(), "let its code copy the file") {
			t.Errorf("list: got %v", err)
		}
		if err := session.Put(t.Context(), s, "tmp/turnstone-test-"+filepath.Base(f.at), strings.NewReader("x"), nil); session.KindOf(err) != session.KindNoAccess {
			t.Errorf("put: got %v", err)
		}
		for _, path := range []string{"proc/self/environ", "dev/null"} {
			if err := session.Get(t.Context(), s, path, &strings.Builder{}); err == nil {
				t.Errorf("get %s succeeded", path)
			}
		}
	})

	t.Run("a granted directory can be written, but not its hooks", func(t *testing.T) {
		t.Parallel()
		f := newFileFixture(t, sandbox.Policy{Level: sandbox.ReadOnly})
		if _, err := f.s.Wait(t.Context(), 0, nil); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(f.work, "granted")
		if err := os.MkdirAll(filepath.Join(dir, ".git", "hooks"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := f.put(t, "granted/new"); session.KindOf(err) != session.KindNoAccess {
			t.Errorf("before: got %v", err)
		}
		if err := f.s.Allow(t.Context(), session.Grant{Write: dir}); err != nil {
			t.Fatal(err)
		}
		if err := f.put(t, "granted/new"); err != nil {
			t.Errorf("after: %v", err)
		}
		for _, path := range []string{"granted/.git/hooks/pre-commit", "granted/.envrc", "new"} {
			if err := f.put(t, path); session.KindOf(err) != session.KindNoAccess {
				t.Errorf("put %s: got %v", path, err)
			}
		}
	})
}
