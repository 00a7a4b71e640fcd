//go:build !windows

package install

import "path/filepath"

// zedDir returns Zed's directory for settings, which is the same on macOS.
func zedDir(p ConfigDirs) string { return filepath.Join(p.XDG, "zed") }

// claudeDir returns Claude Desktop's directory for settings.
func claudeDir(p ConfigDirs) string { return filepath.Join(p.Config, "Claude") }
