//go:build unix

package supervisor_test

// terminalReaderCode is code that asks by reading the terminal itself, which is seen
// on this system.
var terminalReaderCode = []string{"readtty"}
