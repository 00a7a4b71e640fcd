//go:build unix

package supervisor_test

// terminalReaders is code that asks by reading the terminal itself, which is seen
// on this system.
var terminalReaders = []string{"readtty"}
