package cli

import "path/filepath"

// testSocket is where a daemon of a test listens that has a directory.
func testSocket(dir string) string { return `\\.\pipe\` + filepath.Base(dir) }
