package install

import "path/filepath"

// zedDir returns Zed's directory for settings.
func zedDir(p ConfigDirs) string { return filepath.Join(p.Config, "Zed") }

// claudeDir returns Claude Desktop's directory for settings. If it was installed as a
// package, as offered since 2026, it has a private one instead of the usual one.
func claudeDir(p ConfigDirs) string {
	packages, _ := filepath.Glob(filepath.Join(p.dirFromEnv("LOCALAPPDATA", filepath.Join(p.Home, `AppData\Local`)), "Packages", "Claude_*"))
	for i, dir := range packages {
		packages[i] = filepath.Join(dir, `LocalCache\Roaming\Claude`)
		if pathExists(packages[i]) {
			return packages[i]
		}
	}
	if len(packages) > 0 { // it was never started
		return packages[0]
	}
	return filepath.Join(p.Config, "Claude")
}
