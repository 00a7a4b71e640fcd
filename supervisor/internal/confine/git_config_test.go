//go:build !windows

package confine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const settingsBefore = `[core]
	repositoryformatversion = 0
	bare = false
	hooksPath = .husky # ours
[remote "origin"]
	url = https://example.org/a
	fetch = +refs/heads/*:refs/remotes/origin/*
[branch "main"]
	remote = origin
	merge = refs/heads/main
[alias]
	x = "!sh -c 'ls'"
`

func TestMayBecome_LetsPlainSettingsChangeAlone(t *testing.T) {
	t.Parallel()
	for _, added := range []string{
		"", "[user]\n\tname = A B\n\temail = a@example.org\n", "[branch \"side\"]\n\tremote = origin\n\tmerge = refs/heads/side\n",
		"[remote \"other\"]\n\turl = git@example.org:a\n\tfetch = +refs/heads/*:refs/remotes/other/*\n", "[pull]\n\trebase = true\n", "[submodule \"a/b\"]\n\tactive = true\n\turl = https://example.org/b\n",
	} {
		if !mayBecome([]byte(settingsBefore), []byte(settingsBefore+added)) {
			t.Errorf("%q is refused", added)
		}
		if !mayBecome([]byte(settingsBefore), []byte(added+settingsBefore)) && added != "" {
			t.Errorf("%q in front is refused", added)
		}
	}
	set := settingsBefore + "[user]\n\tname = A\n"
	if !mayBecome([]byte(set), []byte(settingsBefore)) || !mayBecome([]byte(set), []byte(settingsBefore+"[user]\n\tname = B\n")) {
		t.Error("a name cannot be changed or removed")
	}
}

func TestMayBecome_RefusesProgramsAndOtherForms(t *testing.T) {
	t.Parallel()
	for _, added := range []string{
		"[core]\n\tfsmonitor = x\n", "[core]\n\thooksPath = x\n", "[CORE]\n\tpager = x\n", "[core] fsmonitor = x\n", "[core]fsmonitor = x\n", "[include]\n\tpath = x\n", "[alias]\n\ty = x\n",
		"[filter \"x\"]\n\tclean = x\n", "[filter.x]\n\tclean = x\n", "[remote \"o\"]\n\turl = ext::sh -c x\n", "[remote \"o\"]\n\tuploadpack = x\n", "[remote \"o\"]\n\turl = -x\n",
		"[remote \"o\"]\n\tfetch = +refs/heads/*:refs/heads/*\n", "[branch \"main\"]\n\tremote = other\n", "[remote \"origin\"]\n\turl = https://example.com/\n", "[user]\n\tname = \"A\"\n", "[user]\n\tname = A # x\n",
		"[user]\n\tname = A\\\n[core]\n\tfsmonitor = x\n", "[user]\n\tname = A\\\r\n\tfsmonitor = x\n", "[user]\n\tname = A\r[core]\n\tfsmonitor = x\n", "[user]\n    name = A\n", "[submodule \"a\"]\n\tupdate = !x\n",
		"[user \"a\\\"]\n\tname = A\n", "\ufeff[core]\n\tfsmonitor = x\n", "; a comment\n", "[core]\n\tworktree = /x\n", "[core]\n\tbare = true\n", "[extensions]\n\tworktreeConfig = true\n",
	} {
		if mayBecome([]byte(settingsBefore), []byte(settingsBefore+added)) {
			t.Errorf("%q is let through", added)
		}
	}
	for _, now := range []string{
		"", "[core]\n\tbare = false\n", settingsBefore[:len(settingsBefore)-1] + "\\\n", strings.Replace(settingsBefore, "[core]\n", "[core]\n[alias]\n", 1),
	} {
		if mayBecome([]byte(settingsBefore), []byte(now)) {
			t.Errorf("%q is let through", now)
		}
	}
	if mayBecome([]byte("[user]\n\tname = A\\\n"), []byte("[user]\n\tname = A\\\n\temail = x\n")) {
		t.Error("a setting that goes on is continued")
	}
}

// A worker of the session may have made a link in the directory, which the next one's settings must not
// follow.
func TestWriteSettings_FollowsNoLink(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), t.TempDir()
	target := filepath.Join(home, "target")
	touch(t, target, "mine")
	touch(t, filepath.Join(home, ".Renviron"), "A=1\n")
	for range 2 {
		written, err := WriteSettings(home, dir, nil)
		if err != nil || written[".Renviron"] == "" {
			t.Fatalf("got %q, %v", written, err)
		}
		if text, _ := os.ReadFile(written[".Renviron"]); string(text) != "A=1\n" {
			t.Errorf("got %q", text)
		}
		if err := os.Remove(written[".Renviron"]); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, written[".Renviron"]); err != nil {
			t.Fatal(err)
		}
	}
	if text, _ := os.ReadFile(target); string(text) != "mine" {
		t.Errorf("the link's target has %q", text)
	}
}
