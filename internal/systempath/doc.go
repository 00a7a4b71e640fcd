// Package systempath finds programs of the machine that this one runs by itself. It does not use PATH: a
// directory there, such as a virtual environment's, may be one that code in a sandbox writes.
package systempath

import (
	"os/exec"
	"path/filepath"
)

// Directories are where programs are looked for, in this order. No session writes them.
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
