package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// Both are for Markdown; the second also matches reference definitions and HTML.
	inlineLink = regexp.MustCompile(`\]\(([^)\s]+)[^)]*\)`)
	otherLink  = regexp.MustCompile(`(?m)(?:^\[[^\]]+\]:\s*|(?:href|src)=")([^"\s]+)`)

	fileOnPage = regexp.MustCompile(`dist/[\w.*\[\]-]+|(?:turnstone[-_](?:repl|client)[-_]\w|Turnstone\.Repl)[\w.*-]*\.(?:tar\.gz|zip|whl|tgz|deb|rpm|rb|json|yaml|mcpb)|SHA256SUMS|Containerfile|(?:docker-mcp-server|conda-recipe)\.yaml`)
)

// relativeLinks returns the targets of links that lead nowhere on a page of an index.
func relativeLinks(markdown string) (targets []string) {
	for _, link := range append(inlineLink.FindAllStringSubmatch(markdown, -1), otherLink.FindAllStringSubmatch(markdown, -1)...) {
		if target := link[1]; !strings.HasPrefix(target, "#") && !strings.HasPrefix(target, "https://") {
			targets = append(targets, target)
		}
	}
	return targets
}

// fileNames returns the names of all files of version 0.1.0: of the release that the tests build, and
// of the targets that it leaves out.
func fileNames(t *testing.T) []string {
	t.Helper()
	built, err := os.ReadDir(releaseDir(t))
	if err != nil {
		t.Fatal(err)
	}
	r := newFakeRelease(t, "0.1.0")
	writeAll(t, r)
	var names []string
	for _, f := range r.files {
		names = append(names, f.name)
	}
	for _, f := range built {
		name := strings.NewReplacer(testNumber, "0.1.0", (&release{version: testNumber}).pythonVersion(), "0.1.0").Replace(f.Name())
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// matching returns the names that a name on a page stands for.
func matching(t *testing.T, names []string, onPage string) (found []string) {
	t.Helper()
	pattern := strings.NewReplacer("VERSION", "0.1.0", "SYSTEM", "*", "ARCH", "*").Replace(strings.TrimSuffix(strings.TrimPrefix(onPage, "dist/"), "."))
	for _, name := range names {
		ok, err := filepath.Match(pattern, name)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			found = append(found, name)
		}
	}
	return found
}

func TestNames(t *testing.T) {
	names := fileNames(t)
	t.Run("on the pages are names of files of a release", func(t *testing.T) {
		pages, err := filepath.Glob("../docs/*.md")
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		for _, page := range append(pages, "../README.md", "../CONTRIBUTING.md", "../clients/python/README.md", "../clients/typescript/README.md") {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range fileOnPage.FindAllString(string(text), -1) {
				seen++
				if len(matching(t, names, name)) == 0 {
					t.Errorf("%s names %s, which is in no release of %q", page, name, names)
				}
			}
		}
		if seen < 10 {
			t.Errorf("the pages name only %d files", seen)
		}
	})

	t.Run("in the workflow are names of files, and each package is published", func(t *testing.T) {
		text, err := os.ReadFile("../.github/workflows/release.yml")
		if err != nil {
			t.Fatal(err)
		}
		published := make(map[string]int)
		for _, pattern := range regexp.MustCompile(`dist/[\w.*\[\]-]+`).FindAllString(string(text), -1) {
			found := matching(t, names, pattern)
			if len(found) == 0 {
				t.Errorf("%s matches no file", pattern)
			}
			for _, name := range found {
				if pattern != "dist/*" {
					published[name]++
				}
			}
		}
		for _, name := range names {
			if end := filepath.Ext(name); (end == ".whl" || end == ".tgz") && published[name] != 1 {
				t.Errorf("%s is published %d times", name, published[name])
			}
		}
		if !strings.Contains(string(text), "gh release create ") || !strings.Contains(string(text), " dist/*\n") {
			t.Error("the workflow does not attach all files")
		}
	})

	t.Run("a file of a release is in no directory, and has a name that no page changes", func(t *testing.T) {
		r := &release{out: t.TempDir()}
		if err := r.writeFile("one", nil); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"one", "npm/two", "../three", "four~rc.1"} {
			if err := r.writeFile(name, nil); err == nil {
				t.Errorf("%s was written", name)
			}
		}
	})
}
