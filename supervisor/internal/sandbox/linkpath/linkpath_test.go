//go:build !windows

package linkpath

import (
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/paths"
)

// The kernel follows a link before a ".." that comes after it.
func TestLinkChain(t *testing.T) {
	t.Parallel()
	dir := paths.RealOrEmpty(t.TempDir())
	if err := errors.Join(
		os.MkdirAll(dir+"/a/deep", 0o755),
		os.WriteFile(dir+"/a/file", nil, 0o644),
		os.Symlink("a/deep", dir+"/deep"),
		os.Symlink("deep/../file", dir+"/dots"),
		os.Symlink(dir+"/dots", dir+"/twice"),
		os.Symlink("circle", dir+"/circle"),
	); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][]string{
		"a/file": {"a/file"}, "a/none/x": {"a/none/x"}, "deep": {"deep", "a/deep"}, "deep/none": {"deep", "a/deep/none"},
		"dots": {"dots", "deep", "a/file"}, "twice": {"twice", "dots", "deep", "a/file"},
	} {
		for i := range want {
			want[i] = dir + "/" + want[i]
		}
		if got := LinkChain(dir + "/" + path); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
	if got := LinkChain(dir + "/circle/x"); got[len(got)-1] != "" {
		t.Errorf("a loop leads to %q", got[len(got)-1])
	}
}

// A session can make its workspace a directory in which the user creates no names.
func TestIsBelowUserDir(t *testing.T) {
	t.Parallel()
	dir := paths.RealOrEmpty(t.TempDir()) + "/shut"
	if err := os.Mkdir(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	if !IsBelowUserDir(dir + "/link") {
		t.Error("a directory that the user owns but cannot write counts as another user's")
	}
	if os.Geteuid() != 0 && IsBelowUserDir("/usr/bin/link") {
		t.Error("a system directory counts as the user's")
	}
}
