//go:build unix

package agents

import "path/filepath"

// testSocket returns the socket for a test's daemon, in the test's directory.
func testSocket(dir string) string { return filepath.Join(dir, "d", "s") }
