package install

import (
	"path/filepath"

	"github.com/turnstone-repl/turnstone/internal/paths"
)

// zedDir returns Zed's settings directory.
func zedDir(p ConfigDirs) string { return filepath.Join(p.Config, "Zed") }

// claudeDir returns Claude Desktop's settings directory. If Claude Desktop was installed as a
// package, as offered since 2026, this is a private directory of the package.
func claudeDir(p ConfigDirs) string {
	packages, _ := filepath.Glob(filepath.Join(p.dirFromEnv("LOCALAPPDATA", filepath.Join(p.Home, `AppData\Local`)), "Packages", "Claude_*"))
	for i, dir := range packages {
		packages[i] = filepath.Join(dir, `LocalCache\Roaming\Claude`)
		if paths.Exists(packages[i]) {
			return packages[i]
		}
	}
	if len(packages) > 0 { // the app has never been started
		return packages[0]
	}
	return filepath.Join(p.Config, "Claude")
}
