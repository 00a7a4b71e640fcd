package install

import "path/filepath"

// zedDir is where Zed keeps its settings.
func zedDir(p Places) string { return filepath.Join(p.Config, "Zed") }
