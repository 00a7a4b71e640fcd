//go:build !windows

package install

import "path/filepath"

// zedDir returns where Zed keeps its settings: on macOS too, unlike other applications.
func zedDir(p Places) string { return filepath.Join(p.XDG, "zed") }

// claudeDir returns where Claude Desktop keeps its settings.
func claudeDir(p Places) string { return filepath.Join(p.Config, "Claude") }
