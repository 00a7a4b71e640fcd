// Package systempath finds system programs that this program starts on its own initiative. It
// ignores PATH, because code in a sandbox may write to a directory there, such as that of a virtual
// environment.
package systempath

import (
	"os/exec"
	"path/filepath"
)

// Directories are searched for programs, in this order. No session can write to them.
var Directories = []string{
	"/usr/local/bin", "/usr/bin", "/bin", "/opt/homebrew/bin", "/opt/local/bin", "/run/current-system/sw/bin", "/nix/var/nix/profiles/default/bin",
}

// Find returns the path of a program, or "" if it is not installed.
func Find(name string) string {
	for _, dir := range Directories {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	return ""
}
