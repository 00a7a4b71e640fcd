// Package toolenv recognizes Python virtual environments that were created to run one program.
//
// The package starts no goroutines.
package toolenv

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// InstallerName returns the tool that created the environment in root to run one program: "uvx", "uv
// tool" or "pipx"; "" for other environments. uvx creates environments in archive-v0 in the cache of
// uv. uv marks the environment of an installed tool by uv-receipt.toml, and pipx marks its own by
// pipx_metadata.json.
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
