package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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
var passage = regexp.MustCompile(`(?s)<!-- until the first release -->\n.*?<!-- then:?\n?(.*?)-->\n?`)

// passageMark is in every page with such a passage.
const passageMark = "<!-- until the first release -->"

// prepareTree changes the files of the working tree for a version, which is then committed and tagged: the
// pages, the heading of the changelog, and the manifests that have the version. It returns their names.
func prepareTree(ctx context.Context, root, version string, day time.Time) ([]string, error) {
	number := strings.TrimPrefix(version, "v")
	pages, err := findPages(ctx, root)
	if err != nil {
		return nil, err
	}
	var changed []string
	for _, page := range pages {
		err := rewriteFile(filepath.Join(root, page), func(text []byte) ([]byte, error) {
			if page == "CHANGELOG.md" {
				return dateChangelog(text, number, day)
			}
			return passage.ReplaceAll(text, []byte("$1")), nil
		}, func() { changed = append(changed, page) })
		if err != nil {
			return nil, fmt.Errorf("%s: %w", page, err)
		}
	}
	return changed, nil
}

// findPages returns the Markdown files that git tracks.
func findPages(ctx context.Context, root string) ([]string, error) {
	list, err := runGit(ctx, root, "ls-files", "--", "*.md")
	return strings.Split(list, "\n"), err
}

// rewriteFile replaces the contents of a file by the result of a function, and calls changed if they differ.
func rewriteFile(name string, edit func([]byte) ([]byte, error), changed func()) error {
	before, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	after, err := edit(before)
	if err != nil || bytes.Equal(before, after) {
		return err
	}
	changed()
	return os.WriteFile(name, after, 0o644)
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
