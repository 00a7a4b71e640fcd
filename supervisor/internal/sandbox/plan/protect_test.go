//go:build !windows

package plan

import (
	"path/filepath"
	"slices"
	"testing"
)

// Git runs the value of a setting through a shell, so a program can be named in many ways.
func TestProgramsIn(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	for _, name := range []string{"t/x", "a b/x", "conv", "x.py", "lib/Clean.pm", "clean/data", "Makefile"} {
		writeText(t, filepath.Join(work, name), "")
	}
	for _, c := range []struct{ key, value, want string }{
		{"filter.l.clean", "./t/x -v", "t/x"},
		{"filter.l.clean", "t/../t/./x", "t/x"},
		{"filter.l.clean", "env A=b ./t/x", "t/x"},
		{"filter.l.clean", "sh -c 'exec \"$0\"' ./t/x", "t/x"},
		{"filter.l.clean", `./a\ b/x`, "a b/x"},
		{"filter.l.clean", `./"a b"/x`, "a b/x"},
		{"filter.l.clean", "sh conv", "conv"},
		{"filter.l.clean", "python3 x.py", "x.py"},
		{"alias.run", "!sh x.py", "x.py"},
		{"filter.l.clean", "cd t && ./x", "t/x"},
		{"filter.l.clean", `cd "$(git rev-parse --show-toplevel)/t" && ./x`, "t/x"},
		{"filter.l.clean", "PATH=./t:$PATH x", "t/x"},
		{"filter.l.clean", "awk -ft/x", "t/x"},
		{"filter.l.clean", "jq --from-file=t/x .", "t/x"},
		{"filter.l.clean", "perl -I./lib -MClean", "lib"},
		{"filter.l.clean", "./t/*.sh", "t"},
		{"filter.l.clean", "python3 ./t", "t"},
		{"filter.l.clean", `"$HOME/other/job/t/x"`, "t/x"},
		{"filter.l.clean", "`git rev-parse --show-toplevel`/t/x", "t/x"},
		{"filter.l.clean", "./t/later", "t/later"},
		{"pager.status", "./t/later", "t/later"},
		{"remote.o.url", "ext::./t/x %S", "t/x"},
		{"init.templatedir", "t", "t"},
	} {
		if got := (&repoSearch{p: &planner{}}).programsIn(c.key, c.value, work); !slices.Contains(got, filepath.Join(work, c.want)) {
			t.Errorf("%s = %s: got %q, want %s", c.key, c.value, got, c.want)
		}
	}
	for _, c := range []struct{ key, value string }{
		{"filter.lfs.clean", "git-lfs clean -- %f"}, // a directory of that name holds data
		{"branch.main.merge", "refs/heads/main"},
		{"alias.l", "log clean conv"},
		{"core.worktree", "./t"},
		{"user.name", "conv"},
		{"remote.o.url", "https://example.org/t/later"},
	} {
		if got := (&repoSearch{p: &planner{}}).programsIn(c.key, c.value, work); len(got) > 0 {
			t.Errorf("%s = %s: got %q, want none", c.key, c.value, got)
		}
	}
}
