package foldedname

import (
	"os"
	"strings"
	"testing"
)

// Each of these names means a protected file on some filesystem. Some filesystems ignore case and
// invisible characters (ext4, f2fs and tmpfs with casefold, ZFS, HFS+). Others ignore trailing dots
// and spaces (FAT, exFAT, SMB).
func TestFoldPath(t *testing.T) {
	t.Parallel()
	for name, others := range map[string][]string{
		"/w/.git/config": {"/W/.GIT/Config", "/w/.g\u200dit/config", "/w/.git/con\ufb01g", "/w/.git./config ", "/w/.git /config. .", "/w/.git/\ufeffconfig", "/w/.git/conﬁg", "/w/.ｇit/config"},
		"/w/.vscode":     {"/w/.v\u017fcode", "/w/.vscode.", "/w/.vsco\u00adde", "/w/.vscode\ufe0f"},
		"/w/hooks":       {"/w/hoo\u212as", "/w/HOO\u212aS."},
		"/w/stra\u00dfe": {"/w/STRASSE", "/w/stra\u1e9ee"},
	} {
		for _, other := range others {
			if FoldPath(other) != FoldPath(name) {
				t.Errorf("%q folds to %q, but %q folds to %q", other, FoldPath(other), name, FoldPath(name))
			}
		}
	}
	for _, name := range []string{"/w/...", "/w/. ", "/w/ü/é", "/", "", "/w/a.b", "/w/\xff"} {
		if got := FoldPath(name); strings.Count(got, "/") != strings.Count(name, "/") || strings.HasSuffix(got, "/") != strings.HasSuffix(name, "/") {
			t.Errorf("%q folds to %q", name, got)
		}
	}
}

func TestIsShortName(t *testing.T) {
	t.Parallel()

	// A short name leads to a file, but is not listed.
	t.Run("protects short names such as GIT~1", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		if err := os.WriteFile(dir+"/GIT~1", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]bool{"GIT~1": false, "NONE~1": false} {
			if got := IsShortName(dir, name); got != want {
				t.Errorf("%s: got %v", name, got)
			}
		}
		if long := dir + "/" + strings.Repeat("a", 256); !IsShortName(long, "GIT~1") {
			t.Error("a name in an unlistable directory counts as listed")
		}
		for name, want := range map[string]bool{"GIT~1": true, "VSCODE~1": true, "MCP~1.JSO": true, "GI1A2B~1": true, "a~b": false, "file.txt~1": false, "x~": false, "HEAD~10": true} {
			if got := shortNamePattern().MatchString(name); got != want {
				t.Errorf("%s: got %v", name, got)
			}
		}
	})
}
