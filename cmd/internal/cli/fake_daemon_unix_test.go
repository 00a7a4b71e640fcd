//go:build unix

package cli

import "path/filepath"

// testSocket returns the socket for a test's daemon, in the test's directory.
func testSocket(dir string) string { return filepath.Join(dir, "d", "s") }
