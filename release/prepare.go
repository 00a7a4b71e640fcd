package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Pages tell the truth before a release and at its tag. A passage that is true only until the first release
// stands between two comments, and the second comment has the text that replaces it:
//
//	<!-- until the first release -->
//	No version is tagged yet.
//	<!-- then:
//	The newest version is on the release page.
//	-->
var passage = regexp.MustCompile(`(?s)<!-- until the first release -->\n.*?<!-- then:\n(.*?)-->\n`)

// passageMark is in every page with such a passage.
const passageMark = "<!-- until the first release -->"

// versionedFiles are the files of the tree that have the version of the next release, as a quoted text.
var versionedFiles = []string{
	"clients/python/turnstone_client/__init__.py", "flake.nix", "gemini-extension.json",
	"plugins/turnstone/.claude-plugin/plugin.json", "plugins/turnstone/.codex-plugin/plugin.json", "release/names.go",
}

// prepareTree changes the files of the working tree for a version, which is then committed and tagged: the
// pages, the heading of the changelog, and the manifests that have the version. It returns their names.
func prepareTree(ctx context.Context, root, version string, day time.Time) ([]string, error) {
	number := strings.TrimPrefix(version, "v")
	pages, err := findPages(ctx, root)
	if err != nil {
		return nil, err
	}
	edits := make(map[string]func([]byte) ([]byte, error))
	for _, page := range pages {
		edits[page] = func(text []byte) ([]byte, error) { return passage.ReplaceAll(text, []byte("$1")), nil }
	}
	edits["CHANGELOG.md"] = func(text []byte) ([]byte, error) { return dateChangelog(text, number, day) }
	for _, name := range versionedFiles {
		edits[name] = func(text []byte) ([]byte, error) { return replaceVersion(text, number) }
	}
	var changed []string
	for _, name := range slices.Sorted(maps.Keys(edits)) {
		differs, err := rewriteFile(filepath.Join(root, name), edits[name])
		if err != nil {
			return changed, fmt.Errorf("%s: %w", name, err)
		}
		if differs {
			changed = append(changed, name)
		}
	}
	return changed, nil
}

// replaceVersion replaces the version of the next release in a file that has it once.
func replaceVersion(text []byte, number string) ([]byte, error) {
	old := []byte(`"` + nextVersion + `"`)
	if n := bytes.Count(text, old); n != 1 {
		return nil, fmt.Errorf("has %d times the version %s, not once", n, old)
	}
	return bytes.Replace(text, old, []byte(`"`+number+`"`), 1), nil
}

// findPages returns the Markdown files that git tracks.
func findPages(ctx context.Context, root string) ([]string, error) {
	list, err := runGit(ctx, root, "ls-files", "--", "*.md")
	return strings.Split(list, "\n"), err
}

// rewriteFile replaces the contents of a file by the result of a function, and reports whether they differ.
func rewriteFile(name string, edit func([]byte) ([]byte, error)) (bool, error) {
	before, err := os.ReadFile(name)
	if err != nil {
		return false, err
	}
	after, err := edit(before)
	if err != nil || bytes.Equal(before, after) {
		return false, err
	}
	return true, os.WriteFile(name, after, 0o644)
}

var unreleased = regexp.MustCompile(`(?m)^## (\[Unreleased\]|\[([^]]+)\] - unreleased)$`)

// dateChangelog gives the changes that are not released yet the version and the day.
func dateChangelog(text []byte, number string, day time.Time) ([]byte, error) {
	heading := unreleased.FindSubmatchIndex(text)
	if heading == nil {
		return nil, fmt.Errorf("has no heading of changes that are not released; add \"## [Unreleased]\"")
	}
	if planned := string(unreleased.FindSubmatch(text)[2]); planned != "" && planned != number {
		return nil, fmt.Errorf("announces version %s, not %s", planned, number)
	}
	dated := fmt.Sprintf("## [%s] - %s", number, day.Format(time.DateOnly))
	return []byte(string(text[:heading[0]]) + dated + string(text[heading[1]:])), nil
}

// checkPrepared reports an error if the source of a version is not prepared for its tag.
func (s *sourceTree) checkPrepared(ctx context.Context) error {
	number := strings.TrimPrefix(s.tag, "v")
	pages, err := findPages(ctx, s.dir)
	if err != nil {
		return err
	}
	for _, page := range pages {
		text, err := s.readFile(page)
		if err != nil {
			return err
		}
		stale := bytes.Contains(text, []byte("\n"+passageMark+"\n"))
		if page == "CHANGELOG.md" {
			stale = !bytes.Contains(text, []byte("\n## ["+number+"] - 2"))
		}
		if stale {
			return fmt.Errorf("%s is not prepared for %s; run `go run -C release . --prepare %s` and commit", page, s.tag, s.tag)
		}
	}
	return nil
}
