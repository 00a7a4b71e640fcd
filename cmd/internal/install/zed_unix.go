//go:build !windows

package install

import "path/filepath"

// zedDir is where Zed keeps its settings: on macOS too, unlike other applications.
func zedDir(p Places) string { return filepath.Join(p.XDG, "zed") }
