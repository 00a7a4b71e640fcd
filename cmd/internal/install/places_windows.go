package install

import "path/filepath"

// zedDir returns where Zed keeps its settings.
func zedDir(p Places) string { return filepath.Join(p.Config, "Zed") }

// claudeDir returns where Claude Desktop keeps its settings. One that was installed as a
// package, as its makers offer it since 2026, sees a directory of its own in the
// place of the one for all.
func claudeDir(p Places) string {
	packages, _ := filepath.Glob(filepath.Join(p.or("LOCALAPPDATA", filepath.Join(p.Home, `AppData\Local`)), "Packages", "Claude_*"))
	for i, dir := range packages {
		packages[i] = filepath.Join(dir, `LocalCache\Roaming\Claude`)
		if exists(packages[i]) {
			return packages[i]
		}
	}
	if len(packages) > 0 { // it was never started
		return packages[0]
	}
	return filepath.Join(p.Config, "Claude")
}
