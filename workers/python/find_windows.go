package python

import (
	"path/filepath"
	"strings"
)

// Installers for Windows put python.exe on PATH and rarely a python3.exe.
var (
	commandNames       = []string{"python", "python3"}
	environmentPythons = []string{`Scripts\python.exe`, "python.exe"}
)

// isStoreAlias reports whether path is an alias for an app, which opens the
// Microsoft Store when that app is not installed: any other Python counts before.
func isStoreAlias(path string) bool {
	return strings.HasSuffix(strings.ToLower(filepath.Dir(path)), `\microsoft\windowsapps`)
}

// dataHome is where uv keeps its data on Windows.
func (f *finder) dataHome() string { return f.Env["APPDATA"] }

// trusted reports whether root can be taken for what the user put into dir.
// Directories of a user on Windows are not writable by others.
func trusted(dir, root string) bool { return true }
