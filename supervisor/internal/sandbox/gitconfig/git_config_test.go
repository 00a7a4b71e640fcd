//go:build !windows

package gitconfig

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

func TestGitConfigChange(t *testing.T) {
	t.Parallel()

	t.Run("allows only plain settings to change", func(t *testing.T) {
		t.Parallel()
		for _, added := range []string{
			"", "[user]\n\tname = A B\n\temail = a@example.org\n", "[branch \"side\"]\n\tremote = origin\n\tmerge = refs/heads/side\n",
			"[remote \"other\"]\n\turl = git@example.org:a\n\tfetch = +refs/heads/*:refs/remotes/other/*\n", "[pull]\n\trebase = true\n", "[submodule \"a/b\"]\n\tactive = true\n\turl = https://example.org/b\n",
		} {
			if !isAllowedChange([]byte(settingsBefore), []byte(settingsBefore+added)) {
				t.Errorf("%q was refused", added)
			}
			if !isAllowedChange([]byte(settingsBefore), []byte(added+settingsBefore)) && added != "" {
				t.Errorf("%q at the start was refused", added)
			}
		}
		set := settingsBefore + "[user]\n\tname = A\n"
		if !isAllowedChange([]byte(set), []byte(settingsBefore)) || !isAllowedChange([]byte(set), []byte(settingsBefore+"[user]\n\tname = B\n")) {
			t.Error("a name cannot be changed or removed")
		}
	})

	t.Run("refuses programs and unusual forms", func(t *testing.T) {
		t.Parallel()
		for _, added := range []string{
			"[core]\n\tfsmonitor = x\n", "[core]\n\thooksPath = x\n", "[CORE]\n\tpager = x\n", "[core] fsmonitor = x\n", "[core]fsmonitor = x\n", "[include]\n\tpath = x\n", "[alias]\n\ty = x\n",
			"[filter \"x\"]\n\tclean = x\n", "[filter.x]\n\tclean = x\n", "[remote \"o\"]\n\turl = ext::sh -c x\n", "[remote \"o\"]\n\tuploadpack = x\n", "[remote \"o\"]\n\turl = -x\n",
			"[remote \"o\"]\n\tfetch = +refs/heads/*:refs/heads/*\n", "[branch \"main\"]\n\tremote = other\n", "[remote \"origin\"]\n\turl = https://example.com/\n", "[user]\n\tname = \"A\"\n", "[user]\n\tname = A # x\n",
			"[user]\n\tname = A\\\n[core]\n\tfsmonitor = x\n", "[user]\n\tname = A\\\r\n\tfsmonitor = x\n", "[user]\n\tname = A\r[core]\n\tfsmonitor = x\n", "[user]\n    name = A\n", "[submodule \"a\"]\n\tupdate = !x\n",
			"[user \"a\\\"]\n\tname = A\n", "\ufeff[core]\n\tfsmonitor = x\n", "; a comment\n", "[core]\n\tworktree = /x\n", "[core]\n\tbare = true\n", "[extensions]\n\tworktreeConfig = true\n",
		} {
			if isAllowedChange([]byte(settingsBefore), []byte(settingsBefore+added)) {
				t.Errorf("%q was allowed", added)
			}
		}
		for _, now := range []string{
			"", "[core]\n\tbare = false\n", settingsBefore[:len(settingsBefore)-1] + "\\\n", strings.Replace(settingsBefore, "[core]\n", "[core]\n[alias]\n", 1),
		} {
			if isAllowedChange([]byte(settingsBefore), []byte(now)) {
				t.Errorf("%q was allowed", now)
			}
		}
		if isAllowedChange([]byte("[user]\n\tname = A\\\n"), []byte("[user]\n\tname = A\\\n\temail = x\n")) {
			t.Error("a setting with a continuation line was allowed")
		}
	})

	// In a repository that it created, the session may set more, but nothing that names a program
	// or files of others.
	t.Run("allows more in the session's own repository", func(t *testing.T) {
		t.Parallel()
		own := RepoOwner{IsOwn: true, IsWorkTreeOf: func(tree string) bool { return tree == "../tree" }}
		const plain = "# a comment\n[core]\n\trepositoryformatversion = 0\n\tbare = true\n\tworktree = ../tree\n[remote \"o\"]\n\turl = ../b\n\tfetch = +refs/*:refs/*\n\tmirror = true\n[submodule \"s\"]\n\tupdate = rebase\n"
		for _, c := range [][2]string{{"", plain}, {plain, ""}, {plain, strings.Replace(plain, "../b", "../c", 1)}, {settingsBefore, strings.Replace(settingsBefore, "example.org", "example.com", 1)}} {
			if setting, refused := RefusedSetting([]byte(c[0]), []byte(c[1]), own); refused {
				t.Errorf("%q was refused because of %s", c[1], setting)
			}
		}
		for _, now := range []string{
			settingsBefore, "[core]\n\tfsmonitor = x\n", "[core]\n\tworktree = ../other\n", "[core]\n\thooksPath = x\n", "[submodule \"s\"]\n\tupdate = !x\n", "[include]\n\tpath = x\n", "[alias]\n\tx = y\n", "[remote \"o\"]\n\turl = ext::x\n",
			"[remote \"o\"]\n\tpushurl = -x\n", "[remote \"o\"]\n\turl =  -x\n", "[core]\n\tbare = true # \\\n\tfsmonitor = x\n", "# a comment\\\n[core]\n\tbare = true\n", "[core]\n\teditor = x\n", "[uploadpack]\n\tpackObjectsHook = x\n", "[gpg]\n\tprogram = x\n", "[user]\n\tname = \"A\"\n",
		} {
			if _, refused := RefusedSetting(nil, []byte(now), own); !refused {
				t.Errorf("%q was allowed", now)
			}
		}
	})

	// Settings of a work tree in a foreign repository do not change where it is pushed.
	t.Run("keeps push targets of another owner's work tree", func(t *testing.T) {
		t.Parallel()
		added := RepoOwner{IsOwn: true, IsAddedTree: true}
		if setting, refused := RefusedSetting(nil, []byte("[core]\n\tsparseCheckout = true\n[index]\n\tsparse = true\n"), added); refused {
			t.Errorf("%s was refused", setting)
		}
		for _, now := range []string{"[remote \"origin\"]\n\tpushurl = x\n", "[remote \"origin\"]\n\turl = x\n", "[remote]\n\tpushDefault = x\n", "[branch \"main\"]\n\tremote = x\n", "[submodule \"s\"]\n\turl = x\n"} {
			for _, o := range []RepoOwner{added, {IsAddedTree: true}} {
				if _, refused := RefusedSetting(nil, []byte(now), o); !refused {
					t.Errorf("%q was allowed", now)
				}
			}
		}
	})

	// Settings in a form that git does not write exist as well: a session must not add them again.
	t.Run("adds nothing that exists in another form", func(t *testing.T) {
		t.Parallel()
		const remote, branch = "[remote \"origin\"]\n\turl = https://example.org/b\n", "[branch \"main\"]\n\tremote = other\n"
		for _, c := range []struct{ before, added string }{
			{"[remote \"origin\"]\n    url = https://example.org/a\n", remote}, {"[remote \"origin\"]\n\turl=https://example.org/a\n", remote}, {"[remote \"origin\"]\n\tURL = \"https://example.org/a\"\n", remote},
			{"[remote \"origin\"] url = https://example.org/a\n", remote}, {"[remote.origin]\n\turl = https://example.org/a\n", remote}, {" [Remote \"origin\"]\n\turl = https://example.org/a\n", remote},
			{"[branch \"main\"]\n  remote = origin\n", branch}, {"[branch \"main\"]\n\tremote = origin ; ours\n", branch},
		} {
			if isAllowedChange([]byte(c.before), []byte(c.before+c.added)) || isAllowedChange([]byte(c.before), []byte(c.added+c.before)) {
				t.Errorf("%q was added to %q", c.added, c.before)
			}
		}
		const before = "[remote \"origin\"]\n    url = https://example.org/a\n[branch \"main\"]\n\tvscode-merge-base = origin/main\n\t# remote = x\n"
		for _, added := range []string{"[remote \"other\"]\n\turl = https://example.org/b\n", "[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n"} {
			if !isAllowedChange([]byte(before), []byte(before+added)) {
				t.Errorf("%q was refused", added)
			}
		}
	})

	// Git must read accepted settings as the check does: they differ only in plain settings.
	t.Run("reads accepted settings as git does", func(t *testing.T) {
		t.Parallel()
		if _, err := exec.LookPath("git"); err != nil {
			t.Skip("git is not installed")
		}
		file := filepath.Join(t.TempDir(), "config")
		list := func(text string) (all []string) {
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command("git", "config", "--file", file, "-z", "--list").Output()
			if err != nil {
				return nil // git reads nothing of it, and runs nothing
			}
			return strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 })
		}
		pieces := []string{
			"[core]", "[user]", "[USER]", "[branch \"x\"]", "[remote \"o\"]", "[alias]", "[user \"a]b\"]", "[user.x]", "[user] ", " [core]", "\n", "\n", "\r\n", "\r", "\\", "\\\n", "\"", "#", ";", "\t", " ", "=", " = ",
			"\tname = A", "\tname", "\tfsmonitor = x", "fsmonitor = x", "\tremote = o", "\turl = x", "# x", "\tbare = true", "\teditor = x", "\tx = !y", "\ufeff", "\u00a0", "\x00", "\x0b", "\x0c", "]", "[",
		}
		random := rand.New(rand.NewPCG(1, 2))
		for _, c := range []struct {
			before, from string
			owner        RepoOwner
		}{{settingsBefore, settingsBefore, RepoOwner{}}, {"", "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = https://example.org/a\n", RepoOwner{IsOwn: true}}} {
			isPlain := func(entry string) bool {
				key, _, _ := strings.Cut(entry, "\n")
				section, rest, _ := strings.Cut(key, ".")
				return c.owner.isSettable(section, rest[strings.LastIndexByte(rest, '.')+1:])
			}
			let := 0
			for range 4000 {
				now := c.from
				if random.IntN(2) == 0 {
					now += "[user]\n\tname = A\n"
				}
				for range 1 + random.IntN(5) {
					at := random.IntN(len(now) + 1)
					if i := strings.IndexByte(now[at:], '\n'); i >= 0 && random.IntN(4) > 0 {
						at += i + 1 // most begin a line
					}
					piece := pieces[random.IntN(len(pieces))]
					if random.IntN(2) == 0 {
						piece += "\n"
					}
					now = now[:at] + piece + now[at:]
				}
				if _, refused := RefusedSetting([]byte(c.before), []byte(now), c.owner); refused || now == c.before {
					continue
				}
				if let++; let > 200 {
					break
				}
				got := slices.DeleteFunc(list(now), isPlain)
				if want := slices.DeleteFunc(list(c.before), isPlain); got != nil && !slices.Equal(got, want) {
					t.Errorf("%q was allowed: git reads %q, and before %q", now, got, want)
				}
			}
			if let < 50 {
				t.Errorf("only %d forms were allowed", let)
			}
		}
	})
}

// isAllowedChange reports whether a session may replace old settings by new ones.
func isAllowedChange(old, now []byte) bool {
	_, refused := RefusedSetting(old, now, RepoOwner{})
	return !refused
}
