// Package toolenv recognizes virtual environments of Python that were made to run one program.
//
// The package starts no goroutines.
package toolenv

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// InstallerName returns what made the environment in root for one program: "uvx", "uv tool" or "pipx";
// "" if it is none. Those of uvx lie in archive-v0 in the cache of uv. uv marks those of installed
// tools by uv-receipt.toml, and pipx by pipx_metadata.json.
func InstallerName(root string) string {
	if slices.Contains(strings.Split(filepath.ToSlash(root), "/"), "archive-v0") {
		return "uvx"
	}
	for _, made := range []struct{ mark, by string }{{"uv-receipt.toml", "uv tool"}, {"pipx_metadata.json", "pipx"}} {
		if _, err := os.Stat(filepath.Join(root, made.mark)); err == nil {
			return made.by
		}
	}
	return ""
}
