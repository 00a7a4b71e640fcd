//go:build !windows

package install

import "path/filepath"

// zedDir is where Zed keeps its settings: on macOS too, unlike other applications.
func zedDir(p Places) string { return filepath.Join(p.XDG, "zed") }

// claudeDir is where Claude Desktop keeps its settings.
func claudeDir(p Places) string { return filepath.Join(p.Config, "Claude") }
