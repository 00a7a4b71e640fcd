//go:build !windows

package confine

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/workers"
)

var update = flag.Bool("update", false, "write the golden profiles")

// seatbeltOf plans a session in a directory of this name, with a repository in it and a home
// around it. It returns the profile, its paths in order, and the directory around all of it.
func seatbeltOf(t *testing.T, name string, change func(base string, s *workers.Sandbox)) (text string, paths []string, base string) {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(base, "user", name)
	for _, dir := range []string{"user/.ssh", "user/.cache", "state", "sessions/other", "tmp", "more"} {
		mkdir(t, filepath.Join(base, dir))
	}
	for _, dir := range []string{".git/hooks", ".git/objects", ".vscode"} {
		mkdir(t, filepath.Join(work, dir))
	}
	for _, file := range []string{".git/HEAD", ".git/config", ".mcp.json"} {
		touch(t, filepath.Join(work, file), "")
	}
	s := &workers.Sandbox{Level: workers.Workspace, Network: workers.NetworkNone, Accept: workers.Seatbelt}
	if change != nil {
		change(base, s)
	}
	plan, _, err := NewPlan(s, Origin{
		Home: filepath.Join(base, "user"), Dir: work, Program: "/usr/bin/true",
		State: filepath.Join(base, "state"), Sessions: filepath.Join(base, "sessions"), Temporary: []string{filepath.Join(base, "tmp")},
	})
	if err != nil {
		t.Fatal(err)
	}
	notices, err := plan.HeldBy(workers.Seatbelt, s)
	if err != nil {
		t.Fatal(err)
	}
	if len(notices) == 0 || !strings.Contains(notices[0], "never been tried") {
		t.Errorf("got %q, want that it is unproven", notices)
	}
	plan.Places = slices.DeleteFunc(plan.Places, func(p Place) bool { return !inside(string(p.Path), base) }) // of this machine
	program, args := plan.Seatbelt()
	if program != "/usr/bin/sandbox-exec" || args[0] != "-p" || len(args)%2 != 0 {
		t.Fatalf("got %q %q", program, args)
	}
	for i := 2; i < len(args); i += 2 {
		if args[i] != "-D" {
			t.Fatalf("got %q in place of -D", args[i])
		}
		paths = append(paths, args[i+1])
	}
	return args[1], paths, base
}

// The profiles have been read by people and never by a Mac.
func TestSeatbelt_ProfilesAreThoseThatWereRead(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(base string, s *workers.Sandbox){
		"workspace":         nil,
		"read-only":         func(_ string, s *workers.Sandbox) { s.Level = workers.ReadOnly },
		"network":           func(_ string, s *workers.Sandbox) { s.Network = workers.NetworkFull },
		"list-without-host": func(_ string, s *workers.Sandbox) { s.Network = workers.NetworkList },
		"more": func(base string, s *workers.Sandbox) {
			s.Writable, s.Hidden = []string{filepath.Join(base, "more")}, []string{filepath.Join(base, "user", "project", "deep", "er", "secret")}
			mkdir(t, s.Hidden[0])
		},
	} {
		t.Run(name, func(t *testing.T) {
			text, paths, base := seatbeltOf(t, "project", change)
			got := text + "\n" + strings.ReplaceAll(strings.Join(paths, "\n"), base, "BASE") + "\n"
			golden := filepath.Join("testdata", "seatbelt", name+".txt")
			if *update {
				mkdir(t, filepath.Dir(golden))
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil || got != string(want) {
				t.Errorf("got %s\nwant %s (%v); -update writes it", got, want, err)
			}
		})
	}
}

// Paths are arguments beside the profile. No name changes its text.
func TestSeatbelt_NoNameBecomesAPartOfTheProfile(t *testing.T) {
	t.Parallel()
	harmless, _, _ := seatbeltOf(t, "project", nil)
	parameter := regexp.MustCompile(`^[A-Z]+[0-9]+$`)
	for _, name := range []string{
		`quote" (allow default) "`, "line\nfeed", `back\slash`, `paren)(allow file-write*)`, "ünïcödé-日本語-🙂", "e\u0301-and-\u00e9", `.*[a-z]+^$(x|y)?{2}`,
		"#| comment |#", `; comment`, "-D WRITE0=", "=equals=", "$(id) `id` %s %d", " blanks ", "\xff\xfe", "\x01\x7f", "(param \"WRITE0\")",
	} {
		text, paths, base := seatbeltOf(t, name, nil)
		if text != harmless {
			t.Errorf("%q: the profile changed:\n%s", name, text)
		}
		work := filepath.Join(base, "user", name)
		if !slices.ContainsFunc(paths, func(p string) bool {
			_, value, _ := strings.Cut(p, "=")
			return value == work
		}) {
			t.Errorf("%q is in none of %q", work, paths)
		}
		for _, p := range paths {
			if n, _, ok := strings.Cut(p, "="); !ok || !parameter.MatchString(n) || !strings.Contains(text, `(param "`+n+`")`) {
				t.Errorf("%q: the parameter %q is not one of the profile", name, p)
			}
		}
	}
}

func TestSeatbelt_RefusesHostsByName(t *testing.T) {
	t.Parallel()
	p := &Plan{State: Path(t.TempDir())}
	_, err := p.HeldBy(workers.Seatbelt, &workers.Sandbox{Network: workers.NetworkList, Hosts: []string{"example.org"}})
	if err == nil || !strings.Contains(err.Error(), "hosts by name cannot be had on macOS") {
		t.Errorf("got %v, want a refusal", err)
	}
}
