package main

import (
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
)

var linkTarget = regexp.MustCompile(`\]\(([^()\s]+)\)`)

// readReadme returns the README of a directory of the source, as package indexes show it: its links
// into the source tree are absolute, and lead to the tag of the release.
func (s *sourceTree) readReadme(dir string) ([]byte, error) {
	text, err := s.readFile(path.Join(dir, "README.md"))
	if err != nil {
		return nil, err
	}
	var missing error
	text = linkTarget.ReplaceAllFunc(text, func(link []byte) []byte {
		target, err := url.Parse(string(link[2 : len(link)-1]))
		if err != nil || target.IsAbs() || target.Path == "" {
			return link
		}
		name := path.Join(dir, target.Path)
		if _, err := os.Stat(filepath.Join(s.dir, filepath.FromSlash(name))); err != nil {
			missing = fmt.Errorf("%s/README.md links to %s: %w", dir, target, err)
		}
		view := "/blob/"
		if ext := path.Ext(name); ext == ".svg" || ext == ".png" {
			view = "/raw/"
		}
		absolute := homepage + view + s.tag + "/" + name
		if target.Fragment != "" {
			absolute += "#" + target.Fragment
		}
		return []byte("](" + absolute + ")")
	})
	return text, missing
}

// registryMark proves to the MCP registry that a package on PyPI belongs to its entry.
func registryMark() string { return "\n<!-- mcp-name: " + registryName + " -->\n" }

// findExtra returns the data of an extra file.
func (r *release) findExtra(name string) []byte {
	for _, e := range r.extras {
		if e.name == name {
			return e.data
		}
	}
	return nil
}
