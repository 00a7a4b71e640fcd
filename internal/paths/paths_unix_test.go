//go:build unix

package paths_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/paths"
)

// "." and ".." are names like any other.
func TestContains_Unclean(t *testing.T) {
	for _, test := range []struct {
		dir, path string
		want      bool
	}{
		{"/a", "/a/../b", true},
		{"/a/../b", "/b/c", false},
		{".", "a", false},
		{"/a", "/a//b", true},
		{"/a//", "/a/b", false},
	} {
		if got := paths.Contains(test.dir, test.path); got != test.want {
			t.Errorf("%q, %q: got %v, want %v", test.dir, test.path, got, test.want)
		}
	}
}

func TestReal(t *testing.T) {
	t.Chdir(t.TempDir())
	top, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if top, err = filepath.EvalSymlinks(top); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll("dir/sub", 0o700); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{
		"link":     "dir",
		"absolute": filepath.Join(top, "dir"),
		"second":   "link", // a link to a link
		"third":    "second",
		"dangling": "missing",
		"loop":     "loop",
		"dir/up":   "..",
	} {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	in := func(name string) string { return filepath.Join(top, name) }
	for name, test := range map[string]struct{ path, want string }{
		"a directory":                 {in("dir"), in("dir")},
		"a trailing slash":            {in("dir") + "/", in("dir")},
		"a link":                      {in("link"), in("dir")},
		"an absolute link":            {in("absolute"), in("dir")},
		"a link to links":             {in("third"), in("dir")},
		"a link with a slash":         {in("third") + "/", in("dir")},
		"a link on the way":           {in("third/sub"), in("dir/sub")},
		"a link to the parent":        {in("dir/up/dir/sub"), in("dir/sub")},
		"two dots follow the link":    {top + "/third/sub/..", in("dir")},
		"the root":                    {"/", "/"},
		"a relative path":             {"third/sub", "dir/sub"},
		"a relative path to absolute": {"absolute/sub", in("dir/sub")},
		"the current directory":       {".", "."},
	} {
		got, err := paths.Real(test.path)
		if err != nil || got != test.want {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, test.want)
		}
		if got := paths.RealOrSame(test.path); got != test.want {
			t.Errorf("%s: RealOrSame: got %q, want %q", name, got, test.want)
		}
		if got := paths.RealOrEmpty(test.path); got != test.want {
			t.Errorf("%s: RealOrEmpty: got %q, want %q", name, got, test.want)
		}
	}

	for name, path := range map[string]string{
		"absent":                    in("missing"),
		"absent, with a slash":      in("missing") + "/",
		"below an absent directory": in("missing/file"),
		"absent behind a link":      in("third/missing"),
		"a dangling link":           in("dangling"),
		"a link to itself":          in("loop"),
		"not cleaned":               "missing/../also-missing",
	} {
		got, err := paths.Real(path)
		if err == nil {
			t.Errorf("%s: got %q, want an error", name, got)
		} else if name == "absent" && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: got %v, want fs.ErrNotExist", name, err)
		}
		if got := paths.RealOrSame(path); got != path {
			t.Errorf("%s: RealOrSame: got %q, want it unchanged", name, got)
		}
		if got := paths.RealOrEmpty(path); got != "" {
			t.Errorf("%s: RealOrEmpty: got %q, want nothing", name, got)
		}
	}

	if got, err := paths.Real(""); got != "." || err != nil {
		t.Errorf("an empty path: got %q, %v, want the current directory", got, err)
	}
	if got := paths.RealOrSame(""); got != "." {
		t.Errorf("an empty path: RealOrSame: got %q, want the current directory", got)
	}
	if got := paths.RealOrEmpty(""); got != "" {
		t.Errorf("an empty path: RealOrEmpty: got %q, want nothing", got)
	}
}

func TestExists(t *testing.T) {
	dir := t.TempDir()
	link, dangling := filepath.Join(dir, "link"), filepath.Join(dir, "dangling")
	if err := errors.Join(os.Symlink(dir, link), os.Symlink(filepath.Join(dir, "absent"), dangling)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{dir: true, link: true, dangling: false, filepath.Join(dir, "absent"): false, "": false} {
		if got := paths.Exists(path); got != want {
			t.Errorf("%s: got %v", path, got)
		}
	}
}
