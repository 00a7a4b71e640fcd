package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A clonedTree is a clone of this repository at its last commit, which has changes that are not released.
type clonedTree struct {
	*testing.T
	dir     string
	version string // that --prepare accepts, such as 0.1.0
}

func newClonedTree(t *testing.T) *clonedTree {
	t.Helper()
	root, err := runGit(t.Context(), ".", "rev-parse", "--show-toplevel")
	if err != nil {
		t.Skip("there is no repository: ", err)
	}
	c := &clonedTree{t, filepath.Join(t.TempDir(), "turnstone"), "9.9.9"}
	if _, err := runGit(t.Context(), ".", "clone", "--quiet", root, c.dir); err != nil {
		t.Fatal(err)
	}
	changelog := c.read("CHANGELOG.md")
	if planned := unreleased.FindStringSubmatch(changelog); planned == nil { // this commit is prepared
		c.write("CHANGELOG.md", strings.Replace(changelog, "\n## ", "\n## [Unreleased]\n\n- A change.\n\n## ", 1))
		c.run("git commit --quiet -am 'a change'")
	} else if planned[2] != "" {
		c.version = planned[2]
	}
	return c
}

func (c *clonedTree) read(name string) string {
	c.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, name))
	if err != nil {
		c.Fatal(err)
	}
	return string(text)
}

func (c *clonedTree) write(name, text string) {
	c.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o644); err != nil {
		c.Fatal(err)
	}
}

// run returns the output of a script that runs in the clone. A failed command ends the test.
func (c *clonedTree) run(script string) string {
	c.Helper()
	out, err := c.try(script)
	if err != nil {
		c.Fatalf("%v\n%s\n%s", err, script, out)
	}
	return out
}

func (c *clonedTree) try(script string) (string, error) {
	command := exec.CommandContext(c.Context(), "bash", "-euo", "pipefail", "-c", script)
	command.Dir = c.dir
	command.Env = append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org")
	out, err := command.CombinedOutput()
	return string(out), err
}

// pageCommands returns the first block of commands in a section of docs/releasing.md.
func (c *clonedTree) pageCommands(section string) string {
	c.Helper()
	_, text, _ := strings.Cut(c.read("docs/releasing.md"), "\n## "+section+"\n")
	_, text, _ = strings.Cut(text, "\n```sh\n")
	block, _, found := strings.Cut(text, "\n```\n")
	if !found {
		c.Fatalf("docs/releasing.md has no commands in %q", section)
	}
	return strings.ReplaceAll(block, "0.1.0", c.version)
}

func TestReleasingPage(t *testing.T) {
	t.Run("its commands prepare, build and check a version", func(t *testing.T) {
		releaseDir(t) // skips without the tools
		c := newClonedTree(t)
		c.run(c.pageCommands("Prepare"))
		// Building for one system takes a sixth of the time. The rest of these tests build for others.
		build := strings.Replace(c.pageCommands("Build and check"), "--version ", "--only "+hostTarget()+" --version ", 1)
		if out := c.run(build); !strings.HasSuffix(out, "\n42\n") {
			t.Errorf("got %q, want 42 at the end", out)
		}
	})

	t.Run("a prepared tree has no passage of before, and its links lead somewhere", func(t *testing.T) {
		c := newClonedTree(t)
		c.run("go run -C release . --prepare v" + c.version)
		if out, err := c.try("git grep --line-number -e '" + passageMark + "' -e 'first release will' -e 'No version is' -- README.md docs/install.md clients"); err == nil {
			t.Errorf("these passages are left:\n%s", out)
		}
		if text := c.read("CHANGELOG.md"); !regexp.MustCompile(`(?m)^## \[` + regexp.QuoteMeta(c.version) + `\] - 2\d{3}-\d\d-\d\d$`).MatchString(text) {
			t.Error("the changelog has no date")
		}
		c.run("go test ./tests/arch -run '^TestDocuments$' -v | grep '^--- PASS: TestDocuments '")
	})

	t.Run("a tag on a tree that is not prepared is refused", func(t *testing.T) {
		c := newClonedTree(t)
		c.run("git tag v" + c.version)
		out, err := c.try("go run -C release . --version v" + c.version + " --out ../dist")
		if err == nil || !strings.Contains(out, "--prepare v"+c.version) {
			t.Errorf("got %v, %s", err, out)
		}
	})
}

func TestPrepare(t *testing.T) {
	day := time.Date(2030, 1, 2, 23, 0, 0, 0, time.UTC)
	t.Run("replaces each passage by the text in its comment", func(t *testing.T) {
		page := "A\n" + passageMark + "\nbefore\n<!-- then:\nafter\n-->\nB\n" + passageMark + "\n```sh\nx\n```\n<!-- then:\n-->\nC\n"
		if got := passage.ReplaceAllString(page, "$1"); got != "A\nafter\nB\nC\n" {
			t.Errorf("got %q", got)
		}
	})

	t.Run("dates the changes that are not released", func(t *testing.T) {
		for heading, want := range map[string]string{
			"## [Unreleased]":         "## [0.2.0] - 2030-01-02",
			"## [0.2.0] - unreleased": "## [0.2.0] - 2030-01-02",
			"## [0.3.0] - unreleased": "announces version 0.3.0",
			"## [0.2.0] - 2029-12-31": "no heading",
			"## Unreleased things":    "no heading",
		} {
			got, err := dateChangelog([]byte("# C\n\n"+heading+"\n\n- x\n\n## [0.1.0] - 2029-01-01\n"), "0.2.0", day)
			if err != nil && !strings.Contains(err.Error(), want) || err == nil && string(got) != "# C\n\n"+want+"\n\n- x\n\n## [0.1.0] - 2029-01-01\n" {
				t.Errorf("%s: got %q, %v", heading, got, err)
			}
		}
	})

	t.Run("writes the version into each file of the tree that has one", func(t *testing.T) {
		c := newClonedTree(t)
		changed, err := prepareTree(t.Context(), c.dir, "v"+c.version, day)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range versionedFiles {
			if !strings.Contains(c.read(name), `"`+c.version+`"`) {
				t.Errorf("%s lacks version %s; changed were %v", name, c.version, changed)
			}
		}
		if _, err := replaceVersion([]byte("no version"), "0.2.0"); err == nil {
			t.Error("a file without a version is accepted")
		}
	})

	t.Run("refuses a version that no release has", func(t *testing.T) {
		for _, version := range []string{"1.2.3", "v1.2", "v1.2.3-rc.1"} {
			if err := runRelease(t.Context(), []string{"--prepare", version}); err == nil || !strings.Contains(err.Error(), "--prepare") {
				t.Errorf("%s: %v", version, err)
			}
		}
	})
}
