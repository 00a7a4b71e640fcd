package agents

import "path/filepath"

// testSocket returns the pipe for a test's daemon, named after the test's directory.
func testSocket(dir string) string { return `\\.\pipe\` + filepath.Base(dir) }
