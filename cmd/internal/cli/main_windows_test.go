package cli

import "path/filepath"

// socketIn is where a daemon of a test listens that has a directory.
func socketIn(dir string) string { return `\\.\pipe\` + filepath.Base(dir) }
