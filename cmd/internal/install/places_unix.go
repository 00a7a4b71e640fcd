//go:build !windows

package install

import "path/filepath"

// zedDir returns Zed's settings directory, which is the same on macOS.
func zedDir(p ConfigDirs) string { return filepath.Join(p.XDG, "zed") }

// claudeDir returns Claude Desktop's settings directory.
func claudeDir(p ConfigDirs) string { return filepath.Join(p.Config, "Claude") }
